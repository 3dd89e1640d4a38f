"""Checks with real datasets: registering, creating, reading, keeping data."""

from __future__ import annotations

import lance
import pyarrow as pa
from lance_namespace import CreateTableRequest, CreateTableResponse
from lance_namespace import errors as spec

from reconciler import storage
from reconciler.conformance.context import CheckContext, check
from reconciler.conformance.expectations import equal, raises, require
from reconciler.model import locations
from reconciler.model.names import Identifier


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _create(context: CheckContext, table: Identifier, rows: int, mode: str | None = None) -> CreateTableResponse:
    require(context.has_default_location(table), "the catalog has no default location to create at")
    return context.namespace.create_table(
        CreateTableRequest(id=list(table), mode=mode), _ipc(pa.table({"id": list(range(rows))}))
    )


@check("RegisterTable")
def real_data_is_registered(context: CheckContext) -> None:
    """Data that is there is registered where it is, and stays as it was."""
    require(context.can_register, "the catalog chooses the location itself")
    table = (*context.base, "real")
    location = context.new_location(table)
    context.write(location)
    with context.data_unchanged(location):
        context.register(table, location)
    if not context.backend.capabilities().ignores_location:
        context.expect_location(table, location)


@check("RegisterTable")
def a_second_register_is_refused(context: CheckContext) -> None:
    """Registering a taken name raises TableAlreadyExists, whatever the location."""
    require(context.can_register, "the catalog chooses the location itself")
    table = (*context.base, "twice")
    location = context.new_location(table)
    context.write(location)
    context.register(table, location)
    raises(spec.TableAlreadyExistsError, lambda: context.register(table, location))
    raises(
        spec.TableAlreadyExistsError, lambda: context.register(table, context.new_location(table, "b"), mode="CREATE")
    )


@check("RegisterTable", promised=True)
def overwrite_moves_the_entry(context: CheckContext) -> None:
    """Mode overwrite points the entry at the new location; the data stays at both."""
    able = context.backend.capabilities()
    require(able.alter_table and able.relocate_table, "the location of a table cannot be changed")
    require(not able.ignores_location, "the catalog chooses the location itself")
    table = (*context.base, "moved")
    old, new = context.new_location(table, "old"), context.new_location(table, "new")
    context.write(old)
    context.write(new)
    with context.data_unchanged(old, new):
        context.register(table, old, {"kept": "no"})
        context.register(table, new, {"tier": "gold"}, mode="Overwrite")
    context.expect_location(table, new)
    if able.table_markers:
        equal("the properties", context.properties(table, {"kept": "", "tier": ""}), {"tier": "gold"})


@check("DescribeTable")
def metadata_comes_from_the_dataset(context: CheckContext) -> None:
    """With load_detailed_metadata, version and schema are the dataset's; an unknown version is TableVersionNotFound."""
    table = (*context.base, "real")
    context.create_table_with_data(table)
    response = context.describe_dataset(table)
    equal("the version", response.version, 1)
    fields = response.var_schema.fields if response.var_schema else []
    equal("the fields", [(field.name, field.type.type) for field in fields], [("id", "int64")])
    raises(spec.TableVersionNotFoundError, lambda: context.describe(table, version=99))


@check("DescribeTable", promised=True)
def metadata_of_no_dataset_is_an_error(context: CheckContext) -> None:
    """Where a table's location holds no dataset, its entry is described and its metadata is InvalidTableState."""
    table = (*context.base, "declared")
    context.declare(table)
    context.describe(table)
    raises(spec.InvalidTableStateError, lambda: context.describe(table, load_detailed_metadata=True))


@check("DeregisterTable")
def deregistering_keeps_the_data(context: CheckContext) -> None:
    """Every data file is byte for byte what it was, and can be registered again."""
    table = (*context.base, "real")
    location = context.create_table_with_data(table)
    with context.data_unchanged(location):
        context.deregister(table)
    with context.data_unchanged(location):
        if context.can_register:
            context.register(table, location)


@check("DescribeTable")
def a_tag_and_a_branch_are_resolved(context: CheckContext) -> None:
    """A tag, a branch and a version on a branch show that very version, never silently the latest."""
    table = (*context.base, "tagged")
    location = context.create_table_with_data(table)
    options = context.backend.storage_options()
    dataset = storage.open_dataset(location, options)
    dataset.tags.create("first", dataset.version)
    dataset.create_branch("dev", dataset.version)
    context.write(location, rows=2, mode="append")
    equal("the latest version", context.describe_dataset(table).version, 2)
    for named in ({"tag": "first"}, {"branch": "dev"}):
        response = context.describe(table, load_detailed_metadata=True, **named)
        equal(f"the version of {named}", response.version, 1)
    raises(spec.TableTagNotFoundError, lambda: context.describe(table, tag="missing"))
    raises(spec.TableBranchNotFoundError, lambda: context.describe(table, branch="missing"))
    raises(spec.TableVersionNotFoundError, lambda: context.describe(table, branch="dev", version=99))
    if context.is_backend:  # the specification rules it out, and names no error
        raises(spec.InvalidInputError, lambda: context.describe(table, tag="first", version=2))


