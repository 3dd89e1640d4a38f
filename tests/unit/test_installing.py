"""What a missing extra's message tells a user to type is what installs it, from a checkout and from an index."""

from __future__ import annotations

import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from reconciler.model.errors import MissingExtraError

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


# ---- what is said where a package is missing

WITHOUT = """
import sys
from importlib import metadata

sys.modules |= dict.fromkeys({modules!r})  # as if they were not there
from reconciler.cli import main
try:
    main({arguments!r})
finally:
    metadata.PathDistribution.read_text = lambda one, name, read=metadata.PathDistribution.read_text: (
        None if name == "direct_url.json" else read(one, name)
    )
    main({arguments!r})
"""
"""Runs a command as if lancens came from a checkout, and again as if it came from an index."""
MISSING = [
    ("impl `glue`", "glue", {"boto3", "botocore"}, "import --impl glue --config region=eu-west-1"),
    ("impl `hive2`", "hive", {"thrift"}, "import --impl hive2 --config uri=thrift://127.0.0.1:1"),
    ("impl `hive3`", "hive", {"thrift"}, "import --impl hive3 --config uri=thrift://127.0.0.1:1"),
    ("impl `iceberg`", "rest", {"requests"}, "import --impl iceberg --config endpoint=http://127.0.0.1:1"),
    (
        "impl `unity`",
        "rest",
        {"requests"},
        "import --impl unity --config endpoint=http://127.0.0.1:1 --config catalog=main",
    ),
    ("impl `rest`", "rest", {"requests"}, "import --impl rest --config uri=http://127.0.0.1:1"),
    ("`lancens serve`", "server", {"starlette", "uvicorn"}, "serve --impl dir --config root=."),
    ("Spark", "spark", {"pyspark"}, "audit --engine spark --impl dir --config root=."),
]


@pytest.mark.parametrize(("what", "extra", "modules", "typed"), MISSING, ids=[one[0].strip("`") for one in MISSING])
def test_a_missing_package_is_said_with_the_command_that_installs_it(
    tmp_path: Path, what: str, extra: str, modules: set[str], typed: str
) -> None:
    text = WITHOUT.format(modules=modules, arguments=typed.split())
    ran = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False)
    said = [
        f"{what} needs packages that are not installed: pip install '{where}[{extra}]'" for where in (ROOT, "lancens")
    ]
    assert (ran.returncode, ran.stdout, ran.stderr.splitlines()) == (1, "", said)
