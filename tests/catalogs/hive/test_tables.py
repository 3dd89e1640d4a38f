"""Tables: which are Lance tables, bulk reads that are complete, and alters that lose nothing."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import lance
import pytest
from lance_namespace import DescribeTableRequest, errors

from reconciler.backends.hive import tables
from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.backends.hive.metastore import Metastore as Calls
from reconciler.backends.hive.tables import Tables
from reconciler.model.errors import (
    BackendError,
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    TableNotFoundError,
)
from reconciler.model.live import PropertyChanges
from reconciler.model.names import Identifier, Scope
from reconciler.namespace import CatalogNamespace
from tests.catalogs.hive.conftest import Connect
from tests.catalogs.hive.files import digests
from tests.catalogs.hive.raw import fetch, plain_table, put, raw
from tests.servers.hive import Metastore
from tests.soak import count
from tests.writing import write_dataset

if TYPE_CHECKING:
    from reconciler.backends.hive.gen.ThriftHiveMetastore import Client

ResultT = TypeVar("ResultT")


class _Counting:
    """Stands in for a client and counts what is called."""

    def __init__(self, client: Client, calls: Counter[str]) -> None:
        self._client = client
        self._calls = calls

    def __getattr__(self, name: str) -> object:
        self._calls[name] += 1
        return getattr(self._client, name)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls that backends make from here on, by name."""
    counted: Counter[str] = Counter()
    read = Calls.read

    def counting(self: Calls, call: Callable[[Client], ResultT], doing: str, **errors: type[BackendError]) -> ResultT:
        return read(self, lambda client: call(_Counting(client, counted)), doing, **errors)  # type: ignore[arg-type]

    monkeypatch.setattr(Calls, "read", counting)
    return counted


def _fill(server: Metastore, database: Identifier, lance: int, others: int, root: Path) -> set[Identifier]:
    """Create tables of both kinds; return the identifiers of the Lance tables."""
    made = set()
    with raw(server.uri) as client:
        for number in range(lance + others):
            # one in so many is a Lance table, so that they lie among the others
            is_lance = number * lance // (lance + others) != (number + 1) * lance // (lance + others)
            table = (*database, f"t{number:05}")
            parameters = {"EXTERNAL": "TRUE", "table_type": "LANCE" if is_lance else "ICEBERG"}
            client.create_table(plain_table(table, str(root / "all"), parameters))
            if is_lance:
                made.add(table)
    return made


