"""Install lancens for the Action, in a virtual environment of its own.

Any Python 3 runs this as a script, with the standard library only, before lancens is installed. The step `locate`
prints where the environment and its wheels belong, so that GitHub's cache can restore the wheels. The step `install`
creates the environment if it is missing. Environment variables say what to install.

The environment is named after a digest of its content, so that it can be reused from the runner's tool cache, which
self-hosted runners keep. GitHub's cache holds the downloaded wheels only. Any workflow that can write to it can guess
the key, so each wheel is checked against the hashes of the lock before it is unpacked.

The workspace may be a checkout of untrusted code, so nothing is imported, looked up or configured from it: every
interpreter is isolated, works in its own folder, and gets no variable that names the workspace.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_OLDEST = (3, 11)
_SPARK_EXTRA = "spark"
_COMPLETE = "lancens-complete"
_DIGITS = 32
_LOCK = "requirements.lock"
_PROJECT = ("LICENSE", "README.md", "pyproject.toml", _LOCK)
_ENTRY = re.compile(r"[A-Za-z0-9._-]+(\[[^]]*\])?==")
_DEPENDENT = re.compile(r"^    # (?:via| ) (\S+)", re.MULTILINE)


class InstallError(Exception):
    """lancens cannot be installed as asked."""


def locked_requirements(action_path: str, extras: "Collection[str]") -> str:
    """Return the entries of the lock that lancens with ``extras`` needs.

    They are those needed to run and to build it.
    Raises:
        InstallError: the project has no such extra.
    """
    import tomllib  # Python 3.10 has none, and installation_of reports that first

    project = tomllib.loads(Path(action_path, "pyproject.toml").read_text("utf-8"))
    entries: dict[str, list[str]] = {}
    for block in _entries(Path(action_path, _LOCK).read_text("utf-8")):
        entries.setdefault(_project_name(block), []).append(block)
    dependents = {
        name: set(map(_project_name, _DEPENDENT.findall("".join(blocks)))) for name, blocks in entries.items()
    }
    needed: set[str] = set()
    added = _direct_dependencies(project, extras) | set(map(_project_name, project["build-system"]["requires"]))
    while added:
        needed |= added
        added = {name for name, needed_by in dependents.items() if name not in needed and needed_by & needed}
    return "".join(block for name, blocks in entries.items() if name in needed for block in blocks)


def _entries(lock: str) -> "list[str]":
    """Return the entries of a lock, each with its hashes and comments."""
    return [block for block in re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE) if _ENTRY.match(block)]


def _direct_dependencies(project: "Mapping[str, Any]", extras: "Collection[str]") -> "set[str]":
    """Return the direct dependencies of ``project``, a `pyproject.toml`.

    Raises:
        InstallError: it has no such extra.
    """
    optional = project["project"]["optional-dependencies"]
    unknown = sorted(set(extras) - set(optional))
    if unknown:
        raise InstallError(f"input `extras`: there is no `{unknown[0]}`; there are {', '.join(sorted(optional))}")
    requirements = list(project["project"]["dependencies"])
    for extra in extras:
        for requirement in optional[extra]:
            reference = re.match(r"lancens\[([^]]*)\]", requirement)
            if reference:
                requirements += [nested for name in reference[1].split(",") for nested in optional[name.strip()]]
            else:
                requirements.append(requirement)
    return set(map(_project_name, requirements))


def _project_name(requirement: str) -> str:
    """Return the normalised project name of a requirement."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]).lower()


@dataclass(frozen=True)
class Installation:
    """Where lancens is installed, and where its wheels are cached.

    ``folder`` is the virtual environment, ``wheels`` a folder, and ``key`` their key in GitHub's cache. ``folder`` is
    None if the runner's own Python has lancens already. ``key`` is empty if nothing is cached.
    """

    extras: "tuple[str, ...]" = ()
    folder: "Path | None" = None
    wheels: Path = Path()
    key: str = ""

    @property
    def python(self) -> str:
        """The interpreter that runs lancens."""
        return sys.executable if self.folder is None else str(self.folder / "bin" / "python")

    @property
    def is_complete(self) -> bool:
        """Whether the installation exists and is complete."""
        return self.folder is None or (self.folder / _COMPLETE).exists()


