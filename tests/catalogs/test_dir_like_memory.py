"""Whatever is asked of them in whatever order, a directory and the memory backend answer the same."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance_namespace import CreateNamespaceRequest, DropNamespaceRequest, errors

from reconciler.backends.base import Backend
from reconciler.backends.dir import DirBackend
from reconciler.backends.memory import MemoryBackend
from reconciler.model.errors import BackendError
from reconciler.model.live import PropertyChanges
from reconciler.model.names import Identifier
from reconciler.namespace import CatalogNamespace
from tests.soak import count

_names = st.sampled_from(["a", "b", "größer x"])
_namespaces = st.lists(_names, min_size=1, max_size=3).map(tuple)
_tables = st.tuples(st.lists(_names, max_size=2), st.sampled_from(["t", "u"])).map(lambda parts: (*parts[0], parts[1]))
_properties = st.dictionaries(st.sampled_from(["k", "l"]), st.text("x'\"é", max_size=3), max_size=2)
_changes = st.builds(PropertyChanges, _properties, st.frozensets(st.sampled_from(["k", "l"]), max_size=1))

Step = Callable[[Backend], object]


def _insert_table(identifier: Identifier, properties: dict[str, str]) -> Step:
    return lambda backend: backend.insert_table(identifier, backend.default_location(identifier) or "", properties)


def _drop(identifier: Identifier, mode: str, behavior: str) -> Step:
    request = DropNamespaceRequest(id=list(identifier), mode=mode, behavior=behavior)
    return lambda backend: CatalogNamespace(backend).drop_namespace(request)


def _create(identifier: Identifier, properties: dict[str, str], mode: str) -> Step:
    request = CreateNamespaceRequest(id=list(identifier), properties=properties, mode=mode)
    return lambda backend: CatalogNamespace(backend).create_namespace(request)


_steps = st.one_of(
    st.builds(_create, _namespaces, _properties, st.sampled_from(["create", "exist_ok", "overwrite"])),
    st.builds(_drop, _namespaces, st.sampled_from(["fail", "skip"]), st.sampled_from(["restrict", "cascade"])),
    st.builds(_insert_table, _tables, _properties),
    st.builds(lambda table: lambda backend: backend.remove_table(table), _tables),
    st.builds(lambda table, changes: lambda backend: backend.alter_table(table, changes), _tables, _changes),
    st.builds(lambda space, changes: lambda backend: backend.alter_namespace(space, changes), _namespaces, _changes),
    st.builds(lambda space: lambda backend: sorted(backend.child_tables(space)), _namespaces),
    st.builds(
        lambda space: lambda backend: sorted(backend.child_namespaces(space)), st.one_of(_namespaces, st.just(()))
    ),
)


def _answer(step: Step, backend: Backend) -> Any:
    """Return the kind of error, or lists as they are; other answers show in the scan."""
    try:
        found = step(backend)
    except (BackendError, errors.LanceNamespaceError) as error:
        return error.code
    return found if isinstance(found, list) else None


def _seen(backend: Backend) -> Any:
    snapshot = backend.scan()
    return (
        {space.id: dict(space.properties) for space in snapshot.namespaces.values()},
        {table.id: dict(table.properties) for table in snapshot.tables.values()},
        snapshot.notes,
    )


@pytest.mark.soak
@given(st.lists(_steps, max_size=12))
@settings(max_examples=count(40, 1_000))
def test_the_same_steps_have_the_same_answers_and_the_same_end(steps: list[Step]) -> None:
    memory = MemoryBackend()
    with tempfile.TemporaryDirectory() as root:
        directory = DirBackend(root=root)
        for step in steps:
            assert _answer(step, directory) == _answer(step, memory)
            assert _seen(directory) == _seen(memory)
        assert _seen(DirBackend(root=root)) == _seen(memory)
