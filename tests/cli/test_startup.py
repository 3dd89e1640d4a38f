"""What starting costs: no heavy package is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"lance", "boto3", "botocore", "thrift", "pyspark", "deepdiff", "pyarrow", "rich", "jinja2", "requests"}
QUICKSTART = Path(__file__).parents[2] / "examples/quickstart/lancens.yaml"


def imported_by(code: str) -> set[str]:
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit as ended:\n    assert not ended.code, ended.code\n"
    script += "print('modules:', *{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("modules:")[2].split())


def test_importing_the_package_is_light() -> None:
    assert not imported_by("import reconciler") & {*HEAVY, "lance_namespace", "pydantic", "yaml"}


def test_help_is_light() -> None:
    arguments = "from reconciler.cli import main; main(['--help'])"
    assert not imported_by(arguments) & {*HEAVY, "lance_namespace", "pydantic", "yaml"}


def test_validate_imports_no_catalog_client() -> None:
    assert not imported_by(f"from reconciler.cli import main; main(['validate', {str(QUICKSTART)!r}])") & HEAVY


def test_the_public_names_are_these() -> None:
    import reconciler

    assert sorted(reconciler.__all__) == [
        "ApplyError", "ApplyReport", "Backend", "BlockedError", "CatalogError", "ConfigError", "LancensError",
        "Manifest", "ManifestError", "MissingExtraError", "Plan", "PlanFileError", "Problem", "SafetyError",
        "SelectionError", "StalePlanError", "apply", "audit", "connect", "import_", "inventory", "load", "plan",
        "register_impls",
    ]  # fmt: skip
    for name in reconciler.__all__:
        assert getattr(reconciler, name) is not None
    assert reconciler.__version__.count(".") >= 1
    with pytest.raises(AttributeError):
        reconciler.nothing  # noqa: B018
