"""Reading a catalog in units: together they hold what one scan returns, whatever happens in between."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler import load
from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.backends.dir import DirBackend
from reconciler.backends.memory import MemoryBackend
from reconciler.model.errors import (
    CatalogError,
    ConfigError,
    InternalError,
    LancensError,
    PermissionDeniedError,
)
from reconciler.model.live import Snapshot
from reconciler.model.names import EVERYTHING, ChildrenOf, Identifier, Only, Scope
from reconciler.operations.connections import CatalogSpec, catalog_specs
from reconciler.pipeline.reading import read_unit
from reconciler.pipeline.rows import COVERAGE, NAMESPACE, NOTE, TABLE, live_table, namespace_of
from reconciler.pipeline.schemas import Row
from reconciler.pipeline.units import DEFAULT_SPLIT, Unit, list_catalogs, list_units, units_in

SECRET = "hunter2-correct-horse"


class Catalog(MemoryBackend):
    """A catalog in memory that has a note, records the scopes of scans, and fails on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.scopes: list[Scope] = []
        self.on_scan: Callable[[Scope], object] = lambda _scope: None
        self.on_list: Callable[[Identifier], object] = lambda _parent: None

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        self.scopes.append(scope)
        self.on_scan(scope)
        return replace(super().scan(scope), notes=("something cannot be shown",))

    def child_namespaces(self, parent: Identifier) -> list[str]:
        self.on_list(parent)
        return super().child_namespaces(parent)


class NamedCatalog(Catalog):
    """One that reads tables by name."""

    reads_by_name = True


def spec_of(scope: Scope = EVERYTHING) -> CatalogSpec:
    return CatalogSpec("lake", "memory", {}, (SECRET,), scope)


def fill(catalog: Catalog, namespaces: Iterable[Identifier], tables: Iterable[Identifier]) -> Catalog:
    """Put namespaces, their ancestors and tables, as far as their namespaces exist, into ``catalog``."""
    there: set[Identifier] = {()}
    for namespace in sorted({name[:depth] for name in namespaces for depth in range(1, len(name) + 1)}):
        catalog.insert_namespace(namespace, {"depth": str(len(namespace))})
        there.add(namespace)
    for table in set(tables):
        if table[:-1] in there:
            catalog.insert_table(table, f"s3://lake/{'/'.join(table)}", {"name": table[-1]})
    return catalog


def small() -> Catalog:
    tables = [("a", "one"), ("a", "two"), ("a", "deep", "three"), ("b", "four"), ("top",)]
    return fill(Catalog(), [("a", "deep"), ("b",), ("empty",)], tables)


