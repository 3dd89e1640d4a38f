"""What an inventory prints as JSON is text, whatever a catalog calls its objects."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from reconciler.pipeline.sinks import _write_json
from tests.security.hostile import EVIL, EVIL_NAME, assert_harmless


def test_rows_of_a_hostile_catalog_are_text(tmp_path: Path) -> None:
    text = EVIL.replace("\ud800", "")
    row = {"kind": "table", "name": EVIL_NAME, "error": None, "properties": {text: text, "a": "##[error]forged"}}
    _write_json([row], tmp_path / "rows.json", pa.schema([]))
    shown = (tmp_path / "rows.json").read_text("utf-8")
    assert_harmless(shown)
    assert json.loads(shown) == {key: value for key, value in row.items() if value is not None}
