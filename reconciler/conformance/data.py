"""Checks with real datasets: registering, creating, reading through pylance, and that data is never deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_namespace import CreateTableRequest, CreateTableResponse, DropTableRequest
from lance_namespace.errors import (
    InvalidTableStateError,
    TableAlreadyExistsError,
    TableNotFoundError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)

from reconciler import locations
from reconciler.conformance.check import check, equal, need, raises
from reconciler.conformance.context import Ground
from reconciler.names import Identifier

if TYPE_CHECKING:
    import pyarrow as pa


def _ipc(table: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _create(ground: Ground, table: Identifier, rows: int, mode: str | None = None) -> CreateTableResponse:
    import pyarrow as pa

    need(ground.backend.default_location(table) is not None, "the catalog has no default location to create at")
    return ground.backend.create_table(
        CreateTableRequest(id=list(table), mode=mode), _ipc(pa.table({"id": list(range(rows))}))
    )


@check("RegisterTable")
def real_data_is_registered(ground: Ground) -> None:
    """Data that is there is registered where it is, and stays as it was."""
    table = (*ground.base, "real")
    place = ground.place(table)
    ground.write(place)
    before = ground.data(place)
    ground.register(table, place)
    if not ground.backend.capabilities.ignores_location:
        equal("the location", locations.same(ground.describe(table).location, place), wanted=True)
    equal("the data files", ground.data(place), before)


@check("RegisterTable")
def a_second_register_is_refused(ground: Ground) -> None:
    """Registering a taken name raises TableAlreadyExists, whatever the location."""
    table = (*ground.base, "twice")
    place = ground.place(table)
    ground.write(place)
    ground.register(table, place)
    raises(TableAlreadyExistsError, lambda: ground.register(table, place))
    raises(TableAlreadyExistsError, lambda: ground.register(table, ground.place(table, "b"), mode="CREATE"))


@check("RegisterTable")
def overwrite_moves_the_entry(ground: Ground) -> None:
    """Mode overwrite points the entry at the new location; the data stays at both."""
    able = ground.backend.capabilities
    need(able.alter_table and able.relocate_table, "the location of a table cannot be changed")
    need(not able.ignores_location, "the catalog chooses the location itself")
    table = (*ground.base, "moved")
    old, new = ground.place(table, "old"), ground.place(table, "new")
    ground.write(old)
    ground.write(new)
    before = ground.data(old), ground.data(new)
    ground.register(table, old, {"kept": "no"})
    ground.register(table, new, {"tier": "gold"}, mode="Overwrite")
    equal("the location", locations.same(ground.describe(table).location, new), wanted=True)
    if able.table_markers:
        equal("the properties", ground.properties(table, {"kept": "", "tier": ""}), {"tier": "gold"})
    equal("the data files", (ground.data(old), ground.data(new)), before)


@check("DescribeTable")
def metadata_comes_from_the_dataset(ground: Ground) -> None:
    """With load_detailed_metadata, version and schema are the dataset's; an unknown version is TableVersionNotFound."""
    table = (*ground.base, "real")
    ground.real_table(table)
    found = ground.describe(table, load_detailed_metadata=True)
    equal("the version", found.version, 1)
    fields = found.var_schema.fields if found.var_schema else []
    equal("the fields", [(field.name, field.type.type) for field in fields], [("id", "int64")])
    raises(TableVersionNotFoundError, lambda: ground.describe(table, version=99))


@check("DescribeTable")
def metadata_of_no_dataset_is_an_error(ground: Ground) -> None:
    """Where a table's location holds no dataset, its entry is described and its metadata is InvalidTableState."""
    table = (*ground.base, "declared")
    ground.declare(table)
    ground.describe(table)
    raises(InvalidTableStateError, lambda: ground.describe(table, load_detailed_metadata=True))


@check("DeregisterTable")
def deregistering_keeps_the_data(ground: Ground) -> None:
    """Every data file is byte for byte what it was, and can be registered again."""
    table = (*ground.base, "real")
    place = ground.real_table(table)
    before = ground.data(place)
    ground.deregister(table)
    equal("the data files", ground.data(place), before)
    ground.register(table, place)
    equal("the data files after another register", ground.data(place), before)


