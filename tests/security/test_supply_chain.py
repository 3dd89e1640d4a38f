"""What is installed and run is what was reviewed: every file by its hash, every action by its commit."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from reconciler.action.install import InstallError, install, installation_of, locked_requirements
from reconciler.model.errors import MissingExtraError

ROOT = Path(__file__).parents[2]


def _entries(text: str) -> dict[str, str]:
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    return {block.partition("==")[0].partition("[")[0]: block for block in blocks if "==" in block}


def test_the_action_installs_what_the_lock_says_by_its_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    listed: list[str] = []

    def run(command: list[str], *_: object) -> None:
        ran.append(command)
        if "venv" in command:
            Path(command[-1]).mkdir()
        if "-r" in command:
            listed.append(Path(command[-1]).read_text())
        if "download" in command:
            wheels.mkdir(exist_ok=True)
            for entry in _entries(listed[-1]):
                (wheels / f"{entry.replace('-', '_')}-1-py3-none-any.whl").touch()
            (wheels / "markupsafe-1-py3-none-any.whl").rename(wheels / "markupsafe-1.tar.gz")

    monkeypatch.setattr("reconciler.action.install.run_pip", run)
    environment = {"INPUT_EXTRAS": "glue", "LANCENS_ACTION_PATH": str(ROOT), "RUNNER_TEMP": str(tmp_path)}
    wheels = installation_of(environment).wheels
    assert install(installation_of(environment), environment)
    _, download, dependencies, without_wheel, itself = ran
    assert {"--require-hashes", "--no-deps"} <= set(download) & set(dependencies) & set(without_wheel)
    offline = {"--no-index", "--find-links", str(wheels)}
    assert offline <= set(dependencies) & set(itself)
    assert not offline & set(without_wheel)
    assert {"--no-deps", "--no-build-isolation"} <= set(itself)
    assert {path.suffix for path in wheels.iterdir()} == {".whl", ""}
    assert set(_entries(listed[2])) == {"markupsafe"}
    assert set(_entries(listed[1])) == set(_entries(listed[0])) - {"markupsafe"}
    entries = _entries(listed[0])
    assert {"boto3", "pylance", "pydantic", "hatchling"} <= set(entries)
    assert not {"pyspark", "pytest", "moto", "uvicorn"} & set(entries)
    assert all("--hash=sha256:" in entry for entry in entries.values())


@pytest.mark.parametrize("extras", [[], ["glue"], ["rest", "hive"], ["spark"], ["server"], ["all"]])
def test_the_locked_part_is_closed(extras: list[str]) -> None:
    """Whatever an entry is there for is there itself, so that nothing is left to be looked up without a hash."""
    whole = _entries((ROOT / "requirements.lock").read_text())
    part = _entries(locked_requirements(str(ROOT), extras))
    for name, entry in whole.items():
        wanted_by = set(re.findall(r"^    # via (\S+)|^    #   (\S+)", entry, re.MULTILINE))
        if any(set(filter(None, names)) & set(part) for names in wanted_by):
            assert name in part


def test_an_unknown_extra_is_refused() -> None:
    with pytest.raises(InstallError, match="there is no `gleu`; there are all, "):
        locked_requirements(str(ROOT), ["gleu"])


def test_a_file_that_is_another_one_is_not_installed(tmp_path: Path) -> None:
    """An index, or somebody on the way to it, hands out a file of its own under the right name."""
    entry = _entries(locked_requirements(str(ROOT), []))["markupsafe"]
    name = entry.split(" ")[0].replace("==", "-")
    with zipfile.ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("markupsafe.py", "raise SystemExit('owned')")
        info = f"{name}.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: markupsafe\nVersion: 3.0.4\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    (tmp_path / "locked.txt").write_text(entry)
    command = [sys.executable, "-I", "-m", "pip", "install", "--no-index", "--find-links", str(tmp_path), "--no-deps"]
    ran = subprocess.run(
        [*command, "--require-hashes", "--target", str(tmp_path / "to"), "-r", str(tmp_path / "locked.txt")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode
    assert "DO NOT MATCH THE HASHES" in ran.stdout + ran.stderr
    assert not (tmp_path / "to/markupsafe.py").exists()


@pytest.mark.parametrize("planted", ["another wheel", "unpacked code", "no mark"])
def test_a_cached_file_that_is_not_in_the_lock_is_never_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], *_: object) -> None:
        ran.append(command)
        if "venv" in command:
            Path(command[-1]).mkdir()
        if "download" in command:
            assert not wheels.exists(), "nothing of the cache is left"

    monkeypatch.setattr("reconciler.action.install.run_pip", run)
    environment = {"LANCENS_ACTION_PATH": str(ROOT), "RUNNER_TEMP": str(tmp_path)}
    wheels = installation_of(environment).wheels
    wheels.mkdir()
    if planted == "another wheel":
        (wheels / "click-9-py3-none-any.whl").write_bytes(b"owned")
    if planted == "unpacked code":
        (wheels / "click").mkdir()
    if planted != "no mark":
        (wheels / "lancens-complete").touch()
    assert install(installation_of(environment), environment)
    assert "download" in ran[1]


def test_a_checkout_is_not_told_to_install_a_package_of_that_name() -> None:
    """The first to register the name would be run."""
    assert str(MissingExtraError("`lancens serve`", "server")).endswith(f"pip install '{ROOT}[server]'")


def test_every_action_is_named_by_its_commit() -> None:
    """A tag can be moved by anyone with access to its repository."""
    places = [ROOT / "action.yml", ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    places += [*(ROOT / "examples/github").glob("*.yml"), *(ROOT / ".github/workflows").glob("*.yml")]
    used = [
        (place.name, name)
        for place in places
        for name in re.findall(r"^[\s-]*uses: *(\S+)", place.read_text(), re.MULTILINE)
    ]
    assert used
    commits = re.compile(r"[\w./-]+@([0-9a-f]{40}|RELEASE_COMMIT)")
    assert [one for one in used if not one[1].startswith("./") and not commits.fullmatch(one[1])] == []


def test_the_audit_of_what_is_locked_fails_where_it_can_audit_nothing() -> None:
    """Without `--strict`, pip-audit passes over what its index of advisories does not answer for."""
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    (command,) = re.findall(r"pip-audit==.*", text)
    assert {"--strict", "--require-hashes", "--disable-pip"} <= set(command.split())
