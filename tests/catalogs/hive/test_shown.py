"""Columns of entries on every metastore, which refuses some changes of a column's type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import reconciler
from reconciler.applier.report import Status
from reconciler.backends.hive.entries import wire_name
from reconciler.backends.hive.gen.ttypes import EnvironmentContext, FieldSchema
from reconciler.model.names import Identifier
from reconciler.planner.entries import Action
from tests.catalogs.end_to_end import actions, carried_out, planned
from tests.catalogs.hive.conftest import Connect, newest
from tests.catalogs.hive.raw import fetch, plain_table, put, raw
from tests.catalogs.shown import Field, Showing, Shown
from tests.servers.fault_proxy import Call, Fault, fault_proxy
from tests.servers.hive import Metastore


@pytest.fixture
def showing(server: Metastore, connect: Connect, database: Identifier, tmp_path: Path) -> Showing:
    def plant(identifier: Identifier, location: str, shown: Sequence[Field]) -> None:
        table = plain_table(identifier, location, {"table_type": "lance", "EXTERNAL": "TRUE"})
        table.sd.cols = [FieldSchema(*column) for column in shown]
        put(server.uri, table)

    def shown(identifier: Identifier) -> list[Field]:
        return [(column.name, column.type, column.comment) for column in fetch(server.uri, identifier).sd.cols]

    return Showing(server.impl, {"uri": server.uri}, connect, plant, shown, database, tmp_path)


@newest
@pytest.mark.soak
class TestShown(Shown):
    """The suite."""


def test_cut_off_between_two_writes_it_goes_on(showing: Showing, server: Metastore) -> None:
    """A server refuses another type for a column, so that the columns are taken away before others are written."""
    writes: list[Call] = []

    def cut(call: Call) -> Fault | None:
        if call.name.startswith("alter_table"):
            writes.append(call)
        return Fault.RESET if len(writes) > 2 else None  # refused, taken away, and now

    with fault_proxy(server.port, "thrift") as proxy:
        manifest = replace(showing, config={"uri": f"thrift://127.0.0.1:{proxy.port}"}).managed()
        with raw(server.uri) as client:
            table = fetch(server.uri, showing.table)
            table.sd.cols = []
            client.alter_table_with_environment_context(
                wire_name(showing.namespace), "users", table, EnvironmentContext()
            )
            table.sd.cols = [FieldSchema("id", "array<int>", None), FieldSchema("name", "string", None)]
            client.alter_table_with_environment_context(
                wire_name(showing.namespace), "users", table, EnvironmentContext()
            )
        saved = planned(manifest)
        assert actions(saved) == [("/".join(showing.table), Action.UPDATE_TABLE)]
        proxy.reset(cut)
        [result] = reconciler.apply(saved, reconciler.load(manifest)).results
        proxy.reset()
        assert (result.status, showing.shown(showing.table)) == (Status.FAILED, [])
        assert actions(planned(manifest)) == actions(saved)
        carried_out(saved, manifest)
    assert showing.shown(showing.table) == [("id", "bigint", None), ("name", "string", None)]
    assert "lancens.columns" not in fetch(server.uri, showing.table).parameters
