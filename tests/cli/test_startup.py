"""What starting costs: no heavy package is imported before it is needed."""

from __future__ import annotations

import shutil
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


def test_the_package_has_its_public_names_and_no_other() -> None:
    import reconciler

    assert dir(reconciler) == sorted(reconciler.__all__)
    assert reconciler.__version__.count(".") >= 1
    with pytest.raises(AttributeError):
        reconciler.nothing  # noqa: B018


def test_the_package_runs_as_a_module_that_the_current_folder_does_not_change(tmp_path: Path) -> None:
    for name in ("click", "yaml", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current folder')\n")
    shutil.copy(QUICKSTART, tmp_path)
    command = [sys.executable, "-m", "reconciler", "validate", QUICKSTART.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "is valid" in done.stdout
    refused = subprocess.run([*command[:3], "nothing"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (1, "Usage: lancens [OPTIONS] COMMAND [ARGS]...")
