"""Each rule: what it finds, what it lets pass, and what it says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconciler.ownership import CHOSEN_LOCATION, KEYS, MANAGED_BY, MIRROR, PROTECT, REQUESTED_LOCATION
from reconciler.pipeline.records import EntryColumns, Severity, Stored, TableRecord
from reconciler.pipeline.report.document import Finding
from reconciler.pipeline.rules import RULES, Times, check, unread_namespace
from reconciler.state import (
    Column,
    DesiredTable,
    Evolve,
    ForeignTable,
    LiveTable,
    Safeguard,
    ShownColumn,
    Source,
    StorageKind,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TIMES = Times(NOW, timedelta(days=180))
OWNER = "store/lake"
ID = ("sales", "users")
PLACE = "s3://lake/users.lance"
SOURCE = Source("lancens.yaml", 7, 9)
SOURCE_REF = Source(file=SOURCE.file, line=SOURCE.line)
OWNED = {MANAGED_BY: OWNER, KEYS: '["tier"]', "tier": "gold"}
LIVE = LiveTable(ID, PLACE, OWNED)
DESIRED = DesiredTable(ID, SOURCE, {"tier": "gold"})
SCHEMA = (Column("id", "int64"),)
FULL = Stored(StorageKind.DATASET, version=3, rows=1, bytes=9, fragments=1, schema=SCHEMA, committed=NOW)
SOUND = TableRecord("lake", ID, OWNER, PLACE, "s3://lake", DESIRED, LIVE, None, FULL)
DETAIL = "it holds 1.csv and no version of a dataset"


def found_in(record: TableRecord) -> list[Finding]:
    return list(check(record, TIMES, tuple(RULES)))


def only(record: TableRecord, rule: str) -> Finding:
    """Return the one finding in ``record``, which is of ``rule``."""
    (finding,) = found_in(record)
    assert finding.rule == rule
    return finding


def unmarked(**properties: str) -> LiveTable:
    return replace(LIVE, properties=properties)


def test_a_sound_table_has_no_findings() -> None:
    assert found_in(SOUND) == []


def test_a_finding_says_where_and_whose_it_is() -> None:
    location = "s3://key:hunter2@lake/users.lance"
    finding = only(
        replace(SOUND, location=location, live=replace(LIVE, location=location), stored=Stored(StorageKind.DENIED)),
        "unreadable",
    )
    assert (finding.address, finding.owner, finding.source) == ("lake/sales/users", OWNER, SOURCE_REF)
    assert finding.location == "s3://(redacted)@lake/users.lance"
    assert "hunter2" not in repr(finding)


def test_only_the_rules_asked_for_are_run() -> None:
    record = replace(SOUND, desired=None, live=unmarked(), stored=Stored(StorageKind.NOTHING))
    assert {finding.rule for finding in found_in(record)} == {"dangling", "unmanaged"}
    assert [finding.rule for finding in check(record, TIMES, ("unmanaged", "stale"))] == ["unmanaged"]


# ---- what storage holds ----------------------------------------------------------------------------------------------


def test_an_entry_that_points_nowhere_dangles() -> None:
    record = replace(SOUND, desired=None, stored=Stored(StorageKind.NOTHING))
    finding = only(record, "dangling")
    assert finding.severity is Severity.ERROR
    assert finding.reason == "the table is registered and nothing is at s3://lake/users.lance"
    assert "`absent: true`" in finding.remedy


def test_a_place_that_is_reserved_for_a_declared_table_does_not_dangle() -> None:
    assert found_in(replace(SOUND, stored=Stored(StorageKind.NOTHING, reserved=True))) == []


def test_a_table_that_the_manifest_declares_is_a_warning_until_it_is_written() -> None:
    assert only(replace(SOUND, stored=Stored(StorageKind.NOTHING)), "dangling").severity is Severity.WARNING


@pytest.mark.parametrize(
    "record",
    [
        replace(SOUND, desired=replace(DESIRED, schema=SCHEMA)),  # apply writes what has a schema
        replace(SOUND, live=unmarked(tier="gold")),  # lancens did not declare it
    ],
)
def test_a_table_that_apply_did_not_just_declare_had_data(record: TableRecord) -> None:
    assert only(replace(record, stored=Stored(StorageKind.NOTHING)), "dangling").severity is Severity.ERROR


def test_files_that_are_no_dataset() -> None:
    finding = only(replace(SOUND, stored=Stored(StorageKind.NOT_LANCE, DETAIL)), "not-lance")
    assert finding.reason == f"s3://lake/users.lance is not a Lance dataset: {DETAIL}"


@pytest.mark.parametrize(
    ("kind", "reason", "remedy"),
    [
        (StorageKind.DENIED, "storage does not let s3://lake/users.lance be read: 403", "`storage.*` of the catalog"),
        (StorageKind.UNKNOWN, "s3://lake/users.lance cannot be opened: 403", "Try again"),
    ],
)
def test_a_dataset_that_cannot_be_read(kind: StorageKind, reason: str, remedy: str) -> None:
    finding = only(replace(SOUND, stored=Stored(kind, "403")), "unreadable")
    assert finding.reason == reason
    assert remedy in finding.remedy


def test_a_dataset_that_the_manifest_says_not_to_open_may_stay_shut() -> None:
    for kind in (StorageKind.DENIED, StorageKind.UNKNOWN):
        assert found_in(replace(SOUND, desired=replace(DESIRED, probe=False), stored=Stored(kind))) == []


def test_a_namespace_that_cannot_be_read() -> None:
    finding = unread_namespace("lake", ("sales",), "timed out")
    assert (finding.rule, finding.severity) == ("unreadable", Severity.ERROR)
    assert finding.reason == "lake/sales could not be read: timed out"


def test_no_rule_is_evaluated_on_what_was_not_looked_at() -> None:
    assert found_in(replace(SOUND, stored=None)) == []


@pytest.mark.parametrize(("days", "stale"), [(180, False), (181, True), (-1, False)])
def test_a_table_is_stale_when_its_last_commit_is_older_than_allowed(days: int, stale: bool) -> None:
    record = replace(SOUND, stored=replace(FULL, committed=NOW - timedelta(days=days)))
    assert [finding.rule for finding in found_in(record)] == ["stale"] * stale
    assert [*check(record, Times(NOW, None), tuple(RULES))] == []


def test_a_stale_table_says_since_when() -> None:
    record = replace(SOUND, stored=replace(FULL, committed=NOW - timedelta(days=2000)))
    assert only(record, "stale").reason == "its last commit was 2,000 days ago, on 2020-12-09"


def orphan(kind: StorageKind) -> TableRecord:
    return TableRecord("lake", ("old", "x.lance"), OWNER, "s3://lake/old/x.lance", "s3://lake", stored=Stored(kind))


def test_a_dataset_without_an_entry_is_an_orphan() -> None:
    finding = only(orphan(StorageKind.DATASET), "orphan")
    assert finding.severity is Severity.WARNING
    assert (finding.address, finding.location) == ("lake/old/x.lance", "s3://lake/old/x.lance")
    assert "never" in finding.remedy


def test_an_orphan_comes_with_what_tells_whether_it_is_worth_keeping() -> None:
    stored = Stored(StorageKind.DATASET, rows=1200, bytes=34000, committed=NOW)
    finding = only(replace(orphan(StorageKind.DATASET), stored=stored), "orphan")
    assert finding.details == {"rows": "1,200", "bytes": "34,000", "last commit": "2026-06-01"}


def test_a_damaged_dataset_without_an_entry_is_an_orphan_too() -> None:
    assert "cannot be opened" in only(orphan(StorageKind.UNKNOWN), "orphan").reason


@pytest.mark.parametrize("kind", [StorageKind.NOTHING, StorageKind.NOT_LANCE, StorageKind.DENIED])
def test_what_is_no_dataset_is_no_orphan(kind: StorageKind) -> None:
    assert found_in(orphan(kind)) == []


# ---- where tables are ------------------------------------------------------------------------------------------------


def test_two_tables_of_one_catalog_at_one_location() -> None:
    record = replace(SOUND, sharing=("lake/sales/people", "prod/sales/users"))
    finding = only(record, "shared-location")
    assert finding.severity is Severity.ERROR
    assert finding.reason == "lake/sales/people, prod/sales/users are at the same location"


def test_the_entry_of_a_mirror_shares_its_location_on_purpose() -> None:
    mirrored = replace(LIVE, properties={**OWNED, MIRROR: "lake2"})
    record = replace(SOUND, desired=None, live=mirrored, sharing=("lake2/sales/users",))
    assert found_in(record) == []
    assert only(replace(record, sharing=("lake/sales/people",)), "shared-location").severity is Severity.ERROR


def test_a_table_in_two_catalogs_is_a_note() -> None:
    finding = only(replace(SOUND, sharing=("lake2/sales/users",)), "shared-location")
    assert finding.severity is Severity.NOTE
    assert finding.reason == "lake2/sales/users is at the same location, in another catalog"


def test_of_many_that_share_a_location_a_few_are_named() -> None:
    record = replace(SOUND, sharing=tuple(f"lake/t{number}" for number in range(9)))
    assert only(record, "shared-location").reason == "lake/t0, lake/t1, lake/t2 and others are at the same location"


def test_a_location_inside_another_tables() -> None:
    finding = only(replace(SOUND, inside=("lake/all",)), "nested-location")
    assert finding.reason == "its location is inside that of lake/all"


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
    assert [finding.reason for finding in found_in(record)] == ([] if reason is None else [reason])


def test_a_scheme_that_is_not_that_of_another_entry_for_the_place() -> None:
    finding = only(replace(SOUND, schemes=("s3", "s3n")), "scheme-mismatch")
    assert finding.reason == "its location is written with `s3:`, and another entry for the same place with `s3n:`"
    assert found_in(replace(SOUND, schemes=("s3",))) == []


# ---- entries ---------------------------------------------------------------------------------------------------------


def test_a_managed_table_is_of_the_wrong_type() -> None:
    record = replace(SOUND, foreign=ForeignTable(ID, PLACE, "lance, MANAGED_TABLE"))
    finding = only(record, "wrong-table-type")
    assert finding.severity is Severity.ERROR
    assert "'EXTERNAL'='TRUE'" in finding.remedy


@pytest.mark.parametrize("live", [True, False], ids=["and the catalog says so", "by the property alone"])
def test_a_table_whose_data_a_clean_up_would_take_is_of_the_wrong_type(live: bool) -> None:
    guard = Safeguard("gc.enabled", "false", "a clean-up would delete the data")
    foreign = ForeignTable(ID, PLACE, "lance, MANAGED_TABLE") if live else None
    finding = only(replace(SOUND, safeguard=guard, foreign=foreign), "wrong-table-type")
    assert finding.severity is Severity.ERROR
    assert finding.reason == "the entry lacks `gc.enabled=false`: a clean-up would delete the data"
    assert "'gc.enabled'='false'" in finding.remedy
    safe = replace(LIVE, properties={**OWNED, "gc.enabled": "False"})
    assert found_in(replace(SOUND, safeguard=guard, live=safe)) == []


FOREIGN = replace(SOUND, desired=None, live=None, foreign=ForeignTable(ID, PLACE, "parquet"))


def test_a_dataset_that_the_catalog_has_as_something_else() -> None:
    finding = only(FOREIGN, "wrong-table-type")
    assert finding.severity is Severity.WARNING
    assert finding.reason == "the catalog says `parquet`, and s3://lake/users.lance holds a Lance dataset"


def test_a_table_of_another_format_is_none_of_our_business() -> None:
    for kind in (StorageKind.NOT_LANCE, StorageKind.NOTHING, StorageKind.DENIED, StorageKind.UNKNOWN):
        assert found_in(replace(FOREIGN, stored=Stored(kind))) == []
    assert found_in(replace(FOREIGN, stored=None)) == []


def test_a_block_without_an_entry_is_missing() -> None:
    record = replace(SOUND, live=None, location=None, stored=None)
    finding = only(record, "missing")
    assert (finding.source, finding.owner) == (SOURCE_REF, OWNER)
    assert found_in(replace(record, desired=replace(DESIRED, absent=True))) == []


def test_a_missing_table_whose_name_is_taken_says_by_what() -> None:
    record = replace(FOREIGN, desired=DESIRED, stored=Stored(StorageKind.NOT_LANCE))
    assert only(record, "missing").reason.endswith("belongs to a table of another kind: parquet")
    assert only(replace(record, stored=FULL), "wrong-table-type").severity is Severity.WARNING


def test_a_table_that_nobody_manages() -> None:
    record = replace(SOUND, desired=None, live=unmarked(color="red"))
    finding = only(record, "unmanaged")
    assert (finding.severity, finding.owner) == (Severity.NOTE, None)
    assert "`lancens import --catalog lake`" in finding.remedy


@pytest.mark.parametrize(
    "record",
    [
        replace(SOUND, desired=None),  # ours, and gone from the manifest: plan removes it
        replace(SOUND, desired=None, live=unmarked(**{MANAGED_BY: "other/lake"})),
        replace(SOUND, live=unmarked(tier="gold")),  # named by this manifest
        replace(SOUND, desired=replace(DESIRED, absent=True), live=unmarked()),
    ],
)
def test_a_table_that_a_manifest_names_or_marked_is_managed(record: TableRecord) -> None:
    assert found_in(record) == []


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
    assert finding.reason == f"it is not as the manifest says: `{next(iter(details))}`"


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        (DESIRED, {"tier": "gold"}),  # equal and unmarked: plan has no change either
        (DESIRED, {**OWNED, "numFiles": "3"}),  # what engines add
        (DESIRED, {"tier": "gold", KEYS: '["color"]', "color": "red"}),  # not ours to remove
        (replace(DESIRED, location="s3a://lake//users.lance/"), OWNED),
        (
            replace(DESIRED, location="s3://asked"),
            {**OWNED, REQUESTED_LOCATION: "s3://asked", CHOSEN_LOCATION: PLACE},
        ),
        (replace(DESIRED, absent=True), {"tier": "silver"}),
    ],
)
def test_what_plan_would_not_change_is_no_drift(desired: DesiredTable, live: dict[str, str]) -> None:
    assert found_in(replace(SOUND, desired=desired, live=replace(LIVE, properties=live))) == []


def test_a_mark_that_is_out_of_date_is_drift() -> None:
    live = replace(LIVE, properties={**OWNED, REQUESTED_LOCATION: "s3://asked", CHOSEN_LOCATION: "s3://chosen"})
    finding = only(replace(SOUND, live=live), "property-drift")
    assert finding.details == {
        "requested-location": f"s3://asked, which is out of date: the entry is at {PLACE}",
    }


def test_a_table_of_two_manifests_is_drift_whatever_else_differs() -> None:
    finding = only(replace(SOUND, live=unmarked(**{MANAGED_BY: "other/lake", "tier": "silver"})), "property-drift")
    assert "`other/lake` manages it" in finding.reason
    assert "--take-over" in finding.remedy


def test_values_that_look_like_secrets_are_not_shown() -> None:
    desired = replace(DESIRED, properties={"db_password": "hunter2-new"})
    finding = only(replace(SOUND, desired=desired, live=unmarked(db_password="hunter2-old")), "property-drift")
    assert "hunter2" not in repr(finding)
    assert finding.details["db_password"] == "(redacted)"


def test_a_schema_that_nothing_but_a_person_can_settle() -> None:
    desired = (Column("id", "string"), Column("name", "string"))
    finding = only(replace(SOUND, desired=replace(DESIRED, schema=desired)), "schema-drift")
    assert finding.severity is Severity.ERROR
    assert finding.reason == (
        "the data has other columns than its block: `name` (string) is not in the data; "
        "`id` is int64 in the data, string in the block"
    )


def test_columns_that_apply_can_add_are_a_warning() -> None:
    desired = (*SCHEMA, Column("name", "string"))
    record = replace(SOUND, desired=replace(DESIRED, schema=desired, evolve=Evolve.ADDITIVE))
    finding = only(record, "schema-drift")
    assert (finding.severity, finding.reason) == (
        Severity.WARNING,
        "the data does not have the columns of its block yet: `name` (string) is not in the data",
    )


def test_an_entry_that_shows_other_columns_than_its_data_is_stale() -> None:
    shown = (ShownColumn("id", "int"), ShownColumn("old", "string"))
    to_show = (ShownColumn("id", "bigint"), ShownColumn("name", "string"))
    finding = only(replace(SOUND, shown=EntryColumns(shown, to_show)), "stale-columns")
    assert finding.severity is Severity.WARNING
    assert finding.reason == (
        "its entry shows other columns than its data has: `id` is int instead of bigint, `name` (string) is missing, "
        "`old` (string) is not in the data"
    )
    [moved] = EntryColumns(to_show, to_show[::-1]).texts()
    assert moved == "they are in another order"


def test_columns_that_could_not_be_read_are_told() -> None:
    finding = only(replace(SOUND, shown="lake (glue): access denied"), "stale-columns")
    assert finding.reason == "the columns that its entry shows could not be read: lake (glue): access denied"


def test_the_same_schema_is_no_drift() -> None:
    assert found_in(replace(SOUND, desired=replace(DESIRED, schema=SCHEMA))) == []


# ---- the rules together ----------------------------------------------------------------------------------------------


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