def test_a_scan_is_complete_in_one_filter_call_and_one_call_a_batch(
    server: Metastore, connect: Connect, database: Identifier, tmp_path: Path, calls: Counter[str]
) -> None:
    lance = count(30, 1000)
    made = _fill(server, database, lance, count(70, 5000), tmp_path)
    assert len(made) == lance
    batch = lance // 4 - 1
    backend = connect(**{"client.batch-size": str(batch)})
    snapshot = backend.scan(Scope(("/".join(database) + "/**",)))
    assert set(snapshot.tables) == made
    assert calls["get_table_names_by_filter"] == 1
    assert calls["get_table_objects_by_name_req"] == -(-lance // batch)
    assert calls["get_table_req"] == calls["get_all_tables"] == 0


def test_lance_is_told_by_its_parameter_whatever_the_case(
    server: Metastore, backend: Hive2Backend, database: Identifier, lake: str
) -> None:
    for name, value in {
        "a": "lance",
        "b": "LANCE",
        "c": "Lance",
        "x": "lancet",
        "y": "a lance",
        "z": "iceberg",
    }.items():
        put(server.uri, plain_table((*database, name), lake, {"table_type": value, "EXTERNAL": "TRUE"}))
    put(server.uri, plain_table((*database, "none"), lake))
    put(server.uri, plain_table((*database, "view"), table_type="VIRTUAL_VIEW"))
    assert {table[-1] for table in backend.scan().tables if table[:-1] == database} == {"a", "b", "c"}
    assert sorted(backend.child_tables(database)) == ["a", "b", "c"]
    assert sorted(backend.foreign_objects(database)) == ["none", "view", "x", "y", "z"]
    with pytest.raises(errors.InvalidInputError, match="is not a Lance table"):
        CatalogNamespace(backend).describe_table(DescribeTableRequest(id=[*database, "x"]))


def test_a_refused_filter_is_done_without_and_said_in_the_log(
    server: Metastore,
    backend: Hive2Backend,
    database: Identifier,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    calls: Counter[str],
) -> None:
    made = _fill(server, database, 3, 7, tmp_path)
    monkeypatch.setattr(tables, "LANCE_FILTER", "no such field = 1")
    with caplog.at_level(logging.DEBUG, logger="reconciler.backends.hive"):
        found = backend.scan(Scope(("/".join(database) + "/**",)))
        assert {(*database, name) for name in backend.child_tables(database)} == made
    assert set(found.tables) == made
    assert "the metastore refuses the filter" in caplog.text


def test_what_goes_between_list_and_load_is_left_out_and_what_stays_is_read(
    backend: Hive2Backend, database: Identifier, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.insert_table((*database, "there"), lake, {})
    backend.insert_table((*database, "stays"), lake, {})
    picked, load = Tables.filtered_names, Tables.load_batch
    monkeypatch.setattr(Tables, "filtered_names", lambda self, name: [*(picked(self, name) or ()), "went_away"])
    monkeypatch.setattr(
        Tables, "load_batch", lambda self, batch: [table for table in load(self, batch) if table.tableName != "stays"]
    )
    found = backend.scan(Scope(("/".join(database) + "/**",)))
    assert {table[-1] for table in found.tables} == {"there", "stays"}


def test_a_scan_that_cannot_read_an_entry_is_an_error(
    backend: Hive2Backend, database: Identifier, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finds_nothing(_tables: Tables, _batch: object) -> list[object]:
        return []

    def fails(_tables: Tables, identifier: Identifier) -> object:
        raise InternalError(f"hive: table `{'$'.join(identifier)}`: broken")

    backend.insert_table((*database, "broken"), lake, {})
    with monkeypatch.context() as patch:
        patch.setattr(Tables, "load_batch", finds_nothing)
        patch.setattr(Tables, "fetch", fails)
        with pytest.raises(InternalError, match=r"\$broken`: broken"):
            backend.scan(Scope(("/".join(database) + "/**",)))


def test_an_alter_writes_back_every_field_it_read(
    server: Metastore, backend: Hive2Backend, database: Identifier, lake: str
) -> None:
    from reconciler.backends.hive.gen.ttypes import FieldSchema, Order

    table = (*database, "full")
    struct = plain_table(table, f"{lake}/full", {"EXTERNAL": "TRUE", "table_type": "lance", "theirs": "kept"})
    struct.partitionKeys = [FieldSchema("day", "string", "of the event")]
    struct.retention = 7
    struct.sd.bucketCols = ["id"]
    struct.sd.numBuckets = 4
    struct.sd.sortCols = [Order("id", 1)]
    struct.sd.storedAsSubDirectories = False
    put(server.uri, struct)
    before = fetch(server.uri, table)
    backend.alter_table(table, PropertyChanges({"ours": "new"}), f"{lake}/moved")
    after = fetch(server.uri, table)
    assert after.sd.location.endswith("/moved")
    assert after.parameters["theirs"] == "kept"
    assert after.parameters["ours"] == "new"
    for struct in (before, after):
        struct.sd.location = struct.parameters = struct.writeId = None
    assert after == before


def test_changes_to_different_parameters_at_once_are_both_kept(
    server: Metastore, backend: Hive2Backend, connect: Connect, database: Identifier, lake: str
) -> None:
    if server.version == "3.1":
        pytest.skip("3.1 does not compare before it sets")
    table = (*database, "contended")
    backend.insert_table(table, lake, {})
    _interfere(backend, lambda: connect().alter_table(table, PropertyChanges({"theirs": "1"})))
    altered = backend.alter_table(table, PropertyChanges({"ours": "1"}))
    assert (altered.properties["ours"], altered.properties["theirs"]) == ("1", "1")


def test_changes_to_one_parameter_at_once_are_a_conflict(
    server: Metastore, backend: Hive2Backend, connect: Connect, database: Identifier, lake: str
) -> None:
    if server.version == "3.1":
        pytest.skip("3.1 does not compare before it sets")
    table = (*database, "contended")
    backend.insert_table(table, lake, {})
    _interfere(backend, lambda: connect().alter_table(table, PropertyChanges({"both": "theirs"})))
    with pytest.raises(ConcurrentModificationError, match="changed by another client"):
        backend.alter_table(table, PropertyChanges({"both": "ours"}))
    assert backend.load_table(table).properties["both"] == "theirs"


def _interfere(backend: Hive2Backend, other: Callable[[], object]) -> None:
    """Have ``other`` happen after the backend's next read of a table, right before its write."""
    calls, write = backend._metastore, backend._metastore.write

    def after_the_other(call: Callable[[Client], ResultT], doing: str, **errors: type[BackendError]) -> ResultT:
        calls.write = write  # type: ignore[method-assign]  # only once
        other()
        return write(call, doing, **errors)

    calls.write = after_the_other  # type: ignore[method-assign]  # for the next write


def test_names_that_no_identifier_can_hold_are_noted(
    server: Metastore, backend: Hive2Backend, database: Identifier, lake: str
) -> None:
    if server.version != "4.1":
        pytest.skip("only 4.x takes such names")
    put(server.uri, plain_table((*database, "two words"), lake, {"table_type": "lance", "EXTERNAL": "TRUE"}))
    backend.insert_table((*database, "with-dash.and-dot"), lake, {})
    snapshot = backend.scan(Scope(("/".join(database) + "/**",)))
    assert [table[-1] for table in snapshot.tables] == ["with-dash.and-dot"]
    assert any("two words" in note for note in snapshot.notes)
    assert backend.child_tables(database) == ["with-dash.and-dot"]


def test_a_name_the_server_refuses_is_an_error_that_says_so(
    server: Metastore, backend: Hive2Backend, database: Identifier, lake: str
) -> None:
    if server.version == "4.1":
        pytest.skip("4.x takes it")
    with pytest.raises(InvalidInputError, match="with-dash"):
        backend.insert_table((*database, "with-dash"), lake, {})
    assert backend.child_tables(database) == []


def test_a_value_too_long_is_refused_or_kept_whole(
    server: Metastore, backend: Hive2Backend, database: Identifier, lake: str
) -> None:
    table, properties = (*database, "long"), {"long": "x" * 40_000}
    if server.auto_created:
        with pytest.raises(InternalError, match="creating table") as caught:
            backend.insert_table(table, lake, properties)
        assert len(str(caught.value)) < 500
        assert backend.child_tables(database) == []
    else:
        assert backend.insert_table(table, lake, properties).properties["long"] == properties["long"]


def test_a_location_the_server_cannot_make_is_explained(backend: Hive2Backend, database: Identifier) -> None:
    with pytest.raises(InvalidInputError, match="no library for this kind"):
        backend.insert_table((*database, "far"), "s3://bucket/far.lance", {})
    assert backend.child_tables(database) == []


def test_no_secret_is_shown(connect: Connect, database: Identifier) -> None:
    backend = connect(**{"storage.aws_secret_access_key": "s3cr3t-value"})
    assert backend.storage_options() == {"aws_secret_access_key": "s3cr3t-value"}
    shown = [repr(backend.config), backend.namespace_id(), backend.config.identity()]
    with pytest.raises(TableNotFoundError) as caught:
        backend.load_table((*database, "missing"))
    assert "s3cr3t" not in "".join([*shown, str(caught.value)])


def test_a_rename_moves_no_file_whatever_the_entry_was(
    backend: Hive2Backend, server: Metastore, database: Identifier, lake: str
) -> None:
    """A managed table's directory moves with its name in 3.1, and a peer's entry may be one."""
    other = (*database[:-1], f"{database[-1]}_other")
    backend.insert_namespace(other, {})
    try:
        for name in ("ours", "managed", "unsaid"):
            place = backend.default_location((*database, name))
            assert place is not None
            write_dataset(Path(place), 1000)
        backend.insert_table((*database, "ours"), str(backend.default_location((*database, "ours"))), {"tier": "gold"})
        for name, kind in (("managed", "MANAGED_TABLE"), ("unsaid", "EXTERNAL_TABLE")):
            place = backend.default_location((*database, name))
            put(server.uri, plain_table((*database, name), place, {"table_type": "lance"}, kind))
        before = digests(Path(lake))
        for name in ("ours", "managed", "unsaid"):
            place = backend.load_table((*database, name)).location
            for old, new in (
                ((*database, name), (*database, f"{name}_2")),
                ((*database, f"{name}_2"), (*other, f"{name}_3")),
            ):
                assert backend.rename_table(old, new).location == place
                assert digests(Path(lake)) == before
                assert backend.load_table(new).location == place
                with pytest.raises(TableNotFoundError):
                    backend.load_table(old)
            assert lance.dataset(place.removeprefix("file:")).count_rows() == 1000
        assert backend.load_table((*other, "ours_3")).properties["tier"] == "gold"
        assert fetch(server.uri, (*other, "managed_3")).tableType == "EXTERNAL_TABLE"
    finally:
        for name in backend.child_tables(other):
            backend.remove_table((*other, name))
        backend.remove_namespace(other)