def installation_of(environment: "Mapping[str, str]") -> Installation:
    """Return where to install lancens.

    It depends on the inputs of the step, the runner's Python and the files of the Action.

    Raises:
        InstallError: the runner's Python is too old, or an input cannot be used.
    """
    if sys.version_info < _OLDEST:
        running = ".".join(map(str, sys.version_info[:2]))
        raise InstallError(f"the runner's Python is {running}; lancens needs 3.11: set the input `python-version`")
    if _switch("preinstalled", environment, default="false"):
        return Installation()
    extras = set(environment.get("INPUT_EXTRAS", "").replace(",", " ").split())
    if environment.get("INPUT_ENGINE", "").strip() == "spark":
        extras.add(_SPARK_EXTRA)
    sorted_extras = tuple(sorted(extras))
    action_path = environment["LANCENS_ACTION_PATH"]
    # A virtual environment depends on the version and the path of its Python.
    digest = hashlib.sha256("\0".join((sys.version, sys.executable, sysconfig.get_platform())).encode())
    lock = locked_requirements(action_path, sorted_extras)
    digest.update(lock.encode())
    for path in _sources(action_path):
        digest.update(f"\0{path}\0".encode() + Path(action_path, path).read_bytes())
    use_cache = _switch("cache", environment, default="true")
    scratch = environment["RUNNER_TEMP"]
    folder = Path(_tool_cache(environment) if use_cache else scratch, f"lancens-{digest.hexdigest()[:_DIGITS]}")
    # Wheels depend on less than the environment does.
    wheels_for = (*map(str, sys.version_info[:2]), sysconfig.get_platform(), *platform.libc_ver(), lock)
    key = f"lancens-wheels-{hashlib.sha256(chr(0).join(wheels_for).encode()).hexdigest()[:_DIGITS]}"
    return Installation(sorted_extras, folder, Path(scratch, key), key if use_cache else "")


def _switch(name: str, environment: "Mapping[str, str]", *, default: str) -> bool:
    text = environment.get(f"INPUT_{name.upper()}", "").strip().lower() or default
    if text not in ("true", "false"):
        raise InstallError(f"input `{name}`: expected true or false")
    return text == "true"


def _tool_cache(environment: "Mapping[str, str]") -> str:
    """Return the runner's tool cache, or a temporary folder if it is unsafe."""
    tools = environment.get("RUNNER_TOOL_CACHE", "")
    workspace = os.path.realpath(environment.get("GITHUB_WORKSPACE") or os.curdir)
    inside = Path(os.path.realpath(tools)).is_relative_to(workspace)
    if os.path.isabs(tools) and not inside:  # noqa: PTH117 - an empty Path is a dot
        try:
            Path(tools).mkdir(parents=True, exist_ok=True)
        except OSError:
            return environment["RUNNER_TEMP"]
        if os.access(tools, os.W_OK):
            return tools
    return environment["RUNNER_TEMP"]


