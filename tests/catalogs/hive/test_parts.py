"""What is read for a part of a metastore, no more than that; and its tables that are no Lance tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from reconciler.backends.hive import tables
from reconciler.backends.hive.databases import Databases
from reconciler.backends.hive.entries import wire_name
from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.backends.hive.tables import Tables
from reconciler.model.errors import NamespaceNotFoundError
from reconciler.model.live import ForeignTable
from reconciler.model.names import ChildrenOf, Identifier, Only
from tests.catalogs.hive.conftest import Connect
from tests.catalogs.hive.raw import plain_table, put, raw
from tests.servers.hive import Metastore

if TYPE_CHECKING:
    from reconciler.backends.hive.gen.ttypes import Database, Table


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tables that are loaded from here on, in no order."""
    asked: list[str] = []
    load = Tables.load_batch

    def recording(self: Tables, batch: tuple[Identifier, Sequence[str]]) -> list[Table]:
        asked.extend(batch[1])
        return load(self, batch)

    monkeypatch.setattr(Tables, "load_batch", recording)
    return asked


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> set[Identifier]:
    """The databases that are asked for, or looked into, from here on."""
    asked: set[Identifier] = set()
    fetch, picked = Databases.fetch, Tables.filtered_names

    def fetching(self: Databases, name: Identifier) -> Database:
        asked.add(name)
        return fetch(self, name)

    def picking(self: Tables, database: Identifier) -> list[str] | None:
        asked.add(database)
        return picked(self, database)

    monkeypatch.setattr(Databases, "fetch", fetching)
    monkeypatch.setattr(Tables, "filtered_names", picking)
    return asked


def _fill(server: Metastore, database: Identifier, lake: str, count: int = 7) -> None:
    for number in range(count):
        parameters = {"EXTERNAL": "TRUE", "table_type": "lance"}
        put(server.uri, plain_table((*database, f"t{number}"), lake, parameters))
    put(server.uri, plain_table((*database, "text"), lake, {"EXTERNAL": "TRUE"}))


@pytest.mark.parametrize("filtered", [True, False], ids=["filter", "filter-refused"])
def test_only_the_tables_named_are_loaded(
    server: Metastore,
    connect: Connect,
    database: Identifier,
    lake: str,
    loaded: list[str],
    filtered: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _fill(server, database, lake)
    if not filtered:
        monkeypatch.setattr(tables, "LANCE_FILTER", "no such field = 1")
    backend = connect(**{"client.batch-size": "2"})
    assert backend.reads_by_name
    named = [(*database, name) for name in ("t1", "t3", "t4", "never_made")]
    found = backend.scan(Only(named))
    assert sorted(loaded) == ["t1", "t3", "t4"]
    assert set(found.tables) == set(named[:3])
    assert list(found.namespaces) == [database[:depth] for depth in range(1, len(database) + 1)]


def test_only_the_databases_in_scope_are_touched(
    server: Metastore, backend: Hive2Backend, database: Identifier, above: Identifier, lake: str, touched: set[object]
) -> None:
    _fill(server, database, lake)
    other = (*above, f"{database[-1]}_other")
    backend.insert_namespace(other, {})
    try:
        touched.clear()
        found = backend.scan(ChildrenOf([database]))
        assert touched == {database}
        assert set(found.tables) == {(*database, f"t{number}") for number in range(7)}
        assert other not in found.namespaces
    finally:
        backend.remove_namespace(other)


def test_every_table_that_is_no_external_lance_table_is_foreign(
    server: Metastore, connect: Connect, database: Identifier, lake: str
) -> None:
    _fill(server, database, lake, count=3)
    external = {"EXTERNAL": "TRUE"}
    put(server.uri, plain_table((*database, "berg"), lake, {**external, "table_type": "ICEBERG"}))
    put(server.uri, plain_table((*database, "delta"), lake, {**external, "spark.sql.sources.provider": "delta"}))
    put(server.uri, plain_table((*database, "view"), table_type="VIRTUAL_VIEW"))
    put(server.uri, plain_table((*database, "managed"), lake, {"table_type": "LANCE"}))
    backend = connect(**{"client.batch-size": "2"})
    found = {foreign.id: foreign for foreign in backend.foreign_tables(database)}
    assert {identifier[-1]: foreign.format for identifier, foreign in found.items()} == {
        "berg": "ICEBERG",
        "delta": "delta",
        "managed": "lance, MANAGED_TABLE",
        "text": "TextInputFormat",
        "view": "VIRTUAL_VIEW",
    }
    place = backend.load_table((*database, "managed")).location
    assert found[(*database, "managed")] == ForeignTable((*database, "managed"), place, "lance, MANAGED_TABLE")
    assert found[(*database, "berg")].location == place
    with raw(server.uri) as client:
        assert len(found) == len(client.get_all_tables(wire_name(database))) - 3


def test_namespaces_without_tables_have_no_foreign_ones_and_missing_ones_are_not_found(
    backend: Hive2Backend, database: Identifier, above: Identifier
) -> None:
    assert backend.foreign_tables(database) == backend.foreign_tables(above) == backend.foreign_tables(()) == []
    for missing in ((*above, "never_made"), *((("never_made",),) if above else ())):
        with pytest.raises(NamespaceNotFoundError):
            backend.foreign_tables(missing)
