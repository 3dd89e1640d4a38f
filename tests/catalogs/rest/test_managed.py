"""Tables whose versions the server keeps itself: pylance's directory namespace with version tracking, over REST."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    CreateTableRequest,
    DeclareTableRequest,
    DescribeTableRequest,
    LanceNamespace,
    ListTableVersionsRequest,
    TableExistsRequest,
)
from lance_namespace.errors import TableNotFoundError, UnsupportedOperationError

import reconciler
from reconciler.applier.report import Status
from reconciler.planner.entries import Action
from reconciler.planner.plan import Plan
from tests.servers.lance_rest import adapter

TABLE = ["n", "t"]
ID = "{name: id, type: int64}"
NAME = "{name: name, type: string}"
REASON = "the service manages its versions (`managed_versioning`)"


@dataclass
class Tracked:
    """A server that keeps versions, and a stock client of it."""

    uri: str
    folder: Path
    namespace: LanceNamespace

    def plan(self, tables: str, **config: str) -> tuple[reconciler.Manifest, Plan]:
        lines = "".join(f"      {key}: {value!r}\n" for key, value in config.items())
        file = self.folder / "lancens.yaml"
        file.write_text(
            "version: 1\nname: kept\ncatalogs:\n  main:\n    impl: rest\n    prune: never\n    config:\n"
            f"      uri: {self.uri}\n      table_properties: false\n{lines}"
            f"    namespaces:\n      n:\n        tables: {tables}\n"
        )
        manifest = reconciler.load(file)
        return manifest, reconciler.plan(manifest)

    def apply(self, manifest: reconciler.Manifest, plan: Plan) -> reconciler.ApplyReport:
        return reconciler.apply(plan, manifest, journal=self.folder / "journal")

    def run(self, plan: Plan, schema: pa.Schema) -> None:
        """Run what the plan says about the table that it cannot plan, as it says it."""
        (blocked,) = plan.blocked
        assert REASON in blocked.reason
        (code,) = re.findall(r"`(lance\.(?:dataset|write_dataset).*?)`, and plan again", blocked.remedy)
        exec(code, {"lance": lance, "pa": pa, "schema": schema, "namespace": self.namespace})  # noqa: S102 - it is what a person runs

    def versions(self) -> list[int]:
        answer = self.namespace.list_table_versions(ListTableVersionsRequest(id=TABLE))
        return sorted(version.version for version in answer.versions)

    def has_table(self) -> bool:
        try:
            self.namespace.table_exists(TableExistsRequest(id=TABLE))
        except TableNotFoundError:
            return False
        return True


@pytest.fixture
def tracked(tmp_path: Path) -> Iterator[Tracked]:
    with adapter(tmp_path / "lake", table_version_tracking_enabled="true") as uri:
        namespace = lance_namespace.connect("rest", {"uri": uri})
        namespace.create_namespace(CreateNamespaceRequest(id=["n"]))
        yield Tracked(uri, tmp_path, namespace)


def test_a_declared_table_gets_its_dataset_through_the_server_only(tracked: Tracked) -> None:
    tracked.namespace.declare_table(DeclareTableRequest(id=TABLE))
    manifest, plan = tracked.plan(f"{{t: {{schema: [{ID}]}}}}")
    assert not plan.changes
    assert tracked.versions() == []
    tracked.run(plan, pa.schema([("id", pa.int64())]))
    assert tracked.versions() == [1]
    again = reconciler.plan(manifest)
    assert not again.changes
    assert not again.blocked


def test_columns_are_added_through_the_server_only(tracked: Tracked) -> None:
    schema = pa.schema([("id", pa.int64()), ("others", pa.int64())])
    lance.write_dataset(schema.empty_table(), namespace_client=tracked.namespace, table_id=TABLE, mode="create")
    manifest, plan = tracked.plan(f"{{t: {{schema: [{ID}, {NAME}], evolve: additive}}}}")
    assert not plan.changes
    assert "must not add columns in storage" in plan.blocked[0].reason
    tracked.run(plan, schema)
    assert tracked.versions() == [1, 2]
    there = lance.dataset(namespace_client=tracked.namespace, table_id=TABLE)
    assert there.schema.names == ["id", "others", "name"]
    assert reconciler.plan(manifest).is_empty


def test_where_the_block_does_not_let_it_grow_the_call_is_the_servers_too(tracked: Tracked) -> None:
    lance.write_dataset(pa.table({"id": [1]}), namespace_client=tracked.namespace, table_id=TABLE, mode="create")
    _, plan = tracked.plan(f"{{t: {{schema: [{ID}, {NAME}]}}}}")
    assert 'lance.dataset(namespace_client=namespace, table_id=["n", "t"]).add_columns(' in plan.blocked[0].remedy


def test_what_is_only_about_the_entry_goes_on(tracked: Tracked) -> None:
    lance.write_dataset(pa.table({"id": [1]}), tracked.folder / "lake" / "there.lance")
    there = str(tracked.folder / "lake" / "there.lance")
    root = str(tracked.folder / "lake")
    manifest, plan = tracked.plan(f"{{t: {{location: {there}, schema: [{ID}]}}}}", root=root)
    assert [change.action for change in plan.changes] == [Action.REGISTER_TABLE]
    assert tracked.apply(manifest, plan).ok
    described = tracked.namespace.describe_table(DescribeTableRequest(id=TABLE))
    assert described.managed_versioning
    assert reconciler.plan(manifest).is_empty
    manifest, plan = tracked.plan("{t: {absent: true}}", root=root)
    assert [change.action for change in plan.changes] == [Action.DEREGISTER_TABLE]
    assert tracked.apply(manifest, plan).ok
    assert lance.dataset(there).count_rows() == 1


@pytest.mark.parametrize("with_root", [False, True])
def test_a_new_table_is_not_left_behind_without_its_dataset(tracked: Tracked, with_root: bool) -> None:
    """Only the answer to its declaration says that the server keeps its versions."""
    lake = tracked.folder / "lake"
    before = sorted(lake.rglob("*.manifest"))
    config = {"root": str(lake)} if with_root else {}
    manifest, plan = tracked.plan(f"{{t: {{schema: [{ID}]}}}}", **config)
    assert [change.action for change in plan.changes] == [Action.CREATE_TABLE]
    (result,) = tracked.apply(manifest, plan).results
    assert result.status is Status.FAILED
    assert "managed_versioning" in result.message
    assert result.message.endswith("that entry is taken back")
    assert not tracked.has_table()
    assert [path for path in sorted(lake.rglob("*.manifest")) if "__manifest" not in str(path)] == [
        path for path in before if "__manifest" not in str(path)
    ]


def test_one_that_came_to_be_such_a_table_since_the_plan_is_not_written_to(tmp_path: Path) -> None:
    with adapter(tmp_path / "lake") as uri:
        namespace = lance_namespace.connect("rest", {"uri": uri})
        namespace.create_namespace(CreateNamespaceRequest(id=["n"]))
        namespace.declare_table(DeclareTableRequest(id=TABLE))
        manifest, plan = Tracked(uri, tmp_path, namespace).plan(f"{{t: {{schema: [{ID}]}}}}")
        assert [change.action for change in plan.changes] == [Action.CREATE_TABLE]
    properties = {"root": str(tmp_path / "lake"), "table_version_tracking_enabled": "true"}
    with lance.namespace.RestAdapter("dir", properties, port=int(uri.rpartition(":")[2])):
        (result,) = reconciler.apply(plan, manifest, journal=tmp_path / "journal").results
    assert result.status is Status.FAILED
    assert "managed_versioning" in result.message


def test_no_data_is_written_for_create_table_either(tracked: Tracked) -> None:
    connected = reconciler.connect("rest", {"uri": tracked.uri, "table_properties": "false"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("id", pa.int64())])):
        pass
    with pytest.raises(UnsupportedOperationError, match="managed_versioning"):
        connected.create_table(CreateTableRequest(id=TABLE), sink.getvalue().to_pybytes())
    assert not tracked.has_table()


def test_clients_of_lancens_are_told(tracked: Tracked) -> None:
    """So that they ask for versions, rather than write past the server."""
    schema = pa.schema([("id", pa.int64())])
    lance.write_dataset(schema.empty_table(), namespace_client=tracked.namespace, table_id=TABLE, mode="create")
    connected = reconciler.connect("rest", {"uri": tracked.uri, "table_properties": "false"})
    assert connected.declare_table(DeclareTableRequest(id=["n", "other"])).managed_versioning
    assert connected.describe_table(DescribeTableRequest(id=TABLE)).managed_versioning
    with pytest.raises(OSError, match="Commit result for version 2 is unknown"):
        lance.write_dataset(pa.table({"id": [1]}), namespace_client=connected, table_id=TABLE, mode="append")
    assert tracked.versions() == [1]
