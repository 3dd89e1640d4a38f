"""Each rule: what it finds, what it lets pass, and what it says."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reconciler.auditor.catalog_info import RootIndex
from reconciler.auditor.document import Finding
from reconciler.auditor.records import NOT_PROBED, LocationContent, Severity, TableRecord
from reconciler.auditor.rules import RULES, RuleLimits, check, rules_to_apply, unread_namespace
from reconciler.model.auto_cleanup import AutoCleanup
from reconciler.model.capabilities import Safeguard
from reconciler.model.clones import CloneBase
from reconciler.model.columns import Column, ShownColumn
from reconciler.model.desired import CloneAt, DesiredTable, Evolve, Expectations, Source
from reconciler.model.live import ForeignTable, LiveTable, StorageKind
from reconciler.model.ownership import CHOSEN_LOCATION, KEYS, MANAGED_BY, MIRROR, PROTECT, REQUESTED_LOCATION
from reconciler.planner.facts import EntryColumns
from reconciler.storage import BrokenReference, CleanupBytes, Files, Index, TaggedBase

NOW = datetime(2026, 6, 1, tzinfo=UTC)
LIMITS = RuleLimits(NOW, timedelta(days=180))
OWNER = "store/lake"
ID = ("sales", "users")
PLACE = "s3://lake/users.lance"
SOURCE = Source("lancens.yaml", 7, 9)
SOURCE_REF = Source(file=SOURCE.file, line=SOURCE.line)
OWNED = {MANAGED_BY: OWNER, KEYS: '["tier"]', "tier": "gold"}
LIVE = LiveTable(ID, PLACE, OWNED)
DESIRED = DesiredTable(ID, SOURCE, {"tier": "gold"})
SCHEMA = (Column("id", "int64"),)
FULL = LocationContent(StorageKind.DATASET, version=3, rows=1, bytes=9, fragments=1, schema=SCHEMA, committed=NOW)
SOUND = TableRecord("lake", ID, OWNER, PLACE, "s3://lake", DESIRED, LIVE, None, FULL)
DETAIL = "it holds 1.csv and no version of a dataset"
# What has one cause is one finding, so the tests run these together.
OF_STORAGE = ("dangling", "not-lance", "unreadable", "unversioned-data")
OF_SCHEMES = ("scheme-mismatch", "unknown-scheme")
OF_ENTRIES = ("wrong-table-type", "missing", "unmanaged", "still-there", "property-drift")


def found_in(record: TableRecord, *rules: str) -> list[Finding]:
    return list(check(record, LIMITS, rules))


def only(record: TableRecord, rule: str, *others: str) -> Finding:
    """Return the one finding in ``record``, which is of ``rule``: the ``others`` have none."""
    (finding,) = found_in(record, *{rule, *others})
    assert finding.rule == rule
    return finding


def unmarked(**properties: str) -> LiveTable:
    return replace(LIVE, properties=properties)


def test_a_sound_table_has_no_findings() -> None:
    assert found_in(SOUND, *RULES) == []


def test_a_finding_says_where_and_whose_it_is() -> None:
    location = "s3://key:hunter2@lake/users.lance"
    finding = only(
        replace(
            SOUND, location=location, live=replace(LIVE, location=location), stored=LocationContent(StorageKind.DENIED)
        ),
        "unreadable",
    )
    assert (finding.address, finding.manager, finding.source) == ("lake/sales/users", OWNER, SOURCE_REF)
    assert finding.owner is None
    assert finding.location == "s3://(redacted)@lake/users.lance"
    assert "hunter2" not in repr(finding)


def test_a_finding_says_who_answers_for_the_table() -> None:
    """The property of the entry comes first, then that of the block, and then what the namespace says."""
    record = replace(SOUND, stored=LocationContent(StorageKind.NOTHING), team="platform")
    assert only(record, "dangling").owner == "platform"
    record = replace(record, desired=replace(DESIRED, properties={"tier": "gold", "owner": "ads"}))
    assert only(record, "dangling").owner == "ads"
    live = replace(LIVE, properties={**OWNED, "owner": "web"})
    assert only(replace(record, live=live), "dangling").owner == "web"


def test_only_the_rules_asked_for_are_run() -> None:
    record = replace(SOUND, desired=None, live=unmarked(), stored=LocationContent(StorageKind.NOTHING))
    assert {finding.rule for finding in found_in(record, *RULES)} >= {"dangling", "unmanaged"}
    assert [finding.rule for finding in found_in(record, "unmanaged", "stale")] == ["unmanaged"]


# ---- what storage holds ----------------------------------------------------------------------------------------------


def test_an_entry_that_points_nowhere_dangles() -> None:
    record = replace(SOUND, desired=None, stored=LocationContent(StorageKind.NOTHING))
    finding = only(record, "dangling", *OF_STORAGE)
    assert finding.severity is Severity.ERROR
    assert finding.reason.endswith("nothing is at s3://lake/users.lance")
    assert "`absent: true`" in finding.remedy


def test_a_place_that_is_reserved_for_a_declared_table_does_not_dangle() -> None:
    assert found_in(replace(SOUND, stored=LocationContent(StorageKind.NOTHING, reserved=True)), "dangling") == []


def test_a_table_that_the_manifest_declares_is_a_warning_until_it_is_written() -> None:
    assert only(replace(SOUND, stored=LocationContent(StorageKind.NOTHING)), "dangling").severity is Severity.WARNING


@pytest.mark.parametrize(
    "record",
    [
        replace(SOUND, desired=replace(DESIRED, schema=SCHEMA)),  # apply writes what has a schema
        replace(SOUND, live=unmarked(tier="gold")),  # lancens did not declare it
    ],
)
def test_a_table_that_apply_did_not_just_declare_had_data(record: TableRecord) -> None:
    assert only(replace(record, stored=LocationContent(StorageKind.NOTHING)), "dangling").severity is Severity.ERROR


def test_files_that_are_no_dataset() -> None:
    finding = only(replace(SOUND, stored=LocationContent(StorageKind.NOT_LANCE, DETAIL)), "not-lance", *OF_STORAGE)
    assert finding.reason.endswith(f"is not a Lance dataset: {DETAIL}")


@pytest.mark.parametrize(
    ("kind", "reason", "remedy"),
    [
        (StorageKind.DENIED, "denies reading s3://lake/users.lance: 403", "`storage.*` of the catalog"),
        (StorageKind.UNKNOWN, "s3://lake/users.lance cannot be opened: 403", "Run the audit again"),
    ],
)
def test_a_dataset_that_cannot_be_read(kind: StorageKind, reason: str, remedy: str) -> None:
    finding = only(replace(SOUND, stored=LocationContent(kind, "403")), "unreadable", *OF_STORAGE)
    assert finding.reason.endswith(reason)
    assert remedy in finding.remedy


def test_a_dataset_that_the_manifest_says_not_to_open_may_stay_shut() -> None:
    for kind in (StorageKind.DENIED, StorageKind.UNKNOWN):
        assert (
            found_in(replace(SOUND, desired=replace(DESIRED, probe=False), stored=LocationContent(kind)), "unreadable")
            == []
        )


def test_a_namespace_that_cannot_be_read() -> None:
    finding = unread_namespace("lake", ("sales",), "timed out")
    assert (finding.rule, finding.severity) == ("unreadable", Severity.ERROR)
    assert finding.reason == "lake/sales could not be read: timed out"


def test_of_a_table_without_a_place_only_its_entry_is_missed() -> None:
    only(replace(SOUND, live=None, location=None, stored=NOT_PROBED), "missing", *OF_STORAGE)


@pytest.mark.parametrize(("days", "stale"), [(180, False), (181, True), (-1, False)])
def test_a_table_is_stale_when_its_last_commit_is_older_than_allowed(days: int, stale: bool) -> None:
    record = replace(SOUND, stored=replace(FULL, committed=NOW - timedelta(days=days)))
    assert [finding.rule for finding in found_in(record, "stale")] == ["stale"] * stale
    assert [*check(record, RuleLimits(NOW, None), ("stale",))] == []


def test_a_stale_table_says_since_when() -> None:
    record = replace(SOUND, stored=replace(FULL, committed=NOW - timedelta(days=2000)))
    finding = only(record, "stale")
    assert finding.severity is Severity.NOTE
    assert finding.reason.endswith("2,000 days ago, on 2020-12-09")


def orphan(kind: StorageKind) -> TableRecord:
    return TableRecord(
        "lake", ("old", "x.lance"), OWNER, "s3://lake/old/x.lance", "s3://lake", stored=LocationContent(kind)
    )


def test_a_dataset_without_an_entry_is_an_orphan() -> None:
    finding = only(orphan(StorageKind.DATASET), "orphan")
    assert finding.severity is Severity.WARNING
    assert (finding.address, finding.location) == ("lake/old/x.lance", "s3://lake/old/x.lance")
    assert "never" in finding.remedy


def test_an_orphan_comes_with_what_tells_whether_it_is_worth_keeping() -> None:
    stored = LocationContent(StorageKind.DATASET, rows=1200, bytes=34000, committed=NOW)
    finding = only(replace(orphan(StorageKind.DATASET), stored=stored), "orphan")
    assert finding.details == {"rows": "1,200", "bytes": "34,000", "last commit": "2026-06-01"}


def test_a_damaged_dataset_without_an_entry_is_an_orphan_too() -> None:
    assert "cannot be opened" in only(orphan(StorageKind.UNKNOWN), "orphan").reason


@pytest.mark.parametrize("kind", [StorageKind.NOTHING, StorageKind.NOT_LANCE, StorageKind.DENIED])
def test_what_is_no_dataset_is_no_orphan(kind: StorageKind) -> None:
    assert found_in(orphan(kind), "orphan", *OF_STORAGE) == []


def test_data_without_a_version() -> None:
    lost = LocationContent(StorageKind.NOT_LANCE, DETAIL, unversioned=True)
    assert only(replace(SOUND, stored=lost), "unversioned-data", *OF_STORAGE).severity is Severity.ERROR
    finding = only(replace(orphan(StorageKind.NOT_LANCE), stored=lost), "unversioned-data", "orphan", *OF_STORAGE)
    assert finding.severity is Severity.NOTE
    assert "first write" in finding.remedy


# ---- what is in a dataset, and what it costs -------------------------------------------------------------------------

MIB = 1 << 20
EMBEDDED = (Column("id", "int64"), Column("embedding", "fixed_size_list<float32>[8]"))


def stored(expect: Expectations = Expectations(), **known: Any) -> TableRecord:  # noqa: B008 -- frozen
    return replace(SOUND, stored=replace(FULL, **{"indices": (), "files": Files(), **known}), expect=expect)


def test_files_that_are_missing_or_short_are_named() -> None:
    missing = only(stored(files=Files(missing=("data/a.lance",))), "missing-files")
    assert missing.reason.endswith("is not there: data/a.lance")
    short = only(stored(files=Files(short=tuple(f"data/{number}.lance" for number in range(9)))), "short-files")
    assert short.reason.startswith("9 files of its latest version")
    assert short.reason.endswith("data/1.lance, data/2.lance and 6 more")
    tag = only(stored(files=Files(broken_tags=(BrokenReference("keep", 2),))), "broken-tag")
    assert "keep (version 2)" in tag.reason
    assert {missing.severity, short.severity, tag.severity} == {Severity.ERROR}


def test_files_that_cannot_be_listed_are_a_warning() -> None:
    finding = only(stored(files=Files(problem="AccessDenied")), "unreadable")
    assert (finding.severity, "--depth quick" in finding.remedy) == (Severity.WARNING, True)


def test_nothing_is_said_of_files_that_were_not_listed() -> None:
    of_files = ("many-versions", "reclaimable", "missing-files", "short-files", "broken-tag", "broken-branch")
    assert found_in(stored(Expectations(max_versions=1), files=None), *of_files, "unreadable") == []


@pytest.mark.parametrize(
    ("rule", "at_most", "too_much"),
    [
        ("small-fragments", {"small_fragments": 100, "fragments": 200}, {"small_fragments": 101, "fragments": 200}),
        ("many-versions", {"files": Files(versions=1_000)}, {"files": Files(versions=1_001)}),
        ("reclaimable", {"files": Files(reclaimable=1024 * MIB)}, {"files": Files(reclaimable=1024 * MIB + 1)}),
        ("unindexed-vectors", {"schema": EMBEDDED, "rows": 100_000}, {"schema": EMBEDDED, "rows": 100_001}),
    ],
)
def test_what_is_too_much_is_a_note(rule: str, at_most: dict[str, Any], too_much: dict[str, Any]) -> None:
    assert found_in(replace(stored(**at_most), desired=None), rule) == []
    assert only(replace(stored(**too_much), desired=None), rule).severity is Severity.NOTE


def test_what_is_too_much_can_be_said() -> None:
    record = stored(files=Files(versions=11, reclaimable=3 * MIB), small_fragments=3)
    limits = RuleLimits(NOW, small_fragments=2, versions=10, reclaimable_mib=2)
    rules = ("small-fragments", "many-versions", "reclaimable")
    assert tuple(finding.rule for finding in check(record, limits, rules)) == rules


def test_what_a_clean_up_would_free_is_split() -> None:
    held = (("tag `keep`", 2 * MIB), ("branch `trial`", 7))
    files = Files(bytes=9 << 30, reclaimable=2 << 30, cleanup=CleanupBytes(1 << 30, 3 * MIB), held=held)
    finding = only(stored(files=files), "reclaimable")
    assert finding.reason.endswith("branch: old versions need 1 GiB, and no version needs 3 MiB")
    assert "tag `keep` (2 MiB), branch `trial` (7 " in finding.remedy
    assert (finding.details["old versions"], finding.details["no version"]) == ("1,073,741,824", "3,145,728")


@pytest.mark.parametrize(("rows", "covered", "stale"), [(1_000_000, 890_000, True), (1_200_000, 1_090_000, False)])
def test_an_index_is_stale_when_it_leaves_many_rows_out(rows: int, covered: int, stale: bool) -> None:
    index = Index("embedding_idx", "IVF_PQ", ("embedding",), covered)
    found = found_in(stored(rows=rows, schema=EMBEDDED, indices=(index,)), "stale-index", "unindexed-vectors")
    assert [finding.reason for finding in found] == [
        f"its index `embedding_idx` covers {covered:,} of {rows:,} rows"
    ] * stale


def test_what_a_block_expects_comes_before_the_general_limits() -> None:
    loose = Expectations(max_versions=5_000, max_age_days=900)
    record = stored(loose, files=Files(versions=4_000), committed=NOW - timedelta(days=800))
    assert found_in(record, "many-versions", "stale") == []


@pytest.mark.parametrize(
    ("expect", "known", "rule", "reason"),
    [
        (
            Expectations(indices=("embedding", "id")),
            {"indices": (Index("i", "BTree", ("id",), 1),)},
            "missing-index",
            "index on `embedding`",
        ),
        (
            Expectations(max_fragments=3),
            {"fragments": 4},
            "many-fragments",
            "4 fragments",
        ),
        (
            Expectations(max_versions=1),
            {"files": Files(versions=2)},
            "many-versions",
            "2 versions",
        ),
        (
            Expectations(max_age_days=7),
            {"committed": NOW - timedelta(days=7, hours=12)},
            "stale",
            "7.5 days ago, on 2026-05-24",
        ),
    ],
)
def test_what_is_not_as_its_block_expects_is_a_warning(
    expect: Expectations, known: dict[str, Any], rule: str, reason: str
) -> None:
    finding = only(stored(expect, **known), rule)
    assert (finding.severity, reason in finding.reason) == (Severity.WARNING, True)


def test_nothing_is_expected_of_data_that_is_not_there() -> None:
    everything = Expectations(("embedding",), 0, 0, 1)
    record = replace(SOUND, stored=LocationContent(StorageKind.DENIED), expect=everything)
    only(record, "unreadable", "missing-index", "many-fragments", "many-versions", "stale")


@pytest.mark.parametrize(
    ("cleanup", "when", "kept"),
    [
        (AutoCleanup("20", 3, "14d"), "version 20, then every 20,", "keeps younger than 14d, and"),
        (AutoCleanup("2", 4, None, "3"), "version 6, then every 2,", "keeps the latest 3, and"),
        (AutoCleanup("0", 3, "1d", "3"), "any version,", "younger than 1d and the latest 3,"),
        (AutoCleanup("often", 3), "any version,", "keeps the latest, and"),
    ],
)
def test_what_a_table_cleans_up_and_when_is_a_note(cleanup: AutoCleanup, when: str, kept: str) -> None:
    finding = only(stored(cleanup=cleanup), "auto-cleanup")
    assert finding.severity is Severity.NOTE
    assert when in finding.reason
    assert kept in finding.reason


# ---- where tables are ------------------------------------------------------------------------------------------------


def test_two_tables_of_one_catalog_at_one_location() -> None:
    record = replace(SOUND, sharing=("lake/sales/people", "prod/sales/users"))
    finding = only(record, "shared-location")
    assert finding.severity is Severity.ERROR
    assert finding.reason.startswith("lake/sales/people, prod/sales/users are")


def test_the_entry_of_a_mirror_shares_its_location_on_purpose() -> None:
    mirrored = replace(LIVE, properties={**OWNED, MIRROR: "lake2"})
    record = replace(SOUND, desired=None, live=mirrored, sharing=("lake2/sales/users",))
    assert found_in(record, "shared-location", *OF_ENTRIES) == []
    assert only(replace(record, sharing=("lake/sales/people",)), "shared-location").severity is Severity.ERROR


def test_a_table_in_two_catalogs_is_a_note() -> None:
    finding = only(replace(SOUND, sharing=("lake2/sales/users",)), "shared-location")
    assert finding.severity is Severity.NOTE
    assert finding.reason.startswith("lake2/sales/users is at")


def test_of_many_that_share_a_location_a_few_are_named() -> None:
    record = replace(SOUND, sharing=tuple(f"lake/t{number}" for number in range(9)))
    assert only(record, "shared-location").reason.startswith("lake/t0, lake/t1, lake/t2 and others")


def test_a_location_inside_another_tables() -> None:
    finding = only(replace(SOUND, inside=("lake/all",)), "nested-location")
    assert finding.reason == "its location is inside that of lake/all"
    assert finding.remedy.startswith("Copy this dataset")  # the outer one's old copy would be around this one


@pytest.mark.parametrize(
    ("location", "root", "reason"),
    [
        ("s3a://lake/t", "s3://lake", "its location is at `s3a:`, the catalog's root at `s3:`"),
        ("/mnt/lake/t", "s3://lake", "its location is at `file:`, the catalog's root at `s3:`"),
        ("file:/lake/t", "/lake", None),
        ("/lake/t", "file:///lake", None),
        ("S3://lake/t", "s3://lake", None),
        ("gs://lake/t", None, None),
    ],
)
def test_a_scheme_that_is_not_the_roots(location: str, root: str | None, reason: str | None) -> None:
    record = replace(SOUND, location=location, root=root, live=replace(LIVE, location=location))
    assert [finding.reason for finding in found_in(record, *OF_SCHEMES)] == ([] if reason is None else [reason])


def test_the_commit_lock_of_a_location_is_not_to_be_written_away() -> None:
    location = f"s3+ddb{PLACE.removeprefix('s3')}?ddbTableName=locks"
    record = replace(SOUND, location=location, place=PLACE, live=replace(LIVE, location=location))
    assert found_in(record, *OF_SCHEMES, "indirect-location", "property-drift") == []
    assert RootIndex(["s3://other", "s3://lake"]).of(location) == "s3://lake"
    unlocked = replace(SOUND, root="s3+ddb://lake?ddbTableName=locks")
    assert "`s3+ddb:`" in only(unlocked, "scheme-mismatch").remedy


def test_a_scheme_that_is_not_that_of_another_entry_for_the_place() -> None:
    finding = only(replace(SOUND, schemes=("s3", "s3n")), "scheme-mismatch")
    assert re.findall("`(.*?)`", finding.reason) == ["s3:", "s3n:"]
    assert found_in(replace(SOUND, schemes=("s3",)), "scheme-mismatch") == []


@pytest.mark.parametrize(
    ("location", "severity"),
    [("hdfs://nn/t", Severity.ERROR), ("s3a://lake/t", Severity.NOTE), ("wasbs://a@b/t", Severity.ERROR)],
)
def test_a_scheme_that_no_lance_client_knows(location: str, severity: Severity) -> None:
    for root in (location.removesuffix("/t"), "s3://lake"):
        record = replace(SOUND, location=location, root=root, live=replace(LIVE, location=location))
        if severity is Severity.NOTE:
            only(record, "scheme-mismatch" if root == "s3://lake" else "unknown-scheme", *OF_SCHEMES)
        else:  # the cause is told once, and not what follows from it
            unopened = replace(record, stored=LocationContent(StorageKind.UNKNOWN, "no provider"))
            finding = only(unopened, "unknown-scheme", *OF_SCHEMES, *OF_STORAGE)
            assert finding.severity is severity
            assert "again" not in finding.remedy


@pytest.mark.parametrize(
    ("location", "is_cut"),
    [("s3://lake/a#b", True), ("file:///lake/a?b", True), ("/a#b", False), ("s3://a/%23", False)],
)
def test_a_location_of_which_lance_opens_a_part_says_so(location: str, is_cut: bool) -> None:
    record = replace(SOUND, location=location, root=None, live=replace(LIVE, location=location))
    finding = only(replace(record, stored=LocationContent(StorageKind.NOTHING)), "dangling")
    assert ("`%23`" in finding.reason) is is_cut


@pytest.mark.parametrize(
    ("location", "place", "how"),
    [
        ("/lake/link/t", "/lake/data/t", "leads through a symbolic link"),
        ("/lake/x/../t", "/lake/t", "has `..` in it"),
        ("s3://lake/x/%2e%2e/t", "s3://lake/t", "has `..` in it"),
        ("/lake//t/", "/lake/t", None),
        ("file:///lake/t..", "/lake/t..", None),
    ],
)
def test_a_location_that_leads_elsewhere(location: str, place: str, how: str | None) -> None:
    record = replace(SOUND, location=location, root=None, place=place, live=replace(LIVE, location=location))
    reasons = [finding.reason for finding in found_in(record, "indirect-location")]
    assert reasons == ([] if how is None else [f"its location {how}: the data is at {place}"])


# ---- entries ---------------------------------------------------------------------------------------------------------


def test_a_managed_table_is_of_the_wrong_type() -> None:
    record = replace(SOUND, foreign=ForeignTable(ID, PLACE, "lance, MANAGED_TABLE"))
    finding = only(record, "wrong-table-type", *OF_ENTRIES)
    assert finding.severity is Severity.ERROR
    assert "'EXTERNAL'='TRUE'" in finding.remedy


def test_a_managed_table_that_the_catalog_does_not_show_as_a_lance_table_is_an_error_too() -> None:
    """In Glue and Unity a scan has no such table, which is no less at risk."""
    foreign = ForeignTable(ID, PLACE, "lance, MANAGED_TABLE")
    for stored in (FULL, LocationContent(StorageKind.DENIED)):
        finding = only(
            replace(SOUND, desired=None, live=None, foreign=foreign, stored=stored), "wrong-table-type", *OF_ENTRIES
        )
        assert finding.severity is Severity.ERROR


def test_an_entry_without_a_location_is_not_called_managed() -> None:
    foreign = ForeignTable(ID, None, "lance, EXTERNAL_TABLE")
    record = replace(SOUND, desired=None, live=None, foreign=foreign, location=None, stored=NOT_PROBED)
    finding = only(record, "wrong-table-type", *OF_ENTRIES)
    assert "no location" in finding.reason
    assert "EXTERNAL" not in finding.remedy


@pytest.mark.parametrize("live", [True, False], ids=["and the catalog says so", "by the property alone"])
def test_a_table_whose_data_a_clean_up_would_take_is_of_the_wrong_type(live: bool) -> None:
    guard = Safeguard("gc.enabled", "false", "a clean-up would delete the data")
    foreign = ForeignTable(ID, PLACE, "lance, MANAGED_TABLE") if live else None
    finding = only(replace(SOUND, safeguard=guard, foreign=foreign), "wrong-table-type", *OF_ENTRIES)
    assert finding.severity is Severity.ERROR
    assert "lacks `gc.enabled=false`: " in finding.reason
    assert "'gc.enabled'='false'" in finding.remedy
    safe = replace(LIVE, properties={**OWNED, "gc.enabled": "False"})
    assert found_in(replace(SOUND, safeguard=guard, live=safe), "wrong-table-type") == []


@pytest.mark.parametrize("said", ["true", "TRUE"])
def test_a_table_that_a_drop_would_purge_is_of_the_wrong_type(said: str) -> None:
    guard = Safeguard("EXTERNAL", "TRUE", "a drop would delete the data", hazard="purge")
    external = {**OWNED, "EXTERNAL": "TRUE"}
    for desired in (SOUND.desired, None):
        live = replace(LIVE, properties={**external, "purge": said})
        finding = only(replace(SOUND, desired=desired, safeguard=guard, live=live), "wrong-table-type", *OF_ENTRIES)
        assert finding.severity is Severity.ERROR
        assert "('purge'='false')" in finding.remedy
    for safe in (external, {**external, "purge": "False"}):
        assert found_in(replace(SOUND, safeguard=guard, live=replace(LIVE, properties=safe)), "wrong-table-type") == []


FOREIGN = replace(SOUND, desired=None, live=None, foreign=ForeignTable(ID, PLACE, "parquet"))


def test_a_dataset_that_the_catalog_has_as_something_else() -> None:
    finding = only(FOREIGN, "wrong-table-type", *OF_ENTRIES)
    assert finding.severity is Severity.WARNING
    assert "`parquet`" in finding.reason
    assert PLACE in finding.reason


def test_a_table_of_another_format_is_left_alone() -> None:
    for kind in (StorageKind.NOT_LANCE, StorageKind.NOTHING, StorageKind.DENIED, StorageKind.UNKNOWN):
        assert found_in(replace(FOREIGN, stored=LocationContent(kind)), *OF_ENTRIES, *OF_STORAGE) == []
    assert found_in(replace(FOREIGN, stored=NOT_PROBED), *OF_ENTRIES, *OF_STORAGE) == []


def test_a_block_without_an_entry_is_missing() -> None:
    record = replace(SOUND, live=None, location=None, stored=NOT_PROBED)
    finding = only(record, "missing", *OF_ENTRIES)
    assert (finding.source, finding.manager) == (SOURCE_REF, OWNER)
    assert found_in(replace(record, desired=replace(DESIRED, absent=True)), *OF_ENTRIES) == []


def test_a_missing_table_whose_name_is_taken_says_by_what() -> None:
    record = replace(FOREIGN, desired=DESIRED, stored=LocationContent(StorageKind.NOT_LANCE))
    assert only(record, "missing", *OF_ENTRIES).reason.endswith("of another format: parquet")
    assert only(replace(record, stored=FULL), "wrong-table-type", *OF_ENTRIES).severity is Severity.WARNING


def test_a_table_that_nobody_manages() -> None:
    record = replace(SOUND, desired=None, live=unmarked(color="red"))
    finding = only(record, "unmanaged", *OF_ENTRIES)
    assert (finding.severity, finding.owner) == (Severity.NOTE, None)
    assert "`lancens import --select 'lake/" in finding.remedy


@pytest.mark.parametrize(
    "record",
    [
        replace(SOUND, desired=None),  # ours, and gone from the manifest: plan removes it
        replace(SOUND, desired=None, live=unmarked(**{MANAGED_BY: "other/lake"})),
        replace(SOUND, live=unmarked(tier="gold")),  # named by this manifest
    ],
)
def test_a_table_that_a_manifest_names_or_marked_is_managed(record: TableRecord) -> None:
    assert found_in(record, *OF_ENTRIES) == []


@pytest.mark.parametrize("properties", [OWNED, {"tier": "silver"}])
def test_what_the_manifest_says_is_absent_and_is_there(properties: dict[str, str]) -> None:
    gone = replace(DESIRED, absent=True)
    finding = only(replace(SOUND, desired=gone, live=replace(LIVE, properties=properties)), "still-there", *OF_ENTRIES)
    assert (finding.severity, finding.source) == (Severity.WARNING, SOURCE_REF)
    assert found_in(replace(SOUND, desired=gone, live=None, location=None, stored=NOT_PROBED), *OF_ENTRIES) == []


# ---- drift -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("desired", "live", "details"),
    [
        (DESIRED, {**OWNED, "tier": "silver"}, {"tier": "'silver', in the manifest 'gold'"}),
        (DESIRED, {MANAGED_BY: OWNER, KEYS: '["tier"]'}, {"tier": "not there, in the manifest 'gold'"}),
        (
            DESIRED,
            {**OWNED, KEYS: '["color","tier"]', "color": "red"},
            {"color": "'red', not in the manifest any more"},
        ),
        (replace(DESIRED, protect=True), OWNED, {"protect": "False, in the manifest True"}),
        (replace(DESIRED, protect=False), {**OWNED, PROTECT: "true"}, {"protect": "True, in the manifest False"}),
        (
            replace(DESIRED, location="s3://lake/other"),
            OWNED,
            {"location": "s3://lake/users.lance, in the manifest s3://lake/other"},
        ),
    ],
)
def test_an_entry_that_differs_from_its_block(
    desired: DesiredTable, live: dict[str, str], details: dict[str, str]
) -> None:
    finding = only(replace(SOUND, desired=desired, live=replace(LIVE, properties=live)), "property-drift")
    assert finding.details == details
    assert f"`{next(iter(details))}`" in finding.reason


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        (DESIRED, {"tier": "gold"}),  # equal and unmarked: plan has no change either
        (DESIRED, {**OWNED, "numFiles": "3"}),  # what engines add
        (DESIRED, {"tier": "gold", KEYS: '["color"]', "color": "red"}),  # not ours to remove
        (
            replace(DESIRED, properties={"tier": "gold", "api_key": "a"}),
            {**OWNED, "api_key": "(redacted)"},
        ),  # through `serve`
        (replace(DESIRED, location="s3a://lake//users.lance/"), OWNED),
        (
            replace(DESIRED, location="s3://asked"),
            {**OWNED, REQUESTED_LOCATION: "s3://asked", CHOSEN_LOCATION: PLACE},
        ),
    ],
)
def test_what_plan_would_not_change_is_no_drift(desired: DesiredTable, live: dict[str, str]) -> None:
    assert found_in(replace(SOUND, desired=desired, live=replace(LIVE, properties=live)), "property-drift") == []


def test_a_mark_that_is_out_of_date_is_drift() -> None:
    live = replace(LIVE, properties={**OWNED, REQUESTED_LOCATION: "s3://asked", CHOSEN_LOCATION: "s3://chosen"})
    finding = only(replace(SOUND, live=live), "property-drift")
    assert finding.details.keys() == {"requested-location"}
    said = finding.details["requested-location"]
    assert said.startswith("s3://asked, ")
    assert said.endswith(f"is at {PLACE}")


def test_a_table_of_two_manifests_is_drift_whatever_else_differs() -> None:
    finding = only(replace(SOUND, live=unmarked(**{MANAGED_BY: "other/lake", "tier": "silver"})), "property-drift")
    assert "`other/lake` manages it" in finding.reason
    assert "--take-over" in finding.remedy


def test_values_that_look_like_secrets_are_not_shown() -> None:
    desired = replace(DESIRED, properties={"db_password": "hunter2-new"})
    finding = only(replace(SOUND, desired=desired, live=unmarked(db_password="hunter2-old")), "property-drift")
    assert "hunter2" not in repr(finding)
    assert finding.details["db_password"] == "(redacted)"


@pytest.mark.parametrize(("branch", "target"), [("main", "42"), ("dev", "('dev', 42)")])
def test_a_clone_whose_base_no_tag_keeps_is_a_warning(branch: str, target: str) -> None:
    base = CloneBase("s3a://prod/users.lance", 42, "", branch=branch)
    record = replace(SOUND, stored=replace(FULL, bases=("s3://prod/users.lance",), base=TaggedBase(base, False)))
    finding = only(record, "untagged-base")
    assert finding.severity is Severity.WARNING
    assert "needs version 42" in finding.reason
    assert f'lance.dataset("s3://prod/users.lance").tags.create("clone", {target})' in finding.remedy
    assert found_in(replace(record, live=None), "untagged-base") == []
    assert found_in(SOUND, "untagged-base") == []


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (CloneAt(tag="prod"), "a clone of version dev:42 of s3://prod/users.lance, whose tag `prod` is at 50 now"),
        (CloneAt(tag="same"), None),
        (CloneAt(tag="gone"), None),
        (CloneAt(version=50), None),
        (CloneAt(), None),
        (None, None),
    ],
)
def test_a_clone_whose_tag_has_moved_is_a_note(at: CloneAt | None, told: str | None) -> None:
    base = TaggedBase(CloneBase("s3://prod/users.lance", 42, "", branch="dev"), True, {"prod": "50", "same": "dev:42"})
    findings = found_in(replace(SOUND, stored=replace(FULL, base=base), clone_at=at), "moved-tag")
    assert [finding.severity for finding in findings] == ([Severity.NOTE] if told else [])
    assert all(told in finding.reason for finding in findings if told)


def test_a_schema_that_nothing_but_a_person_can_settle() -> None:
    desired = (Column("id", "string"), Column("name", "string"))
    finding = only(replace(SOUND, desired=replace(DESIRED, schema=desired)), "schema-drift")
    assert finding.severity is Severity.ERROR
    missing, changed = finding.reason.partition(": ")[2].split("; ")
    assert missing.startswith("`name` (string)")
    assert changed.startswith("`id` is int64 in the data, string")


def test_columns_that_apply_can_add_are_a_warning() -> None:
    desired = (*SCHEMA, Column("name", "string"))
    record = replace(SOUND, desired=replace(DESIRED, schema=desired, evolve=Evolve.ADDITIVE))
    finding = only(record, "schema-drift")
    assert finding.severity is Severity.WARNING
    assert ": `name` (string) " in finding.reason


def test_an_entry_that_shows_other_columns_than_its_data_is_stale() -> None:
    shown = (ShownColumn("id", "int"), ShownColumn("old", "string"))
    to_show = (ShownColumn("id", "bigint"), ShownColumn("name", "string"))
    finding = only(replace(SOUND, entry_columns=EntryColumns(shown, to_show)), "stale-columns")
    assert finding.severity is Severity.WARNING
    changed, missing, extra = finding.reason.partition(": ")[2].split(", ")
    assert changed == "`id` is int instead of bigint"
    assert missing == "`name` (string) is missing"
    assert extra.startswith("`old` (string)")
    [moved] = EntryColumns(to_show, to_show[::-1]).texts()
    assert moved == "they are in another order"


def test_columns_that_could_not_be_read_are_a_finding() -> None:
    finding = only(replace(SOUND, entry_columns="lake (glue): access denied"), "stale-columns")
    assert finding.reason.endswith(": lake (glue): access denied")


def test_the_same_schema_is_no_drift() -> None:
    assert found_in(replace(SOUND, desired=replace(DESIRED, schema=SCHEMA)), "schema-drift") == []


# ---- the rules together ----------------------------------------------------------------------------------------------


def test_without_a_manifest_a_rule_that_compares_with_one_is_run_only_if_it_is_named() -> None:
    left_out = RULES.keys() - set(rules_to_apply(has_manifest=False))
    assert left_out == {name for name, rule in RULES.items() if rule.needs_manifest}
    assert rules_to_apply(["missing"], has_manifest=False) == ("missing",)


def test_every_rule_is_in_the_manual() -> None:
    page = (Path(__file__).parents[3] / "docs/audit.md").read_text(encoding="utf-8")
    headings = [line.removeprefix("### ").strip("`") for line in page.splitlines() if line.startswith("### ")]
    assert [name for name in RULES if name not in headings] == []


def test_every_rule_explains_itself() -> None:
    for name, rule in RULES.items():
        assert rule.name == name
        assert rule.title
        assert not rule.title.endswith(".")
        assert rule.help.endswith(".")
