"""What tests of the command line share: the folder of a user."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Give the current folder: an empty one but for ``lancens.yaml``, the ``MANIFEST`` of the test's module."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lancens.yaml").write_text(request.module.MANIFEST, "utf-8")
    return tmp_path