@contextmanager
def connected(catalog: Catalog) -> Iterator[None]:
    """Have every connection of the block reach ``catalog``, as if it were on another machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CatalogSpec, "connect", lambda _spec: nullcontext(catalog))
        patch.setattr(MemoryBackend, "in_process", False)
        yield


def units_of(catalog: Catalog, spec: CatalogSpec, *, size: int, split: int = DEFAULT_SPLIT) -> list[Unit]:
    with connected(catalog):
        (listing,) = list_catalogs([spec], split=split)
    return list(units_in(listing, size))


def read(catalog: Catalog, units: Iterable[Unit], **given: Any) -> list[Row]:
    with connected(catalog):
        return [row for unit in units for row in read_unit(unit, **given)]


def snapshot_of(rows: Iterable[Row]) -> Snapshot:
    """Return what ``rows`` say is there; nothing is there twice."""
    found = list(rows)
    namespaces = [namespace_of(row) for row in found if row["kind"] == NAMESPACE]
    tables = [live_table((*row["namespace"], row["name"]), row) for row in found if row["kind"] == TABLE]
    notes = {row["message"] for row in found if row["kind"] == NOTE}
    made = Snapshot({live.id: live for live in namespaces}, {live.id: live for live in tables}, tuple(sorted(notes)))
    assert (len(made.namespaces), len(made.tables)) == (len(namespaces), len(tables))
    return made


def coverage_of(rows: Iterable[Row]) -> Mapping[Identifier, Row]:
    """Return the coverage of each namespace; none has two."""
    found = [row for row in rows if row["kind"] == COVERAGE]
    made = {tuple(row["namespace"]): row for row in found}
    assert len(made) == len(found)
    return made


def errors_in(rows: Iterable[Row]) -> dict[Identifier, str]:
    return {name: row["message"] for name, row in coverage_of(rows).items() if row["message"] is not None}


# ---- together they are the whole -------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c", "*"])
identifiers = st.lists(names, min_size=1, max_size=3).map(tuple)
patterns = st.lists(st.sampled_from(["a", "b", "?", "*", "**"]), min_size=1, max_size=3).map("/".join)
scopes = st.just(EVERYTHING) | st.lists(patterns, max_size=2).map(lambda given: Scope(tuple(given)))


@given(st.sets(identifiers, max_size=8), st.sets(identifiers, max_size=12), scopes, st.integers(1, 10))
def test_all_units_hold_what_one_scan_returns(
    namespaces: set[Identifier], tables: set[Identifier], scope: Scope, size: int
) -> None:
    catalog = fill(Catalog(), namespaces, tables)
    rows = read(catalog, units_of(catalog, spec_of(scope), size=size))
    whole, found = catalog.scan(scope), snapshot_of(rows)
    assert (found.namespaces, found.tables) == (whole.namespaces, whole.tables)
    assert found.notes == (whole.notes if scope.reaches(()) else ())

    covered = coverage_of(rows)
    assert set(covered) == {name for name in [(), *catalog.scan().namespaces] if scope.reaches(name)}
    for name, row in covered.items():
        assert row["tables"] == sum(live[:-1] == name for live in whole.tables)
        assert row["namespaces"] == sum(live[:-1] == name for live in whole.namespaces)


@given(st.sets(identifiers, max_size=4), st.sets(identifiers, max_size=30), scopes, st.integers(1, 3))
def test_so_do_those_of_large_namespaces(
    namespaces: set[Identifier], tables: set[Identifier], scope: Scope, split: int
) -> None:
    catalog = fill(NamedCatalog(), namespaces, tables)
    rows = read(catalog, units_of(catalog, spec_of(scope), size=1, split=split))
    whole, found = catalog.scan(scope), snapshot_of(rows)
    assert (found.namespaces, found.tables) == (whole.namespaces, whole.tables)
    covered = [row for row in rows if row["kind"] == COVERAGE]
    assert sum(row["tables"] for row in covered) == len(whole.tables)


def test_a_large_namespace_is_read_by_name_in_parts() -> None:
    catalog = fill(NamedCatalog(), [("a",)], [("a", f"t{number}") for number in range(7)])
    read(catalog, units_of(catalog, spec_of(), size=1, split=3))
    named = [len(scope.identifiers) for scope in catalog.scopes if isinstance(scope, Only)]
    assert sorted(named) == [1, 3]
    (rest,) = [scope for scope in catalog.scopes if isinstance(scope, ChildrenOf) and scope.namespaces == {("a",)}]
    assert [name for name in (f"t{number}" for number in range(7)) if rest.contains(("a", name))] == ["t0", "t1", "t2"]


def test_a_catalog_that_does_not_read_by_name_is_not_asked_for_names() -> None:
    catalog = fill(Catalog(), [("a",)], [("a", f"t{number}") for number in range(7)])
    units = units_of(catalog, spec_of(), size=1, split=3)
    assert [unit.namespaces for unit in units] == [((),), (("a",),)]


def test_a_large_namespace_of_a_directory_is_read_in_parts(tmp_path: Path) -> None:
    backend = DirBackend(root=str(tmp_path))
    for namespace, tables in {("hot",): 8, ("cold",): 2}.items():
        backend.insert_namespace(namespace, {})
        for number in range(tables):
            table = (*namespace, f"t{number}")
            backend.insert_table(table, backend.default_location(table), {})
    units = list_units([CatalogSpec("lake", "dir", {"root": str(tmp_path)}, (), EVERYTHING)], split=3)
    assert Counter(unit.namespaces for unit in units) == {((),): 1, (("cold",),): 1, (("hot",),): 3}
    parts = [[row for row in read_unit(unit) if row["kind"] == TABLE] for unit in units]
    assert sorted(map(len, parts)) == [0, 2, 2, 3, 3]
    assert snapshot_of(chain(*map(read_unit, units))) == backend.scan()


@pytest.mark.parametrize(
    ("impl", "in_parts"),
    [*((impl, True) for impl in ("dir", "hive2", "hive3", "iceberg", "rest")), ("glue", False), ("unity", False)],
)
def test_a_large_namespace_is_read_in_parts_where_that_saves_calls(impl: str, in_parts: bool) -> None:
    backend = registry.backend_class(impl)
    assert (backend.reads_by_name or backend.overrides(Backend.large_namespaces)) == in_parts


def test_namespaces_share_a_unit_and_a_scan() -> None:
    catalog = small()
    units = units_of(catalog, spec_of(), size=3)
    assert [len(unit.namespaces) for unit in units] == [3, 2]
    read(catalog, units)
    assert len(catalog.scopes) == 2


def test_only_what_leads_to_the_scope_is_listed() -> None:
    catalog = small()
    listed: list[Identifier] = []
    catalog.on_list = listed.append
    units = units_of(catalog, spec_of(Scope(("a/*",))), size=1)
    assert listed == [(), ("a",)]
    assert [unit.namespaces for unit in units] == [((),), (("a",),)]


def test_a_unit_travels() -> None:
    units = units_of(small(), spec_of(Scope(("a/**",))), size=2)
    assert pickle.loads(pickle.dumps(units)) == units  # noqa: S301 - its own
    assert SECRET not in repr(units)


def test_a_catalog_that_cannot_list_its_outermost_level_hears_what_the_manifest_names(tmp_path: Path) -> None:
    path = tmp_path / "lancens.yaml"
    path.write_text(
        "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: memory\n"
        '    scope: ["main/**", "dev", "*/x"]\n    namespaces: {main: {}, more: {namespaces: {x: {}}}}\n'
    )
    (spec,) = catalog_specs(load(path))
    assert spec.outermost_names == {"main", "dev", "more"}
    catalog = fill(Catalog(), [("main",), ("more", "x")], [])
    read(catalog, units_of(catalog, spec, size=1))
    assert catalog.scopes[0].outermost == {"main", "dev"}


# ---- what changes while it is read -----------------------------------------------------------------------------------


def test_what_is_made_after_the_list_is_read_as_well() -> None:
    catalog = small()
    units = units_of(catalog, spec_of(), size=2)
    for namespace in (("b", "new"), ("b", "new", "newer")):
        catalog.insert_namespace(namespace, {})
    catalog.insert_table(("b", "new", "newer", "table"), "s3://lake/x", {})
    rows = read(catalog, units)
    assert snapshot_of(rows) == catalog.scan()
    assert set(coverage_of(rows)) == {(), *catalog.scan().namespaces}


def test_a_table_made_after_its_large_namespace_was_listed_is_read() -> None:
    catalog = fill(NamedCatalog(), [("a",)], [("a", f"t{number}") for number in range(7)])
    units = units_of(catalog, spec_of(), size=1, split=3)
    catalog.insert_table(("a", "late"), "s3://lake/late", {})
    assert snapshot_of(read(catalog, units)).tables == catalog.scan().tables


def test_a_namespace_that_is_gone_is_empty_and_complete() -> None:
    catalog = small()
    units = units_of(catalog, spec_of(), size=1)
    catalog.remove_table(("b", "four"))
    catalog.remove_namespace(("b",))
    rows = read(catalog, units)
    assert snapshot_of(rows) == catalog.scan()
    assert (coverage_of(rows)["b",]["tables"], errors_in(rows)) == (0, {})


def refuses_to_list_a(parent: Identifier) -> None:
    if parent == ("a",):
        raise InternalError("memory: try later")


def test_what_cannot_be_listed_is_read_where_it_is_come_upon() -> None:
    catalog = small()
    catalog.on_list = refuses_to_list_a
    units = units_of(catalog, spec_of(), size=1)
    assert ("a", "deep") not in {name for unit in units for name in unit.namespaces}
    rows = read(catalog, units)
    assert snapshot_of(rows) == catalog.scan()
    assert ("a", "deep") in coverage_of(rows)


# ---- what cannot be read ---------------------------------------------------------------------------------------------


def refusing(namespace: Identifier, error: Exception) -> Callable[[Scope], None]:
    def refuse(scope: Scope) -> None:
        if isinstance(scope, ChildrenOf) and namespace in scope.namespaces:
            raise error

    return refuse


def test_one_bad_namespace_costs_its_neighbours_nothing() -> None:
    catalog = small()
    catalog.on_scan = refusing(("a",), InternalError(f"memory: no answer for {SECRET}"))
    rows = read(catalog, units_of(catalog, spec_of(), size=10))
    assert errors_in(rows) == {("a",): "lake (memory): no answer for (redacted)"}
    catalog.on_scan = lambda _scope: None
    lost = {("a", "one"), ("a", "two")}
    assert set(snapshot_of(rows).tables) == set(catalog.scan().tables) - lost


def test_another_attempt_is_asked_for_while_there_is_one() -> None:
    catalog = small()
    catalog.on_scan = refusing(("a",), InternalError(f"memory: no answer for {SECRET}"))
    with pytest.raises(CatalogError, match=r"^lake \(memory\): .* \(redacted\)$") as refused:
        read(catalog, units_of(catalog, spec_of(), size=1), last_attempt=False)
    assert (refused.value.__cause__, refused.value.__context__) == (None, None)


def test_what_is_not_allowed_is_not_tried_again() -> None:
    catalog = small()
    catalog.on_scan = refusing(("a",), PermissionDeniedError("memory: not allowed"))
    rows = read(catalog, units_of(catalog, spec_of(), size=1), last_attempt=False)
    assert errors_in(rows) == {("a",): "lake (memory): not allowed"}
    assert coverage_of(rows)["a",]["code"] == 15


def test_what_a_backend_should_not_raise_is_an_error_like_others() -> None:
    catalog = small()
    catalog.on_scan = refusing(("a",), KeyError(SECRET))
    said = errors_in(read(catalog, units_of(catalog, spec_of(), size=1)))
    assert said.keys() == {("a",)}
    assert said["a",].startswith("lake (memory): cannot understand")
    assert "(KeyError)" in said["a",]
    assert SECRET not in said["a",]


def test_text_that_arrow_cannot_take_is_an_error() -> None:
    catalog = small()
    catalog.insert_table(("a", "odd"), "s3://lake/odd", {"key": "\ud800"})
    [(where, said)] = errors_in(read(catalog, units_of(catalog, spec_of(), size=1))).items()
    assert where == ("a",)
    assert said.startswith("lake/a/odd ")


def test_a_backend_that_does_not_connect_is_the_error_of_each_namespace() -> None:
    spec = CatalogSpec("lake", "dir", {"rot": SECRET}, (SECRET,), EVERYTHING)
    rows = list(read_unit(Unit(spec, ((), ("a",))), last_attempt=False))
    assert set(errors_in(rows)) == {(), ("a",)}
    assert "did you mean `root`" in errors_in(rows)[()]


# ---- only some of it -------------------------------------------------------------------------------------------------


def selecting(catalog: Catalog, spec: CatalogSpec, *globs: str, split: int = 3) -> list[Unit]:
    """Return the units of the namespaces that ``globs`` match, as :func:`list_units` has them of a catalog."""
    with connected(catalog):
        return list_units([spec], split=split, namespaces=Scope(globs))


@pytest.mark.parametrize("scope", [EVERYTHING, Scope(("a/**",))])
@pytest.mark.parametrize("globs", [("a",), ("a", "a/deep"), ("",), ("*/deep",), ("**",)])
def test_what_is_asked_for_is_what_is_read(scope: Scope, globs: tuple[str, ...]) -> None:
    catalog = small()
    selected = Scope(globs)
    whole = read(catalog, units_of(catalog, spec_of(scope), size=1))
    units = selecting(catalog, spec_of(scope), *globs)
    catalog.scopes.clear()
    rows = [row for row in read(catalog, units) if row["kind"] != NOTE]
    expected = [row for row in whole if row["kind"] != NOTE and selected.contains(row["namespace"])]
    assert sorted(map(repr, rows)) == sorted(map(repr, expected))
    scanned = {name for scope in catalog.scopes if isinstance(scope, ChildrenOf) for name in scope.namespaces}
    assert scanned == set(coverage_of(rows))


def test_nothing_else_is_listed() -> None:
    catalog = small()
    listed: list[Identifier] = []
    catalog.on_list = listed.append
    selecting(catalog, spec_of(), "a")
    assert sorted(listed) == [(), ("a",)]


def test_names_are_asked_for_as_the_catalog_spells_them() -> None:
    catalog = small()
    catalog.known_capabilities = replace(catalog.known_capabilities, folds_case=True)
    assert [unit.namespaces for unit in selecting(catalog, spec_of(), "A")] == [(("a",),)]


def test_what_is_made_meanwhile_is_read_where_it_is_asked_for() -> None:
    catalog = small()
    units = selecting(catalog, spec_of(), "a/**")
    catalog.insert_namespace(("a", "new"), {})
    catalog.insert_namespace(("new",), {})
    rows = read(catalog, units)
    assert set(coverage_of(rows)) == {("a",), ("a", "deep"), ("a", "new")}


def test_what_does_not_tell_what_is_in_it_is_no_gap() -> None:
    catalog = small()
    catalog.on_list = refuses_to_list_a
    units = selecting(catalog, spec_of(), "a/deep")
    rows = read(catalog, units)
    assert (set(coverage_of(rows)), errors_in(rows)) == ({("a", "deep")}, {})
    catalog.on_scan = refusing(("a",), PermissionDeniedError("memory: not allowed"))
    assert errors_in(read(catalog, units)) == {("a",): "lake (memory): not allowed"}


# ---- before anything is read -----------------------------------------------------------------------------------------


def test_memory_cannot_be_reached_by_other_processes() -> None:
    with pytest.raises(LancensError, match=r"^lake \(memory\): .*of one process"):
        list_units([spec_of()])


def test_a_wrong_configuration_is_an_error_at_once(tmp_path: Path) -> None:
    good = CatalogSpec("lake", "dir", {"root": str(tmp_path)}, (), EVERYTHING)
    with pytest.raises(CatalogError, match="did you mean `root`"):
        list_units([good, replace(good, name="other", properties={"rot": "x"})])
    with pytest.raises(ConfigError, match="unknown impl `dri`"):
        list_units([replace(good, impl="dri")])
