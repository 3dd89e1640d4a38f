"""What a missing extra's message tells a user to type is what installs it, however lancens came here."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from reconciler.errors import MissingExtraError, install_command

ROOT = Path(__file__).parents[2]


class Installed:
    """A distribution of which only where it came from matters."""

    def __init__(self, origin: object) -> None:
        self._origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self._origin is None else json.dumps(self._origin)


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'lancens[glue]'"),
        ({"url": "file:///my%20src/lancens", "dir_info": {"editable": True}}, "pip install -e '/my src/lancens[glue]'"),
        ({"url": "file:///src/lancens", "dir_info": {}}, "pip install '/src/lancens[glue]'"),
        ({"url": "file:///tmp/lancens-0.1.0-py3-none-any.whl", "archive_info": {}}, "pip install 'lancens[glue]'"),
        (
            {"url": "https://example.com/lancens.git", "vcs_info": {"vcs": "git", "commit_id": "1"}},
            "pip install 'lancens[glue] @ git+https://example.com/lancens.git'",
        ),
    ],
)
def test_the_command_names_where_lancens_came_from(
    monkeypatch: pytest.MonkeyPatch, origin: object, command: str
) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda _: Installed(origin))

    assert install_command("glue") == command
    assert (
        str(MissingExtraError("impl `glue`", "glue")) == f"impl `glue` needs packages that are not installed: {command}"
    )


def pip(*arguments: str) -> str:
    ran = subprocess.run([sys.executable, "-m", *arguments], cwd="/", capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


@pytest.mark.end_to_end
def test_the_command_works_as_it_is_written_from_this_checkout() -> None:
    command = shlex.split(install_command("glue"))
    assert command[-1] == f"{ROOT}[glue]"
    said = pip(*command, "--dry-run", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
    assert "does not provide the extra" not in said


@pytest.mark.end_to_end
def test_the_command_works_as_it_is_written_from_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
    pip("pip", "wheel", *offline, "--wheel-dir", str(tmp_path), str(ROOT))
    monkeypatch.setattr(metadata, "distribution", lambda _: Installed(None))
    command = shlex.split(install_command("glue"))
    target = str(tmp_path / "installed")
    said = pip(*command, "--dry-run", "--target", target, "--find-links", str(tmp_path), *offline[:2])
    assert "Would install lancens-" in said
    assert "does not provide the extra" not in said