def _sources(action_path: str) -> "list[str]":
    """Return the files of the checkout that lancens is built from."""
    top = Path(action_path)
    package = (path for path in (top / "reconciler").rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sorted(path.relative_to(top).as_posix() for path in (*package, *(top / name for name in _PROJECT)))


def install(installation: Installation, environment: "Mapping[str, str]") -> bool:
    """Install lancens if it is missing, and return whether wheels were downloaded.

    The environment is renamed into place, so that a concurrent job sees all of it or nothing.

    Raises:
        InstallError: pip failed.
    """
    if installation.folder is None or installation.is_complete:
        return False
    installation.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{installation.folder.name}-", dir=installation.folder.parent) as scratch:
        built = Path(scratch, "made")
        downloaded = _create_environment(built, installation, environment)
        (built / _COMPLETE).touch()
        if installation.folder.exists() and not installation.is_complete:
            shutil.rmtree(installation.folder, ignore_errors=True)
        try:
            built.rename(installation.folder)
        except OSError as error:
            if not installation.is_complete:
                raise InstallError(f"{installation.folder} cannot be created: {error.strerror}") from None
    return downloaded


def _create_environment(folder: Path, installation: Installation, environment: "Mapping[str, str]") -> bool:
    """Create the environment ``folder``; return whether wheels were downloaded."""
    action_path = environment["LANCENS_ACTION_PATH"]
    isolated = isolated_environment(environment)
    run_pip([sys.executable, "-I", "-m", "venv", str(folder)], isolated, "creating a virtual environment")
    python = str(folder / "bin" / "python")
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-deps"]
    pip = [python, "-I", "-m", "pip", "install", *quiet]
    offline = [*pip, "--no-index", "--find-links", str(installation.wheels)]
    with tempfile.TemporaryDirectory() as scratch:
        lock = locked_requirements(action_path, installation.extras)
        # The lock has the hash of every file that may be installed, whether it was cached or not.
        requirements_file = Path(scratch, "locked.txt")
        hashed = ["--require-hashes", "-r", str(requirements_file)]
        downloads = not _is_intact(installation.wheels, lock)
        if downloads:
            shutil.rmtree(installation.wheels, ignore_errors=True)
            requirements_file.write_text(lock, "utf-8")
            download = [python, "-I", "-m", "pip", "download", *quiet, "--dest", str(installation.wheels)]
            run_pip([*download, *hashed], isolated, "downloading the dependencies of lancens")
            installation.wheels.mkdir(exist_ok=True)
            for file in installation.wheels.iterdir():
                if file.suffix != ".whl":
                    file.unlink()
            (installation.wheels / _COMPLETE).touch()
        cached = {_project_name(path.name.partition("-")[0]) for path in installation.wheels.glob("*.whl")}
        # Projects without wheels, such as PySpark, are built, and their build tools come from the index.
        for pip_install, has_wheel in ((offline, True), (pip, False)):
            entries = [entry for entry in _entries(lock) if (_project_name(entry) in cached) is has_wheel]
            if entries:
                requirements_file.write_text("".join(entries), "utf-8")
                run_pip([*pip_install, *hashed], isolated, "installing the dependencies of lancens")
        # lancens is built from a copy of the checkout, which other jobs may build at the same time.
        copy = Path(scratch, "lancens")
        for path in _sources(action_path):
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(action_path, path), copy / path)
        run_pip([*offline, "--no-build-isolation", str(copy)], isolated, "installing lancens")
    return downloads


def _is_intact(wheels: Path, lock: str) -> bool:
    """Return whether the downloads are complete, and the hash of each is in ``lock``."""
    if not (wheels / _COMPLETE).is_file():
        return False
    files = (path for path in wheels.iterdir() if path.name != _COMPLETE)
    return all(path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() in lock for path in files)


def isolated_environment(environment: "Mapping[str, str]") -> "dict[str, str]":
    """Return the part of ``environment`` that an installer may see.

    Indexes, proxies and certificates that the runner's owner or the workflow has set stay. Variables that configure
    Python, name the workspace, or name a file of settings by a relative path are removed.
    """
    workspace = environment.get("GITHUB_WORKSPACE") or os.curdir
    variables = {
        name: value
        for name, value in environment.items()
        if not name.startswith(("PYTHON", "BASH_FUNC_")) and (name == "PATH" or workspace not in value)
    }
    for name in ("PIP_CONFIG_FILE", "UV_CONFIG_FILE"):
        if not os.path.isabs(variables.get(name, "")):  # noqa: PTH117 - an empty Path would be a dot
            variables.pop(name, None)
    return {**variables, "PYTHONSAFEPATH": "1"}


def run_pip(command: "list[str]", environment: "Mapping[str, str]", task: str) -> None:
    """Run ``command`` in an empty folder.

    Raises:
        InstallError: the command failed; the error names the ``task``.
    """
    with tempfile.TemporaryDirectory() as folder:
        # pip's own output in the log says why it failed.
        process = subprocess.run(command, cwd=folder, env=environment, check=False)  # noqa: S603 - no shell
    if process.returncode:
        raise InstallError(f"{task} failed; see above")


def main(step: str) -> int:
    """Run the step `locate` or `install`, write its outputs, return its exit code."""
    started = time.time()
    try:
        installation = installation_of(os.environ)
        outputs = {
            "python": installation.python,
            "runner-python": sys.executable,
            "folder": str(installation.folder or ""),
            "wheels": str(installation.wheels),
            "key": installation.key,
            "there": str(installation.is_complete).lower(),
            "started": f"{started:.3f}",
        }
        if step == "install":
            result = "installed already" if installation.is_complete else "installed"
            outputs = {"downloaded": str(install(installation, os.environ)).lower()}
            print(f"lancens is {result} ({time.time() - started:.1f} s)")
    except InstallError as error:
        print(f"::error title=lancens::{error}")
        return 1
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as opened:
        opened.writelines(f"{name}={value}\n" for name, value in outputs.items())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
