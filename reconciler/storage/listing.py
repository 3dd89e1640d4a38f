"""List the files of a dataset once, and read what they say of its versions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from reconciler.storage.files import local_path, resolve_location, session_at, session_of, version_of
from reconciler.storage.footers import writer_of

VERSIONS = "_versions"
MAIN = ""
"""The folder of the main branch, below the dataset. Other branches have ``tree/NAME/``."""

_HINT, _TRANSACTIONS = "latest_version_hint.json", "_transactions/"
_FIRST_WITH_HINT = 7


def sizes_by_path(dataset: Any) -> dict[str, int]:
    """List a ``lance.LanceDataset``; return the bytes of each file by its path."""
    sizes: dict[str, int] = {}
    for batch in dataset.all_files():
        columns = (batch.column(name).to_pylist() for name in ("path", "size_bytes"))
        sizes.update(zip(*columns, strict=True))
    return sizes


class FileListing:
    """The files of a dataset, listed once, to check any of its versions against."""

    def __init__(self, dataset: Any, location: str, options: Mapping[str, str]) -> None:
        self.file_sizes: Mapping[str, int] = sizes_by_path(dataset)
        self.location, self.options = location, options
        self.place = resolve_location(location)
        self._session = dataset.new_file_session()
        self._sessions: dict[str, Any] = {}

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The bytes of each file and of each folder, by path."""
        sums = Counter[str]()
        for path, size in self.file_sizes.items():
            sums[path.rpartition("/")[0]] += size
        return {**sums, **self.file_sizes}

    def versions(self, branch_folder: str = MAIN) -> dict[int, str]:
        """Return the path of the manifest of each listed version of a branch."""
        folder = f"{branch_folder}{VERSIONS}/"
        inside = {path: path.removeprefix(folder) for path in self.file_sizes if path.startswith(folder)}
        return {number: path for path, name in inside.items() if (number := version_of(name)) is not None}

    def last_known_version(self, branch_folder: str = MAIN) -> int:
        """Return the latest version that a branch certainly had, even if its manifest is lost; 0 if unknown.

        It is in Lance's hint file. Without one, transaction files name the versions that they read; the version that
        the last of them wrote may never have been committed.
        """
        hint, folder = f"{branch_folder}{VERSIONS}/{_HINT}", branch_folder + _TRANSACTIONS
        if hint in self.file_sizes:
            named = self.document(hint).get("version")
            return named if isinstance(named, int) else 0
        read = (path.removeprefix(folder).partition("-")[0] for path in self.file_sizes if path.startswith(folder))
        return max((int(number) for number in read if number.isdecimal()), default=0)

    def is_later_uncertain(self, version: Any) -> bool:
        """Return whether a later version than the latest may have been committed, and its manifest and hint are lost.

        On a disk, Lance has written the hint after each commit since version 7; elsewhere it has none. A transaction
        has begun the later version.
        """
        hint, manifest = f"{VERSIONS}/{_HINT}", self.versions().get(version.version)
        if hint in self.file_sizes or manifest is None or local_path(self.location) is None:
            return False
        if self.last_known_version() != version.version:
            return False
        try:
            writer = writer_of(self.content(manifest))
        except (OSError, LookupError, ValueError):
            return False
        return writer is not None and writer >= _FIRST_WITH_HINT

    def document(self, path: str) -> Mapping[str, Any]:
        """Read a small file of JSON; return an empty mapping if it is not a readable JSON object."""
        try:
            document = json.loads(self.content(path))
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def content(self, path: str) -> bytes:
        """Return the content of a small file."""
        session, name = self.session_of("", path)
        content: bytes = session.read_range(name, 0, self.file_sizes[path])
        return content

    def session_of(self, base: str, path: str) -> tuple[Any, str]:
        """Return access to a file of ``base``, and the path to read there."""

        def shared() -> Any:
            return self._sessions.setdefault(base, session_at(base, self.options)) if base else self._session

        return session_of(path, shared, base or self.location, self.options)
