"""Checks of the catalog as a whole: scans, several connections, several threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from lance_namespace.errors import NamespaceAlreadyExistsError, TableAlreadyExistsError

from reconciler import locations
from reconciler.backends.scoping import snapshot_within
from reconciler.conformance.check import FaultError, check, equal, need
from reconciler.conformance.context import Ground
from reconciler.names import ChildrenOf, Only, Scope

_THREADS = 8


def _furnish(ground: Ground) -> None:
    """Put tables and, where they nest, namespaces below ``base``."""
    for name in ("alpha", "beta"):
        ground.declare((*ground.base, name), {"named": name})
    if ground.nests and ground.backend.capabilities.table_depths[1] is None:
        inner = ground.nested()
        ground.create(inner, {"inner": "yes"})
        ground.declare((*inner, "gamma"))
        ground.create((*inner, "empty"))


def _under(ground: Ground) -> Scope:
    return Scope(("/".join((*ground.base, "**")),))


@check("scan")
def a_scan_is_what_a_walk_finds(ground: Ground) -> None:
    """A scan returns each namespace and table that listing and describing find, with the same properties."""
    _furnish(ground)
    seen = ground.backend.scan(_under(ground))
    todo = [ground.base]
    spaces, tables = set(), set()
    while todo:
        parent = todo.pop()
        spaces.add(parent)
        live = seen.namespaces.get(parent)
        equal(f"the properties of {parent}", dict(live.properties) if live else None, ground.namespace(parent))
        for name in ground.tables(parent):
            tables.add((*parent, name))
            found, scanned = ground.describe((*parent, name)), seen.tables.get((*parent, name))
            if scanned is None:
                raise FaultError(f"the scan lacks the table {(*parent, name)}")
            equal(f"the properties of {name}", dict(scanned.properties), found.properties)
            equal(
                f"the location of {name}",
                locations.normalise(scanned.location),
                locations.normalise(found.location or ""),
            )
        if len(parent) < (ground.backend.capabilities.max_depth or len(parent) + 1):
            todo += [(*parent, name) for name in ground.namespaces(parent)]
    depth = len(ground.base)
    equal("the tables of the scan", {found for found in seen.tables if found[:depth] == ground.base}, tables)
    equal("the namespaces of the scan", {found for found in seen.namespaces if found[:depth] == ground.base}, spaces)


@check("scan")
def a_scan_keeps_to_its_scope(ground: Ground) -> None:
    """A scope selects tables; the namespaces above them are part of the answer, others are not."""
    _furnish(ground)
    other = (*ground.base[:-1], ground.base[-1] + "_other")
    ground.create(other)
    try:
        ground.declare((*other, "alpha"))
        seen = ground.backend.scan(Scope(("/".join((*ground.base, "al*")),)))
        equal("the tables", set(seen.tables), {(*ground.base, "alpha")})
        equal("the table's namespace is there", ground.base in seen.namespaces, wanted=True)
        equal("the other namespace is there", other in seen.namespaces, wanted=False)
    finally:
        ground.drop(other, mode="skip", behavior="cascade")


@check("scan")
def a_scan_of_literal_names_is_its_part_of_the_whole(ground: Ground) -> None:
    """A scope of literal names is answered with just what it selects of a full scan, and the namespaces above that."""
    _furnish(ground)
    sibling = (*ground.base[:-1], ground.base[-1] + "_other")
    inner, missing = (*ground.base, "inner"), (*ground.base, "lancens_check_never_made")
    scopes = (
        ChildrenOf([ground.base]),
        ChildrenOf([ground.base, inner, sibling]),
        ChildrenOf([missing]),
        Only([(*ground.base, "alpha"), missing]),
        Only([(*inner, "gamma"), (*sibling, "alpha")]),
    )
    ground.create(sibling)
    try:
        ground.declare((*sibling, "alpha"), {"named": "the other's"})
        parts = [ground.backend.scan(scope) for scope in scopes]
        whole = ground.backend.scan()
    finally:
        ground.drop(sibling, mode="skip", behavior="cascade")
    for scope, part in zip(scopes, parts, strict=True):
        wanted = snapshot_within(scope, whole.namespaces.values(), whole.tables.values())
        equal(f"the tables of {scope.patterns}", part.tables, wanted.tables)
        equal(f"the namespaces of {scope.patterns}", part.namespaces, wanted.namespaces)


@check("scan")
def foreign_tables_are_told_apart(ground: Ground) -> None:
    """A table that is no Lance table is among the foreign tables of its namespace, each of which is in that itself."""
    need(ground.add_foreign is not None, "no way was given to make a foreign object")
    assert ground.add_foreign is not None
    ground.declare((*ground.base, "ours"))
    equal("the foreign tables before", [found.id for found in ground.backend.foreign_tables(ground.base)], [])
    take_away = ground.add_foreign(ground.backend, (*ground.base, "theirs"))
    try:
        found = [foreign.id for foreign in ground.backend.foreign_tables(ground.base)]
        need(bool(found), "the backend does not tell of foreign tables")
        equal("the foreign tables", found, [(*ground.base, "theirs")])
    finally:
        take_away()


@check("scan")
def a_scan_of_nothing_is_empty(ground: Ground) -> None:
    """A namespace that does not exist has no tables to scan, and that is no error."""
    seen = ground.backend.scan(Scope(("/".join((*ground.base[:-1], "lancens_check_never_made", "**")),)))
    equal("the tables", dict(seen.tables), {})


@check("concurrency")
def threads_declare_tables_of_their_own(ground: Ground) -> None:
    """Eight threads on one backend declare tables of different names: all are there."""
    names = [f"t{number}" for number in range(_THREADS * 2)]
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda name: ground.declare((*ground.base, name)), names))
    equal("the tables", ground.tables(ground.base), sorted(names))


@check("concurrency")
def threads_declare_the_same_table(ground: Ground) -> None:
    """Eight threads declare one table: one succeeds, the others get TableAlreadyExists, one entry is there."""
    table = (*ground.base, "contended")
    won = _winners(TableAlreadyExistsError, lambda number: ground.declare(table, {"winner": str(number)}))
    equal("how many succeeded", len(won), 1)
    equal("the tables", ground.tables(ground.base), ["contended"])
    if ground.backend.capabilities.table_markers:
        equal("the properties", ground.properties(table, {"winner": ""}), {"winner": str(won[0])})


@check("concurrency")
def threads_create_the_same_namespace(ground: Ground) -> None:
    """Eight threads create one namespace: one succeeds, the others get NamespaceAlreadyExists."""
    other = (*ground.base[:-1], ground.base[-1] + "_contended")
    try:
        won = _winners(NamespaceAlreadyExistsError, lambda number: ground.create(other, {"winner": str(number)}))
        equal("how many succeeded", len(won), 1)
    finally:
        ground.drop(other, mode="skip")


def _winners(loses: type[Exception], attempt: Callable[[int], object]) -> list[int]:
    """Return the numbers of the threads whose ``attempt`` did not raise ``loses``."""

    def run(number: int) -> int | None:
        try:
            attempt(number)
        except loses:
            return None
        return number

    with ThreadPoolExecutor(_THREADS) as pool:
        return [number for number in pool.map(run, range(_THREADS)) if number is not None]


@check("connection")
def a_second_connection_sees_the_same(ground: Ground) -> None:
    """What one connection made, another one to the same catalog sees at once."""
    other = ground.connect()
    try:
        need(other.namespace_id() == ground.backend.namespace_id(), "each connection is a catalog of its own")
        ground.declare((*ground.base, "shared"))
        equal("the tables", list(other.child_tables(ground.base)), ["shared"])
        other.remove_table((*ground.base, "shared"))
        equal("the tables after the other's deregister", ground.tables(ground.base), [])
    finally:
        if other is not ground.backend:
            other.close()


@check("connection")
def the_connections_name_holds_no_secret(ground: Ground) -> None:
    """The text that names a connection starts with the implementation and holds no storage option's value."""
    text = ground.backend.namespace_id()
    equal("the implementation is named", text.startswith(f"{ground.backend.impl}: "), wanted=True)
    shown = [key for key, value in ground.backend.config.storage.items() if len(value) > 3 and value in text]
    equal("the options whose values are shown", shown, [])
