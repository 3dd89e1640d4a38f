"""Gravitino's Lance REST service, which no test here can run: its routes and answers, scripted.

The routes, the prefix `/lance`, the two levels of namespaces, `$` between them, and what modes and behaviours mean are
those of Apache Gravitino's documentation, "Lance REST Service"
(https://gravitino.apache.org/docs/1.1.0/lance-rest-service, and its edition for 1.3).
The texts of errors, that the code of an error is its status, that a list of tables is refused on any level but the
second, and that an unknown route ends as a 500 are those of its source (lance/lance-rest-server and lance/lance-common:
LanceExceptionMapper, GravitinoLanceNameSpaceOperations, GravitinoLanceTableOperations).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import lance
import pytest

import reconciler
from reconciler.backends.rest import RestBackend
from reconciler.model.errors import InvalidInputError, NamespaceNotFoundError, TableNotFoundError
from reconciler.planner.entries import Action
from tests.servers.lance_rest import Request, Scripted, scripted

Properties = dict[str, str]
Answer = tuple[int, object]
STACK_TRACE = (
    "org.apache.gravitino.exceptions.NoSuchTableException: no\n\tat org.apache.gravitino.lance.Inner.call(Inner.java:7)"
)


class Gravitino:
    """A metalake: catalogs, schemas in them, tables in those. ``codes``: errors have the codes of the specification."""

    def __init__(self, *, codes: bool) -> None:
        self._codes = codes
        self.spaces: dict[tuple[str, ...], Properties] = {}
        self.tables: dict[tuple[str, ...], Properties] = {}

    def __call__(self, request: Request) -> Answer:
        parts = request.path.split("/")
        if parts[1] != "lance" or len(parts) < 6 or parts[2] != "v1":
            return self._error(500, 18, "HTTP 404 Not Found")
        identifier = tuple(name for name in unquote(parts[4]).split("$") if name)
        route = getattr(self, f"_{parts[3]}_{'_'.join(parts[5:])}", None)
        if route is None:
            return self._error(500, 18, "HTTP 404 Not Found")
        answer: Answer = route(identifier, request.body or {})
        return answer

    def _error(self, status: int, code: int, said: str) -> Answer:
        body = {"error": said, "code": code if self._codes else status, "type": "NoSuchTableException"}
        return status, {**body, "instance": "", "detail": STACK_TRACE}

    def _page(self, key: str, names: list[str]) -> Answer:
        return 200, {key: sorted(names)}

    def _missing(self, space: tuple[str, ...]) -> Answer | None:
        return None if not space or space in self.spaces else self._error(404, 1, f"Schema not found: {space[-1]}")

    # ---- namespaces ----------------------------------------------------------------------------------------------

    def _namespace_list(self, space: tuple[str, ...], _: Any) -> Answer:
        return self._missing(space) or self._page(
            "namespaces", [name[-1] for name in self.spaces if name[:-1] == space]
        )

    def _namespace_describe(self, space: tuple[str, ...], _: Any) -> Answer:
        return self._missing(space) or (200, {"properties": self.spaces[space]})

    def _namespace_exists(self, space: tuple[str, ...], _: Any) -> Answer:
        return self._missing(space) or (200, b"")

    def _namespace_create(self, space: tuple[str, ...], body: Any) -> Answer:
        if len(space) not in (1, 2):
            said = f"Expected at most 2-level and at least 1-level namespace but got: {'$'.join(space)}"
            return self._error(400, 13, said)
        if space in self.spaces:
            return self._error(409, 2, f"Schema already exists: {space[-1]}")
        self.spaces[space] = {**body.get("properties", {}), "in-use": "true"}
        return self._missing(space[:-1]) or (200, {"properties": self.spaces[space]})

    def _namespace_drop(self, space: tuple[str, ...], body: Any) -> Answer:
        assert body["behavior"].lower() == "restrict"
        if any(name[: len(space)] == space and name != space for name in (*self.spaces, *self.tables)):
            return self._error(400, 13, f"Schema {space[-1]} is not empty.")
        missing = self._missing(space)
        self.spaces.pop(space, None)
        return missing or (200, {})

    def _namespace_table_list(self, space: tuple[str, ...], _: Any) -> Answer:
        if len(space) != 2:
            return self._error(400, 13, f"Expected 2-level namespace but got: {len(space)}")
        return self._missing(space) or self._page("tables", [name[-1] for name in self.tables if name[:-1] == space])

    # ---- tables --------------------------------------------------------------------------------------------------

    def _table(self, table: tuple[str, ...]) -> Answer | None:
        if len(table) != 3:
            return self._error(400, 13, f"Expected at 3-level namespace but got: {len(table)}")
        return None if table in self.tables else self._error(404, 4, f"Table not found: {'$'.join(table)}")

    def _table_describe(self, table: tuple[str, ...], _: Any) -> Answer:
        missing = self._table(table)
        if missing:
            return missing
        properties = self.tables[table]
        return 200, {"location": properties["location"], "properties": properties, "storage_options": {}}

    def _table_exists(self, table: tuple[str, ...], _: Any) -> Answer:
        return self._table(table) or (200, b"")

    def _table_declare(self, table: tuple[str, ...], body: Any) -> Answer:
        if len(table) != 3:
            return self._error(400, 13, f"Expected at 3-level namespace but got: {len(table)}")
        if table in self.tables:
            return self._error(409, 5, f"Table already exists: {'$'.join(table)}")
        # A location gets a slash at its end; Gravitino's own properties come beside those that are asked for.
        location = body.get("location", "/lake/chosen").rstrip("/") + "/"
        own = {"location": location, "format": "lance", "external": "true"}
        self.tables[table] = {**body.get("properties", {}), **own}
        return 200, {"location": location}

    _table_register = _table_declare

    def _table_deregister(self, table: tuple[str, ...], _: Any) -> Answer:
        missing = self._table(table)
        self.tables.pop(table, None)
        return missing or (200, {"id": list(table)})


@pytest.fixture(params=[True, False], ids=["codes of the specification", "codes are statuses"])
def metalake(request: pytest.FixtureRequest) -> Gravitino:
    return Gravitino(codes=request.param)


@pytest.fixture
def service(metalake: Gravitino) -> Iterator[Scripted]:
    with scripted(metalake) as running:
        yield running


def test_a_manifest_is_planned_applied_and_taken_away(service: Scripted, metalake: Gravitino, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    file = tmp_path / "lancens.yaml"
    head = f"version: 1\nname: store\ncatalogs:\n  main:\n    impl: rest\n    config: {{uri: {service.url}/lance}}\n"
    tables = f"""
          users: {{location: {lake}/users.lance, schema: [{{name: id, type: int64}}], properties: {{tier: gold}}}}
          events: {{location: {lake}/events.lance}}
