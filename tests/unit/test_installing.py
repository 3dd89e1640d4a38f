"""What a missing extra's message tells a user to type is what installs it, from a checkout and from an index."""

from __future__ import annotations

import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from reconciler.errors import MissingExtraError

ROOT = Path(__file__).parents[2]
OFFLINE = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")

pytestmark = pytest.mark.end_to_end


def pip(*arguments: str) -> str:
    ran = subprocess.run([sys.executable, "-m", *arguments], cwd="/", capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


def command() -> list[str]:
    """Return the command at the end of the message."""
    return shlex.split(str(MissingExtraError("impl `glue`", "glue")).partition("not installed: ")[2])


def test_the_command_works_as_it_is_written_from_this_checkout() -> None:
    assert command() == ["pip", "install", f"{ROOT}[glue]"]
    assert "does not provide the extra" not in pip(*command(), "--dry-run", *OFFLINE)


def test_the_command_works_as_it_is_written_from_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class FromIndex:
        """A distribution that pip found in an index."""

        def read_text(self, _: str) -> None:
            return None

    pip("pip", "wheel", *OFFLINE, "--wheel-dir", str(tmp_path), str(ROOT))
    monkeypatch.setattr(metadata, "distribution", lambda _: FromIndex())
    assert command() == ["pip", "install", "lancens[glue]"]
    said = pip(*command(), "--dry-run", "--target", str(tmp_path / "there"), "--find-links", str(tmp_path), *OFFLINE)
    assert "Would install lancens-" in said
    assert "does not provide the extra" not in said
