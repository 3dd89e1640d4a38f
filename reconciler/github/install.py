"""Install lancens for the Action, in an environment of its own; needs nothing but the standard library.

Run as a script by any Python 3, before lancens is there. What to install comes in environment variables.

The workspace may be anybody's checkout, so nothing is imported, looked up or configured from it: every interpreter is
isolated, works in a folder of its own, and gets no variable that names the workspace.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

_OLDEST = (3, 11)
_EXTRAS = re.compile(r"[a-z0-9-]+")
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!]*")
_AUDITING = "spark"
PREINSTALLED = "preinstalled"
"""The ``version`` that stands for what the runner's Python already has."""


_LOCK = "requirements.lock"
_ENTRY = re.compile(r"([A-Za-z0-9._-]+)(\[[^]]*\])?==")
_VIA = re.compile(r"^    # via (\S+)|^    #   (\S+)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class InstallError(Exception):
    """lancens cannot be installed as asked."""


def requirement(version: str, extras: str, action_path: str) -> str:
    """Return what pip is to install.

    Args:
        version: of the release on PyPI; empty for the Action's own checkout.
        extras: names, separated by commas or spaces.
        action_path: where the Action's own checkout is.

    Raises:
        InstallError: version or extras are none.
    """
    names = extras.replace(",", " ").split()
    wrong = [name for name in names if not _EXTRAS.fullmatch(name)]
    if wrong:
        raise InstallError("input `extras`: expected names such as glue, hive or rest, separated by commas")
    listed = f"[{','.join(names)}]" if names else ""
    if not version:
        return f"{action_path}{listed}"
    if not _VERSION.fullmatch(version):
        raise InstallError(f"input `version`: expected a release such as 1.2.0, or {PREINSTALLED}")
    return f"lancens{listed}=={version}"


def locked(action_path: str, extras: "Collection[str]") -> str:
    """Return the part of the checkout's lock that lancens needs with ``extras``, and what builds it: every hash in it.

    Raises:
        InstallError: the checkout has no such extra.
    """
    import tomllib  # not before it is known that this Python has it

    project = tomllib.loads(Path(action_path, "pyproject.toml").read_text("utf-8"))
    entries: dict[str, list[str]] = {}
    for block in re.split(r"^(?=[A-Za-z0-9])", Path(action_path, _LOCK).read_text("utf-8"), flags=re.MULTILINE):
        found = _ENTRY.match(block)
        if found:
            entries.setdefault(_plain(found[1]), []).append(block)
    needed: set[str] = set()
    todo = _direct(project, extras) | {_plain(_name(one)) for one in project["build-system"]["requires"]}
    while todo:
        needed |= todo
        todo = {
            name
            for name, blocks in entries.items()
            if name not in needed
            and any(_plain(one or other) in needed for one, other in _VIA.findall("".join(blocks)))
        }
    return "".join(block for name, blocks in entries.items() if name in needed for block in blocks)


def _direct(project: "Mapping[str, Any]", extras: "Collection[str]") -> "set[str]":
    """Return the names of the packages that ``project`` itself asks for."""
    optional = project["project"]["optional-dependencies"]
    unknown = sorted(set(extras) - set(optional))
    if unknown:
        raise InstallError(f"input `extras`: there is no `{unknown[0]}`; there are {', '.join(sorted(optional))}")
    wanted = list(project["project"]["dependencies"])
    for extra in extras:
        for one in optional[extra]:
            own = re.match(r"lancens\[([^]]*)\]", one)
            if own:
                wanted += [asked for name in own[1].split(",") for asked in optional[name.strip()]]
            else:
                wanted.append(one)
    return {_plain(_name(one)) for one in wanted}


def _name(requirement_text: str) -> str:
    found = _NAME.match(requirement_text)
    return found[0] if found else ""


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def install(environment: "Mapping[str, str]") -> str:
    """Return the Python that has lancens, installed where need be.

    Raises:
        InstallError: the runner's Python is too old, or pip failed.
    """
    if sys.version_info < _OLDEST:
        found = ".".join(map(str, sys.version_info[:2]))
        raise InstallError(f"the runner's Python is {found}; lancens needs 3.11: give the input `python-version`")
    version = environment.get("INPUT_VERSION", "").strip()
    if version == PREINSTALLED:
        return sys.executable
    extras = environment.get("INPUT_EXTRAS", "")
    if environment.get("INPUT_COMMAND", "").strip() == "audit":
        extras = f"{extras} {_AUDITING}"
    wanted = requirement(version, extras, environment["LANCENS_ACTION_PATH"])
    folder = Path(environment["RUNNER_TEMP"], "lancens-python")
    python = folder / "bin" / "python"
    isolated = isolated_environment(environment)
    _run([sys.executable, "-I", "-m", "venv", str(folder)], isolated, "making a virtual environment")
    # Compiling every module beforehand takes longer than one run can gain by it.
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-compile"]
    pip = [str(python), "-I", "-m", "pip", "install", *options]
    if not version:
        names = extras.replace(",", " ").split()
        lock = folder / "locked.txt"
        lock.write_text(locked(environment["LANCENS_ACTION_PATH"], names), "utf-8")
        # Each file that is downloaded is the one that the lock has the hash of; lancens is the checkout itself.
        _run([*pip, "--no-deps", "--require-hashes", "-r", str(lock)], isolated, "installing what lancens needs")
        pip += ["--no-deps", "--no-build-isolation"]
    _run([*pip, wanted], isolated, "installing lancens")
    return str(python)


def isolated_environment(environment: "Mapping[str, str]") -> "dict[str, str]":
    """Return what an installer may have of ``environment``.

    An index, a proxy or a certificate that the runner's owner or the workflow names still counts. What steers Python
    does not, nor does a file of settings in the workspace, whether it is named in full or from there.
    """
    workspace = environment.get("GITHUB_WORKSPACE") or os.curdir
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith("PYTHON") and (name == "PATH" or workspace not in value)
    }
    for name in ("PIP_CONFIG_FILE", "UV_CONFIG_FILE"):
        if not os.path.isabs(kept.get(name, "")):  # noqa: PTH117 - an empty Path would be a dot
            kept.pop(name, None)
    return {**kept, "PYTHONSAFEPATH": "1"}


def _run(command: "list[str]", environment: "Mapping[str, str]", doing: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # What pip says goes to the log, where it tells why; nothing of it is foreign to the workflow's author.
        done = subprocess.run(command, cwd=folder, env=environment, check=False)  # noqa: S603 - checked parts, no shell
    if done.returncode:
        raise InstallError(f"{doing} failed; see above")


def main() -> int:
    """Hand the path of the Python to the next step."""
    try:
        python = install(os.environ)
    except InstallError as error:
        print(f"::error title=lancens::{error}")
        return 1
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as opened:
        opened.write(f"python={python}\npath={os.environ['PATH']}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
