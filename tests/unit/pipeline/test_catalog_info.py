"""Which root a table belongs to, and where orphans can be told."""

from __future__ import annotations

import pytest

from reconciler.names import EVERYTHING, Scope
from reconciler.operations.connections import CatalogSpec
from reconciler.pipeline.catalog_info import CatalogInfo, RootIndex, searchable_roots


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


def searched(catalogs: list[CatalogInfo], **unread: str) -> tuple[list[str], list[str], list[str]]:
    search = searchable_roots(catalogs, unread)
    return [root.location for root in search.roots], list(search.closed), list(search.reasons)


def test_each_place_is_searched_once_with_the_credentials_of_the_outermost() -> None:
    lake, prod = info("lake", "s3://b/lake/eu", "s3://b/lake-2"), info("prod", "s3a://b/lake/", "/data")
    assert searched([lake, prod]) == (["/data", "s3://b/lake-2", "s3a://b/lake/"], [], [])
    search = searchable_roots([lake, prod], {})
    assert [root.catalog for root in search.roots] == ["prod", "lake", "prod"]


def test_what_is_below_a_root_that_is_passed_over_is_too() -> None:
    part = info("part", "/data/part", scope=Scope(("a/**",)))
    whole = info("whole", "/data", "/data/part/inner", "/data/part")
    reason = "Orphans were not looked for below the roots of part: its `scope` leaves out tables that may be there"
    assert searched([part, whole]) == (["/data"], ["/data/part"], [reason])
    assert searched([part, info("inner", "/data/part/inner")]) == ([], ["/data/part"], [reason])


def test_an_unread_namespace_closes_the_roots_of_a_catalog_that_stays_below_them() -> None:
    lake, prod = info("lake", "/lake", stays=True), info("prod", "/prod")
    assert searched([lake, prod], lake="lake/b") == (
        ["/prod"],
        ["/lake"],
        ["Orphans were not looked for below the roots of lake: lake/b could not be read"],
    )


def test_an_unread_namespace_that_may_hold_tables_anywhere_closes_every_root() -> None:
    lake, prod = info("lake", "/lake", stays=True), info("prod", "/prod")
    reason = "Orphans were not looked for: a table in prod/crm, which could not be read, may be anywhere"
    assert searched([lake, prod], prod="prod/crm") == ([], [], [reason])


def test_a_catalog_without_roots_is_not_worth_a_note() -> None:
    assert searched([info("part", scope=Scope(("a",)))]) == ([], [], [])
