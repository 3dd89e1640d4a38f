"""What starting costs: no heavy package is imported before it is needed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.end_to_end

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
    imported = imported_by(f"from reconciler.cli import main; main(['validate', {str(QUICKSTART)!r}])")
    assert not imported & {*HEAVY, "multiprocessing"}


def nulls_after(*arguments: str, call: str = "main()") -> tuple[int, int]:
    """Return the nulls that pyarrow finds in two values of pandas after a command, and whether it imported pandas."""
    code = (
        "import sys\nfrom reconciler.cli import main\n"
        f"try:\n    {call}\nexcept SystemExit:\n    is_imported = 'pandas' in sys.modules\n"
        "import pandas, pyarrow\n"
        "print(pyarrow.array([pandas.NaT, None], from_pandas=True).null_count, int(is_imported))"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    nulls, imported = done.stdout.split()[-2:]
    return int(nulls), int(imported)


def test_pyarrow_imports_no_pandas_in_the_process_of_a_command(tmp_path: Path) -> None:
    lake = f"{{impl: dir, config: {{root: {tmp_path}}}, tables: {{t: {{schema: [{{name: id, type: int64}}]}}}}}}"
    manifest = tmp_path / "lancens.yaml"
    manifest.write_text(f"version: 1\nname: shop\ncatalogs: {{lake: {lake}}}\n")
    arguments = ["apply", str(manifest), "--auto-approve", "--journal", str(tmp_path / "journals")]
    command = f"from reconciler.cli import main; sys.argv = ['lancens', *{arguments!r}]; main()"
    imported = imported_by(command)
    assert "lance" in imported
    assert "pandas" not in imported


@pytest.mark.parametrize("call", ["main(['init', '--help'])", "main(['validate', sys.argv[2]])"])
def test_a_process_of_others_keeps_pandas(call: str) -> None:
    assert nulls_after("validate", str(QUICKSTART), call=call) == (2, 0)


def test_a_process_of_others_keeps_its_collector() -> None:
    code = f"""
import gc
from reconciler.cli import main
before = gc.get_threshold()
try:
    main(["validate", {str(QUICKSTART)!r}])
except SystemExit:
    assert gc.get_threshold() == before
"""
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_a_process_of_spark_keeps_pandas() -> None:
    assert nulls_after("plan", str(QUICKSTART), "--engine", "spark", "--profile", "profile.json") == (2, 0)


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
