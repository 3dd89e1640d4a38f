"""The memory backend's own ways."""

from __future__ import annotations

import uuid

import lance
import pyarrow as pa
import pytest
from lance_namespace import CreateNamespaceRequest

from reconciler.backends.memory import MemoryBackend
from reconciler.model import locations
from reconciler.namespace import CatalogNamespace


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


def test_connections_of_one_name_share_one_catalog(name: str) -> None:
    MemoryBackend(name=name).insert_namespace(("eu",), {"tier": "gold"})
    assert MemoryBackend(name=name).load_namespace(("eu",)).properties == {"tier": "gold"}
    assert MemoryBackend(name=f"{name}2").scan().namespaces == {}
    assert MemoryBackend().scan().namespaces == {}


def test_datasets_need_no_disk(name: str) -> None:
    backend = MemoryBackend(name=name)
    CatalogNamespace(backend).create_namespace(CreateNamespaceRequest(id=["eu"]))
    lance.write_dataset(
        pa.table({"id": [1, 2]}), namespace_client=CatalogNamespace(backend), table_id=["eu", "a b/é".replace("/", "-")]
    )
    other = MemoryBackend(name=name)
    assert lance.dataset(namespace_client=CatalogNamespace(other), table_id=["eu", "a b-é"]).count_rows() == 2
    location = other.load_table(("eu", "a b-é")).location
    assert location.startswith(f"shared-memory://{name}/")
    assert locations.problem(location) is None


def test_no_two_tables_share_a_default_location() -> None:
    backend = MemoryBackend(name="x")
    identifiers = [
        ("a",),
        ("a", "b"),
        ("a.lance", "b"),
        ("a.lance",),
        ("ab",),
        ("a b",),
        ("a%20b",),
        ("a#b",),
        ("a?b",),
    ]
    places = {locations.normalise(backend.default_location(identifier)) for identifier in identifiers}
    assert len(places) == len(identifiers)


def test_what_a_caller_does_to_its_properties_changes_nothing() -> None:
    backend = MemoryBackend()
    properties = {"tier": "gold"}
    backend.insert_table(("users",), "/users.lance", properties)
    properties["tier"] = "silver"
    assert backend.load_table(("users",)).properties == {"tier": "gold"}