@check("TableExists")
def a_version_exists_or_not(context: CheckContext) -> None:
    """Asked for a version, TableExists answers for that version."""
    table = (*context.base, "versioned")
    context.create_table_with_data(table)
    context.call("table_exists", table, version=1)
    raises(spec.TableVersionNotFoundError, lambda: context.call("table_exists", table, version=99))


@check("CreateTable")
def a_table_is_created_from_a_stream(context: CheckContext) -> None:
    """The rows of an Arrow stream are at the location the entry names."""
    table = (*context.base, "created")
    answer = _create(context, table, rows=4)
    equal("the version", answer.version, 1)
    equal("the rows", context.rows(context.describe(table).location or ""), 4)


@check("CreateTable")
def creating_what_exists(context: CheckContext) -> None:
    """A taken name raises TableAlreadyExists; mode exist_ok leaves what is there."""
    table = (*context.base, "created")
    location = _create(context, table, rows=4).location or ""
    with context.data_unchanged(location):
        raises(spec.TableAlreadyExistsError, lambda: _create(context, table, rows=1))
        _create(context, table, rows=1, mode="exist_ok")


@check("CreateTable", promised=True)
def data_in_the_way_is_left_alone(context: CheckContext) -> None:
    """Where data is already at the default place, the table goes to another one, and the data stays as it is."""
    require(not context.backend.capabilities().ignores_location, "the catalog chooses the location itself")
    table = (*context.base, "created")
    default = context.backend.default_location(table)
    require(default is not None, "the catalog has no default location to create at")
    context.write(default or "")
    with context.data_unchanged(default or ""):
        location = _create(context, table, rows=1).location or ""
    equal("the rows of the new table", context.rows(location), 1)
    context.expect_location(table, location)


@check("DeclareTable", promised=True)
def a_table_made_again_has_no_old_rows(context: CheckContext) -> None:
    """A table that is deregistered and declared again under its name does not show the rows it had."""
    require(not context.backend.capabilities().ignores_location, "the catalog chooses the location itself")
    table = (*context.base, "again")
    require(context.backend.default_location(table) is not None, "the catalog has no default location to declare at")
    old = _create(context, table, rows=3).location or ""
    context.deregister(table)
    new = context.call("declare_table", table).location
    equal("the new table is at the old place", locations.same(new, old), expected=False)
    equal("the old rows", context.rows(old), 3)
    equal("the table is only declared", context.describe(table, check_declared=True).is_only_declared, expected=True)


@check("CreateTable", promised=True)
def creating_never_overwrites(context: CheckContext) -> None:
    """Mode overwrite would delete data: Unsupported, and the data stays."""
    table = (*context.base, "created")
    location = _create(context, table, rows=4).location or ""
    with context.data_unchanged(location):
        raises(spec.UnsupportedOperationError, lambda: _create(context, table, rows=1, mode="Overwrite"))


@check("DropTable", promised=True)
def tables_are_never_dropped(context: CheckContext) -> None:
    """DropTable would delete data: Unsupported, and data and entry stay."""
    table = (*context.base, "real")
    location = context.create_table_with_data(table)
    with context.data_unchanged(location):
        raises(spec.UnsupportedOperationError, lambda: context.call("drop_table", table))
    context.describe(table)


@check("pylance")
def pylance_writes_and_reads(context: CheckContext) -> None:
    """write_dataset and dataset work with namespace_client=backend: create, read and append."""
    table = (*context.base, "through_pylance")
    require(context.has_default_location(table), "the catalog has no default location to write at")
    data = pa.table({"id": [1, 2, 3]})
    lance.write_dataset(data, namespace_client=context.namespace, table_id=list(table))
    equal("the tables", context.tables(context.base), ["through_pylance"])
    dataset = lance.dataset(namespace_client=context.namespace, table_id=list(table))
    equal("what was written", dataset.to_table().to_pydict(), data.to_pydict())
    lance.write_dataset(data, namespace_client=context.namespace, table_id=list(table), mode="append")
    again = lance.dataset(namespace_client=context.namespace, table_id=list(table))
    equal("the rows after an append", again.count_rows(), 6)


@check("pylance")
def pylance_reads_what_was_registered(context: CheckContext) -> None:
    """A registered dataset is read, and appended to, with namespace_client=backend."""
    table = (*context.base, "registered")
    location = context.create_table_with_data(table, rows=7)
    dataset = lance.dataset(namespace_client=context.namespace, table_id=list(table))
    equal("the rows", dataset.count_rows(), 7)
    more = pa.table({"id": [7]})
    lance.write_dataset(more, namespace_client=context.namespace, table_id=list(table), mode="append")
    equal("the rows after an append", context.rows(location), 8)
