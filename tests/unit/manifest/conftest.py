"""Manifests in a folder of their own, and backends with rules that `dir` and `memory` do not have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler import load
from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.manifest import Manifest
from reconciler.model.backend_config import BackendConfig
from reconciler.model.capabilities import Capabilities, NameRule
from reconciler.model.errors import ManifestError

Write = Callable[..., Path]
Load = Callable[..., Manifest]


class GlueConfig(BackendConfig):
    region: str
    assume_role_arn: str | None = None
    retries: int = 3

    def identity(self) -> str:
        return self.region


class UnityConfig(BackendConfig):
    endpoint: str = "http://localhost"
    root: str | None = None

    def identity(self) -> str:
        return f"{self.endpoint} {self.root}"


class Glue(Backend):
    impl = "glue"
    config_model = GlueConfig
    known_capabilities = Capabilities(
        table_depths=(1, None),
        name_rule=NameRule(re.compile(r"[a-z0-9_]+"), "names consist of letters, digits and `_`"),
        folds_case=True,
        namespace_kinds=("catalog", "database"),
        namespace_places=frozenset({"location"}),
    )


class Unity(Backend):
    impl = "unity"
    config_model = UnityConfig
    known_capabilities = Capabilities(max_depth=2, table_depths=(2, 2), fixed_levels=1)


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    real = registry.backend_class
    monkeypatch.setattr(registry, "backend_class", lambda impl: {"glue": Glue, "unity": Unity}.get(impl) or real(impl))
    monkeypatch.setattr(registry, "names", lambda: ["dir", "glue", "memory", "unity"])


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write files by relative path and return the path of the first one."""

    def write_files(**files: str) -> Path:
        paths = []
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path = path.with_name(f"{path.name}.yaml")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            paths.append(path)
        return paths[0]

    return write_files


@pytest.fixture
def load_text(write: Write) -> Load:
    """Load one file of this text."""

    def load_one(text: str, **variables: str) -> Manifest:
        return load(write(lancens=text), variables=variables)

    return load_one


def assert_problems(error: ManifestError, *expected: tuple[str, ...]) -> None:
    """Check the problems of an error: the place of each, and phrases of what it says."""
    assert len(error.problems) == len(expected), error
    for problem, (place, *phrases) in zip(error.problems, expected, strict=True):
        assert str(problem).startswith(f"{place}: ")
        assert [phrase for phrase in phrases if phrase not in problem.message] == [], problem


@contextmanager
def refused(*expected: tuple[str, ...]) -> Iterator[pytest.ExceptionInfo[ManifestError]]:
    """Check that the block raises these problems."""
    with pytest.raises(ManifestError) as caught:
        yield caught
    assert_problems(caught.value, *expected)


def manifest(below: str, impl: str = "memory", config: str = "{}") -> str:
    """Return a manifest with one catalog, ``lake``, whose block goes on with ``below``."""
    lines = "".join(f"    {line}\n" if line else "\n" for line in below.splitlines())
    return f"version: 1\nname: shop\ncatalogs:\n  lake:\n    impl: {impl}\n    config: {config}\n{lines}"


@pytest.fixture(autouse=True)
def _in_the_folder_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors name files relative to the current folder."""
    monkeypatch.chdir(tmp_path)
