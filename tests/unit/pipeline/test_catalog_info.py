"""The root of a table, and where orphans are searched for."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.auditor.catalog_info import CatalogInfo, RootIndex, searchable_roots
from reconciler.model.names import EVERYTHING, Identifier, Scope
from reconciler.operations.connections import CatalogSpec


def info(name: str, *roots: str, stays: bool = False, scope: Scope = EVERYTHING) -> CatalogInfo:
    return CatalogInfo(CatalogSpec(name, "dir", {}, (), scope), f"store/{name}", {}, roots, stays_under_root=stays)


@pytest.mark.parametrize(
    ("location", "root"),
    [
        ("s3://lake/crm.db/t", "s3://lake/crm.db/"),
        ("s3a://lake/crm.db", "s3://lake/crm.db/"),
        ("s3://lake/crm.dbx/t", "s3://lake"),
        ("s3://lake", "s3://lake"),
        ("s3://elsewhere/t", "s3://lake"),
        ("/data/t", "file:///data"),
        ("/t", "s3://lake"),
        ("odd", "s3://lake"),
    ],
)
def test_a_location_belongs_to_the_innermost_root_around_it_or_to_the_first(location: str, root: str) -> None:
    assert RootIndex(["s3://lake", "s3://lake/crm.db/", "file:///data"]).of(location) == root


def test_the_root_of_everything_is_around_everything_on_the_machine() -> None:
    index = RootIndex(["s3://lake", "/"])
    assert (index.of("/data/t"), index.of("gs://t")) == ("/", "s3://lake")
    assert RootIndex([]).of("/data/t") is None


def searched(catalogs: list[CatalogInfo], *unread: str, **places: str) -> tuple[list[str], list[str], list[str]]:
    """Search the roots of ``catalogs``; ``places`` are those of namespaces, as `catalog__namespace`."""
    lost: defaultdict[str, list[Identifier]] = defaultdict(list)
    for catalog, *names in (one.split("/") for one in unread):
        lost[catalog].append(tuple(names))
    known: defaultdict[str, dict[Identifier, str]] = defaultdict(dict)
    for (catalog, *names), place in ((name.split("__"), place) for name, place in places.items()):
        known[catalog][tuple(names)] = place
    search = searchable_roots(catalogs, lost, known)
    return [root.location for root in search.roots], sorted(search.closed), list(search.reasons)


def test_each_place_is_searched_once_with_the_credentials_of_the_outermost() -> None:
    lake, prod = info("lake", "s3://b/lake/eu", "s3://b/lake-2"), info("prod", "s3a://b/lake/", "/data")
    assert searched([lake, prod]) == (["/data", "s3://b/lake-2", "s3a://b/lake/"], [], [])
    search = searchable_roots([lake, prod], {}, {})
    assert [root.catalog for root in search.roots] == ["prod", "lake", "prod"]


def test_the_places_of_namespaces_are_searched_as_well() -> None:
    prod = info("prod", "/data")
    assert searched([prod], prod__crm="file:/data/crm.db", prod__web="s3://web/db") == (
        ["/data", "s3://web/db"],
        [],
        [],
    )
    assert searched([info("bare")], bare__crm="/crm") == (["/crm"], [], [])


def test_what_is_below_a_root_that_is_passed_over_is_too() -> None:
    part = info("part", "/data/part", scope=Scope(("a/**",)))
    whole = info("whole", "/data", "/data/part/inner", "/data/part")
    reason = "Orphans were not looked for below the roots of part: its `scope` leaves out tables that may be there"
    assert searched([part, whole]) == (["/data"], ["/data/part"], [reason])
    assert searched([part, info("inner", "/data/part/inner")]) == ([], ["/data/part"], [reason])


def test_a_symbolic_link_to_a_root_that_is_passed_over_is_too(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    lake, prod = info("lake", f"{tmp_path}/data", stays=True), info("prod", f"{tmp_path}/link")
    assert searched([prod, lake], "lake/b")[:2] == ([], [f"{tmp_path}/data"])
    assert searched([prod, lake])[0] == [f"{tmp_path}/link"]


def test_an_unread_namespace_closes_the_roots_of_a_catalog_that_stays_below_them() -> None:
    lake, prod = info("lake", "/lake", stays=True), info("prod", "/prod")
    places, closed, [note] = searched([lake, prod], "lake/b")
    assert (places, closed) == (["/prod"], ["/lake"])
    assert "roots of lake: lake/b could not be read" in note


def test_an_unread_namespace_costs_its_own_place_and_no_other() -> None:
    lake, prod = info("lake", "/lake", stays=True), info("prod", "/prod")
    found = searched([lake, prod], "prod/crm/eu", prod__crm="/prod/crm.db", prod__web="/prod/web.db")
    reason = (
        "Orphans were not looked for below /prod/crm.db: prod/crm/eu could not be read, and an orphan elsewhere may be "
        "one of its tables"
    )
    assert found == (["/lake", "/prod"], ["/prod/crm.db"], [reason])


def test_an_unread_namespace_whose_place_is_not_known_costs_the_roots_of_its_catalog() -> None:
    lake, prod = info("lake", "/lake", stays=True), info("prod", "/prod")
    reason = (
        "Orphans were not looked for below the roots of prod: prod/crm could not be read, and an orphan elsewhere may "
        "be one of its tables"
    )
    assert searched([lake, prod], "prod/crm") == (["/lake"], ["/prod"], [reason])


def test_a_catalog_without_a_place_for_tables_is_noted() -> None:
    reason = (
        "Orphans were not looked for in part: neither it nor any of its namespaces names a place where tables go; a "
        "`root` in its `config` would"
    )
    assert searched([info("part", scope=Scope(("a",)))]) == ([], [], [reason])
    assert searched([replace(info("odd"), problem="no answer")]) == ([], [], [])


def test_a_place_that_cannot_be_searched_is_noted() -> None:
    found, closed, notes = searched([info("prod")], prod__a="hdfs://nn/a", prod__b="file:///", prod__c="/c")
    assert (found, closed) == (["/c"], [])
    without_driver, everything = notes
    assert "hdfs://nn/a of prod: " in without_driver
    assert "file:/// of prod: " in everything
