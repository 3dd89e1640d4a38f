"""A checkout of somebody who means harm: modules where Python finds them if it looks in that folder at all."""

from __future__ import annotations

from pathlib import Path

__all__ = ["imported", "plant"]

_MODULES = (
    # of the standard library
    *("argparse", "asyncio", "json", "logging", "pathlib", "random", "re", "subprocess", "tempfile", "typing"),
    # started by Python itself, or by their names
    *("pip", "sitecustomize", "usercustomize", "venv"),
    # what lancens is made of and depends on
    *("boto3", "click", "cloudpickle", "deepdiff", "lance", "lance_namespace", "lancens", "numpy", "pandas", "py4j"),
    *("pyarrow", "pydantic", "pyspark", "requests", "rich", "setuptools", "thrift", "yaml"),
)
_PACKAGES = ("ensurepip", "reconciler")
_SOURCE = """\
with open({log!r}, "a") as log:
    log.write({name!r} + "\\n")
"""


def plant(folder: Path) -> Path:
    """Plant the modules in ``folder``; return the log, beside it, that each adds its name to when imported or run."""
    log = folder.parent / f"{folder.name}-imported.log"
    for name in _MODULES:
        (folder / f"{name}.py").write_text(_SOURCE.format(log=str(log), name=name))
    for name in _PACKAGES:
        (folder / name).mkdir()
        for file in ("__init__.py", "__main__.py"):
            (folder / name / file).write_text(_SOURCE.format(log=str(log), name=name))
    return log


def imported(log: Path) -> list[str]:
    """Return the names of the planted modules that were imported or run, in order."""
    return log.read_text().splitlines() if log.exists() else []
