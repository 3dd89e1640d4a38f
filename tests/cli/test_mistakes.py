"""What a stranger's mistakes are told, message by message; `mistakes.yaml` has them.

``LANCENS_GOLDEN=write pytest tests/cli/test_mistakes.py`` writes the messages anew; read each one that changed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import lancens

_FILE = Path(__file__).with_name("mistakes.yaml")
_GIVEN: dict[str, Any] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are read."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _Dumper.represent_text)


@pytest.mark.parametrize("name", _GIVEN["mistakes"])
def test_a_mistake_gets_its_message(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mistake = _GIVEN["mistakes"][name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for path, content in {"lancens.yaml": _GIVEN["manifest"], **mistake.get("files", {})}.items():
        Path(path).parent.mkdir(exist_ok=True)
        if content is not None:
            Path(path).write_bytes(content if isinstance(content, bytes) else content.encode())
    *_, ran = [lancens(capsys, *command.split()) for command in mistake["commands"]]
    said = "".join(f"{line.rstrip()}\n" for line in ran.err.replace(str(tmp_path), "HERE").splitlines())
    if os.environ.get("LANCENS_GOLDEN") == "write":
        mistake |= {"code": ran.code, "says": said}
        text = yaml.dump(_GIVEN, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10_000)
        _FILE.write_text(text, encoding="utf-8")
    assert (said, ran.code) == (mistake["says"], mistake["code"])
