"""The distribution: it declares what it imports, holds what belongs to it, and building it leaves nothing behind."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.size import nodes, sources

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def distribution(requirement: str) -> str:
    """Return the normal form of the name that a requirement begins with."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def imported(path: Path) -> Iterator[str]:
    """Yield the top-level packages that a module imports when it runs, now or later."""

    def walk(node: ast.AST) -> Iterator[str]:
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                for branch in node.orelse:
                    yield from walk(branch)
                return
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
        for child in ast.iter_child_nodes(node):
            yield from walk(child)

    yield from walk(nodes(path)[0])


def test_every_import_is_declared() -> None:
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for name in extras if name != "dev" for line in extras[name])]
    declared = {distribution(line) for line in lines}
    owners = importlib.metadata.packages_distributions()
    undeclared = {}
    for path in sources():
        for package in set(imported(path)) - {*sys.stdlib_module_names, "reconciler"}:
            if not {distribution(owner) for owner in owners.get(package, [])} & declared:
                undeclared[package] = str(path.relative_to(ROOT))
    assert undeclared == {}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a checkout of what git would hand out, and the wheel and sdist that were built from it."""
    checkout, dist = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("dist")
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, files):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (checkout / name).write_bytes((ROOT / name).read_bytes())
    before = {*checkout.rglob("*")}
    uv = Path(sys.executable).with_name("uv")
    options = ["--quiet", "--no-build-isolation", "--python", sys.executable]
    done = subprocess.run(
        [uv, "build", *options, "--out-dir", dist, checkout], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    left = {path for path in {*checkout.rglob("*")} - before if "__pycache__" not in path.parts}
    assert left == set(), "building leaves something behind"
    return checkout, dist


@pytest.mark.end_to_end
def test_the_wheel_holds_the_whole_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    checkout, dist = built
    [wheel] = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}
    assert names == {str(path.relative_to(checkout)) for path in (checkout / "reconciler").rglob("*") if path.is_file()}


@pytest.mark.end_to_end
def test_the_sdist_holds_the_tests_and_the_documentation(built: tuple[Path, Path]) -> None:
    _, dist = built
    [sdist] = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {
        *("LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "Makefile", "requirements.lock", "action.yml"),
        *("docs/manifest.md", "docs/images/plan.svg", "examples/github/plan.yml", "schemas/manifest.schema.json"),
        *("tests/conftest.py", "tests/unit/test_package.py", "tests/servers/hive3-pom.xml", "tests/system.sh"),
        *("reconciler/py.typed", "reconciler/output/html.py", "benchmarks/scale.py"),
    } <= names