@check("CreateTable")
def a_table_is_created_from_a_stream(ground: Ground) -> None:
    """The rows of an Arrow stream are at the location the entry names."""
    table = (*ground.base, "created")
    answer = _create(ground, table, rows=4)
    equal("the version", answer.version, 1)
    equal("the rows", ground.rows(ground.describe(table).location or ""), 4)


@check("CreateTable")
def creating_what_exists(ground: Ground) -> None:
    """A taken name raises TableAlreadyExists; mode exist_ok leaves what is there."""
    table = (*ground.base, "created")
    place = _create(ground, table, rows=4).location or ""
    before = ground.data(place)
    raises(TableAlreadyExistsError, lambda: _create(ground, table, rows=1))
    _create(ground, table, rows=1, mode="exist_ok")
    equal("the data files", ground.data(place), before)


@check("CreateTable")
def data_in_the_way_is_left_alone(ground: Ground) -> None:
    """Where data is already at the place, creating is refused, and neither data nor catalog changes."""
    need(not ground.backend.capabilities.ignores_location, "the catalog chooses the location itself")
    table = (*ground.base, "created")
    place = ground.backend.default_location(table)
    need(place is not None, "the catalog has no default location to create at")
    ground.write(place or "")
    before = ground.data(place or "")
    raises(TableAlreadyExistsError, lambda: _create(ground, table, rows=1))
    equal("the data files", ground.data(place or ""), before)
    raises(TableNotFoundError, lambda: ground.describe(table))


@check("CreateTable")
def creating_never_overwrites(ground: Ground) -> None:
    """Mode overwrite would delete data: Unsupported, and the data stays."""
    table = (*ground.base, "created")
    place = _create(ground, table, rows=4).location or ""
    before = ground.data(place)
    raises(UnsupportedOperationError, lambda: _create(ground, table, rows=1, mode="Overwrite"))
    equal("the data files", ground.data(place), before)


@check("DropTable")
def tables_are_never_dropped(ground: Ground) -> None:
    """DropTable would delete data: Unsupported, and data and entry stay."""
    table = (*ground.base, "real")
    place = ground.real_table(table)
    before = ground.data(place)
    raises(UnsupportedOperationError, lambda: ground.backend.drop_table(DropTableRequest(id=list(table))))
    equal("the data files", ground.data(place), before)
    ground.describe(table)


@check("pylance")
def pylance_writes_and_reads(ground: Ground) -> None:
    """write_dataset and dataset work with namespace_client=backend: create, read and append."""
    import lance
    import pyarrow as pa

    table = (*ground.base, "through_pylance")
    need(ground.backend.default_location(table) is not None, "the catalog has no default location to write at")
    data = pa.table({"id": [1, 2, 3]})
    lance.write_dataset(data, namespace_client=ground.backend, table_id=list(table))
    equal("the tables", ground.tables(ground.base), ["through_pylance"])
    dataset = lance.dataset(namespace_client=ground.backend, table_id=list(table))
    equal("what was written", dataset.to_table().to_pydict(), data.to_pydict())
    lance.write_dataset(data, namespace_client=ground.backend, table_id=list(table), mode="append")
    again = lance.dataset(namespace_client=ground.backend, table_id=list(table))
    equal("the rows after an append", again.count_rows(), 6)


@check("pylance")
def pylance_reads_what_was_registered(ground: Ground) -> None:
    """A registered dataset is read, and appended to, with namespace_client=backend."""
    import lance
    import pyarrow as pa

    table = (*ground.base, "registered")
    place = ground.real_table(table, rows=7)
    found = lance.dataset(namespace_client=ground.backend, table_id=list(table))
    equal("the rows", found.count_rows(), 7)
    more = pa.table({"id": [7]})
    lance.write_dataset(more, namespace_client=ground.backend, table_id=list(table), mode="append")
    equal("the rows after an append", ground.rows(place), 8)
