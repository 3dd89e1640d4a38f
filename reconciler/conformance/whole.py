"""Checks of the whole catalog: scans, concurrent connections and threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial

from lance_namespace import errors as spec

from reconciler.backends.base import snapshot_within
from reconciler.conformance.context import CheckContext, check
from reconciler.conformance.expectations import ViolationError, equal, require
from reconciler.model.columns import Column
from reconciler.model.live import LiveNamespace, LiveTable, PropertyChanges
from reconciler.model.names import ChildrenOf, Identifier, Only, Scope

_THREADS = 8


def _create_tables(context: CheckContext) -> None:
    """Create tables and, if namespaces nest, namespaces in ``base``."""
    for name in ("alpha", "beta"):
        context.declare((*context.base, name), {"named": name})
    if context.can_nest and context.backend.capabilities().table_depths[1] is None:
        inner = context.nested_namespace()
        context.create(inner, {"inner": "yes"})
        context.declare((*inner, "gamma"))
        context.create((*inner, "empty"))


def _scope_below_base(context: CheckContext) -> Scope:
    return Scope(("/".join((*context.base, "**")),))


@check("scan", promised=True)
def a_scan_is_what_a_walk_finds(context: CheckContext) -> None:
    """A scan returns each namespace and table that listing and describing find, with the same properties."""
    _create_tables(context)
    seen = context.backend.scan(_scope_below_base(context))
    todo = [context.base]
    spaces, tables = set(), set()
    while todo:
        parent = todo.pop()
        spaces.add(parent)
        live = seen.namespaces.get(parent)
        scanned_properties = dict(live.properties) if live else None
        equal(f"the properties of {parent}", scanned_properties, context.namespace_properties(parent))
        for name in context.tables(parent):
            tables.add((*parent, name))
            response, scanned = context.describe((*parent, name)), seen.tables.get((*parent, name))
            if scanned is None:
                raise ViolationError(f"the scan lacks the table {(*parent, name)}")
            equal(f"the properties of {name}", dict(scanned.properties), response.properties)
            context.expect_same_location(f"the location of {name}", scanned.location, response.location)
        if len(parent) < (context.backend.capabilities().max_depth or len(parent) + 1):
            todo += [(*parent, name) for name in context.namespaces(parent)]
    depth = len(context.base)
    equal(
        "the tables of the scan",
        {identifier for identifier in seen.tables if identifier[:depth] == context.base},
        tables,
    )
    equal(
        "the namespaces of the scan",
        {identifier for identifier in seen.namespaces if identifier[:depth] == context.base},
        spaces,
    )


@check("scan", promised=True)
def a_scan_keeps_to_its_scope(context: CheckContext) -> None:
    """A scope selects tables; the namespaces above them are part of the answer, others are not."""
    _create_tables(context)
    with context.second_namespace() as other:
        context.declare((*other, "alpha"))
        seen = context.backend.scan(Scope(("/".join((*context.base, "al*")),)))
        equal("the tables", set(seen.tables), {(*context.base, "alpha")})
        equal("the table's namespace is there", context.base in seen.namespaces, expected=True)
        equal("the other namespace is there", other in seen.namespaces, expected=False)


@check("scan", promised=True)
def a_scan_of_literal_names_is_its_part_of_the_whole(context: CheckContext) -> None:
    """A scan of literal names returns exactly its part of a full scan, and the namespaces above."""
    _create_tables(context)
    sibling = context.sibling("_second")
    inner, missing = (*context.base, "inner"), (*context.base, "lancens_check_never_made")
    scopes = (
        ChildrenOf([context.base]),
        ChildrenOf([context.base, inner, sibling]),
        ChildrenOf([missing]),
        Only([(*context.base, "alpha"), missing]),
        Only([(*inner, "gamma"), (*sibling, "alpha")]),
    )
    with context.second_namespace():
        context.declare((*sibling, "alpha"), {"named": "the other's"})
        parts = [context.backend.scan(scope) for scope in scopes]
        whole = context.backend.scan()
    for scope, part in zip(scopes, parts, strict=True):
        expected = snapshot_within(scope, whole.namespaces.values(), whole.tables.values())
        equal(f"the tables of {scope.patterns}", part.tables, expected.tables)
        equal(f"the namespaces of {scope.patterns}", part.namespaces, expected.namespaces)


@check("scan", promised=True)
def foreign_tables_are_told_apart(context: CheckContext) -> None:
    """A table of another format is among the foreign tables of its namespace, without those of other namespaces."""
    require(context.add_foreign is not None, "the caller passed no add_foreign")
    foreign_tables = partial(context.backend.foreign_tables, context.base)
    context.declare((*context.base, "ours"))
    equal("the foreign tables before", [table.id for table in foreign_tables()], [])
    with context.foreign_object():
        foreign_ids = [foreign.id for foreign in foreign_tables()]
        require(bool(foreign_ids), "the backend does not list foreign tables")
        equal("the foreign tables", foreign_ids, [(*context.base, "theirs")])
        for names, expected in ((["ours", "theirs"], ["theirs"]), (["ours", "nobodys"], [])):
            equal(f"the foreign tables named {names}", [table.id[-1] for table in foreign_tables(names)], expected)


@check("scan", promised=True)
def a_scan_of_nothing_is_empty(context: CheckContext) -> None:
    """A namespace that does not exist has no tables to scan, and that is not an error."""
    seen = context.backend.scan(Scope(("/".join((*context.base[:-1], "lancens_check_never_made", "**")),)))
    equal("the tables", dict(seen.tables), {})


@check("concurrency", promised=True)
def threads_declare_tables_of_their_own(context: CheckContext) -> None:
    """Eight threads on one backend declare tables of different names: all are there."""
    names = [f"t{number}" for number in range(_THREADS * 2)]
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda name: context.declare((*context.base, name)), names))
    equal("the tables", context.tables(context.base), sorted(names))


@check("concurrency", promised=True)
def threads_declare_the_same_table(context: CheckContext) -> None:
    """Eight threads declare one table: one succeeds, the others get TableAlreadyExists, one entry is there."""
    table = (*context.base, "contended")
    won = _winners(spec.TableAlreadyExistsError, lambda number: context.declare(table, {"winner": str(number)}))
    equal("how many succeeded", len(won), 1)
    equal("the tables", context.tables(context.base), ["contended"])
    if context.backend.capabilities().table_markers:
        equal("the properties", context.properties(table, {"winner": ""}), {"winner": str(won[0])})


@check("concurrency", promised=True)
def threads_create_the_same_namespace(context: CheckContext) -> None:
    """Eight threads create one namespace: one succeeds, the others get NamespaceAlreadyExists."""
    with context.second_namespace(is_made=False) as other:
        won = _winners(spec.NamespaceAlreadyExistsError, lambda number: context.create(other, {"winner": str(number)}))
        equal("how many succeeded", len(won), 1)


def _winners(expected: type[Exception], attempt: Callable[[int], object]) -> list[int]:
    """Call ``attempt`` in all threads; return the numbers of those that did not raise ``expected``."""

    def run(number: int) -> int | None:
        try:
            attempt(number)
        except expected:
            return None
        return number

    with ThreadPoolExecutor(_THREADS) as pool:
        return [number for number in pool.map(run, range(_THREADS)) if number is not None]


class _RefusedError(Exception):
    """Raised by a check at commit."""


@check("concurrency", promised=True)
def a_check_at_commit_stops_each_change(context: CheckContext) -> None:
    """Each change passes the object that it alters, renames or removes to a check; if that refuses, nothing changes."""
    backend, table = context.backend, (*context.base, "checked")
    require(backend.checks_at_commit, "the catalog has no check at commit")
    able, changes = backend.capabilities(), PropertyChanges({"named": "after"})
    context.declare(table, {"named": "before"})
    seen: list[Identifier] = []

    def refuse(live: LiveNamespace | LiveTable) -> None:
        seen.append(live.id)
        raise _RefusedError

    checked = backend.checking(refuse)
    with context.second_namespace() as space:
        calls: list[tuple[Identifier, Callable[[], object]]] = [
            (table, lambda: checked.remove_table(table)),
            (space, lambda: checked.remove_namespace(space)),
        ]
        if able.alter_table:
            calls.append((table, lambda: checked.alter_table(table, changes)))
        if able.alter_namespace:
            calls.append((space, lambda: checked.alter_namespace(space, changes)))
        if context.can_rename:
            calls.append((table, lambda: checked.rename_table(table, (*context.base, "renamed"))))
        columns = backend.columns_to_show((Column("a", "int64"),))
        if columns is not None and able.alter_table:
            calls.append((table, lambda: checked.show_columns(table, columns)))
        before = backend.load_table(table), backend.load_namespace(space)
        for _, call in calls:
            with suppress(_RefusedError):
                call()
        equal("the objects that the check got", seen, [identifier for identifier, _ in calls])
        equal("the objects afterwards", (backend.load_table(table), backend.load_namespace(space)), before)


@check("connection")
def a_second_connection_sees_the_same(context: CheckContext) -> None:
    """A second connection to the same catalog sees an entry as soon as it is created."""
    other = context.connect()
    try:
        require(other.namespace_id() == context.backend.namespace_id(), "each connection is a catalog of its own")
        context.declare((*context.base, "shared"))
        seen = replace(context, backend=other)
        equal("the tables", seen.tables(context.base), ["shared"])
        seen.remove_table((*context.base, "shared"))
        equal("the tables after the other's deregister", context.tables(context.base), [])
    finally:
        if other is not context.backend:
            other.close()


@check("connection", promised=True)
def the_connections_name_holds_no_secret(context: CheckContext) -> None:
    """The name of a connection begins with the implementation and holds no value of a storage option."""
    text = context.backend.namespace_id()
    equal("the implementation is named", text.startswith(f"{context.backend.impl}: "), expected=True)
    shown = [key for key, value in context.backend.config.storage.items() if len(value) > 3 and value in text]
    equal("the options whose values are shown", shown, [])
