"""A disk that fills up at any byte: nothing unreadable is committed, and the next apply makes it whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import reconciler
from tests.soak import sampled
from tests.writing import load_manifest

# Writes beyond this size of a file fail, as on a full disk; Python ignores the signal that comes with it.
_APPLY = """
import resource, sys
import lance
from reconciler.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
main(["apply", "--auto-approve", "--journal", "journal"])
"""


@pytest.mark.parametrize("largest", sampled(range(0, 2_000, 100), 4))
def test_a_disk_that_fills_up_leaves_a_catalog_that_can_be_read(tmp_path: Path, largest: int) -> None:
    tables = {"users": {"properties": {"tier": "gold"}}, "events": {"schema": [{"name": "id", "type": "int64"}]}}
    lake = {"impl": "dir", "config": {"root": "./lake"}, "namespaces": {"a": {"tables": tables}}}
    manifest = load_manifest(tmp_path, {"lake": lake})
    done = subprocess.run(
        [sys.executable, "-c", _APPLY, str(largest)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1)
    assert "Traceback" not in done.stdout + done.stderr
    assert reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journal").ok
    assert reconciler.plan(manifest).changes == ()