"""
    file.write_text(f"{head}    namespaces:\n      lake:\n        namespaces: {{ads: {{tables: {{}}}}}}\n")
    wanted = head + "    namespaces:\n      lake:\n        namespaces:\n          ads:\n            tables:\n"
    file.write_text(wanted + tables.replace("          ", "              ", 2))
    manifest = reconciler.load(file)
    plan = reconciler.plan(manifest)
    assert not plan.blocked
    assert [change.action for change in plan.changes] == [
        Action.CREATE_NAMESPACE,
        Action.CREATE_NAMESPACE,
        Action.DECLARE_TABLE,
        Action.CREATE_TABLE,
    ]
    report = reconciler.apply(plan, manifest, journal=tmp_path / "journal")
    assert report.ok, report.results
    assert lance.dataset(str(lake / "users.lance")).schema.names == ["id"]
    assert metalake.tables["lake", "ads", "users"]["tier"] == "gold"
    assert reconciler.plan(manifest).is_empty
    file.write_text(f"{head}    namespaces: {{lake: {{namespaces: {{ads: {{}}}}}}}}\n")
    manifest = reconciler.load(file)
    plan = reconciler.plan(manifest)
    assert {change.action for change in plan.changes} == {Action.DEREGISTER_TABLE}
    assert reconciler.apply(plan, manifest, journal=tmp_path / "journal").ok
    assert metalake.tables == {}
    assert lance.dataset(str(lake / "users.lance")).count_rows() == 0


def test_what_is_refused_is_told_without_its_stack_trace(service: Scripted, metalake: Gravitino) -> None:
    metalake.spaces = {("lake",): {}, ("lake", "ads"): {}}
    backend = RestBackend(uri=f"{service.url}/lance")
    with pytest.raises(TableNotFoundError, match=r"Table not found: lake\$ads\$none") as missing:
        backend.load_table(("lake", "ads", "none"))
    assert "Inner.java" not in str(missing.value)
    with pytest.raises(NamespaceNotFoundError):
        backend.child_tables(("lake", "none"))
    with pytest.raises(InvalidInputError, match="3-level namespace but got: 2"):
        backend.insert_table(("lake", "t"), "s3://lake/t.lance", {})
    with pytest.raises(InvalidInputError, match="Expected at most 2-level"):
        backend.insert_namespace(("lake", "ads", "deeper"), {})


def test_levels_without_tables_hold_none(service: Scripted, metalake: Gravitino) -> None:
    metalake.spaces = {("lake",): {}, ("lake", "ads"): {}}
    metalake.tables = {("lake", "ads", "t"): {"location": "s3://lake/t/"}}
    backend = RestBackend(uri=f"{service.url}/lance")
    assert backend.child_tables(()) == []
    assert backend.child_tables(("lake",)) == []
    assert set(backend.scan().tables) == {("lake", "ads", "t")}
    assert not backend.asked_capabilities().alter_table
