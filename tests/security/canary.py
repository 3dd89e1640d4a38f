"""Secrets that can be found again wherever they went, in whatever form."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Canaries"]

_WORD_BYTES = 8


@dataclass
class Canaries:
    """Values by name. Each has a word of letters and digits in it, which URLs, forms and JSON leave as it is."""

    values: dict[str, str] = field(default_factory=dict)
    _marks: dict[str, frozenset[bytes]] = field(default_factory=dict)

    def new(self, name: str, form: str = "{}") -> str:
        """Make a secret; ``form`` says what stands around its word."""
        word = secrets.token_hex(_WORD_BYTES)
        return self.known(name, form.format(word), word)

    def known(self, name: str, value: str, word: str = "") -> str:
        """Count what others have made as a secret; ``word`` is the part of it to look for."""
        self.values[name] = value
        self._marks[name] = frozenset(_marks((word or value).encode()))
        return value

    def in_text(self, text: str) -> set[str]:
        """Return the names of the secrets that a text holds, as they are or encoded."""
        return self.in_bytes(text.encode("utf-8", "surrogatepass"))

    def in_bytes(self, data: bytes) -> set[str]:
        """Return the names of the secrets that ``data`` holds, as they are or encoded."""
        return {name for name, marks in self._marks.items() if any(mark in data for mark in marks)}

    def in_files(self, folder: Path, leaving_out: Iterable[Path]) -> dict[str, set[str]]:
        """Return the files below ``folder`` that hold secrets, and which; tables are unpacked."""
        found: dict[str, set[str]] = {}
        left_out = [path.resolve() for path in leaving_out]
        for path in sorted(folder.rglob("*")):
            if any(path.resolve().is_relative_to(other) for other in left_out):
                continue
            there = self.in_text(path.name)
            if path.suffix in (".lance", ".parquet"):
                there |= self.in_text(_rows(path))
            if path.is_file():
                there |= self.in_bytes(path.read_bytes())
            if there:
                found[str(path.relative_to(folder))] = there
        return found


def _marks(word: bytes) -> Iterator[bytes]:
    """Yield what is there of ``word`` in a text that holds it as it is, in hexadecimal digits, or in base64."""
    yield word
    yield word.hex().encode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            # The characters at its ends are also of what stands beside it.
            first, last = -(-before * 8 // 6), (before + len(word)) * 8 // 6
            yield encode(bytes(before) + word)[first:last]


def _rows(path: Path) -> str:
    """Return what a dataset or a file of Parquet holds, which is compressed in its files."""
    if path.is_dir() and (path / "_versions").is_dir():
        import lance

        dataset = lance.dataset(str(path))
        return json.dumps([str(dataset.schema), dataset.to_table().to_pylist()], default=str)
    if path.is_file() and path.suffix == ".parquet":
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(path)
        return json.dumps([str(table.schema.metadata), table.to_pylist()], default=str)
    return ""
