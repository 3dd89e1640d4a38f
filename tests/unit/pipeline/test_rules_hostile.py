"""Rules on whatever catalogs, manifests and storage come up with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from reconciler.auditor.records import NOT_PROBED, LocationContent, Severity, TableRecord
from reconciler.auditor.rules import RULES, RuleLimits, check
from reconciler.model.auto_cleanup import AutoCleanup
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Column
from reconciler.model.desired import DesiredTable, Evolve, Expectations, Prune, Source
from reconciler.model.live import ForeignTable, LiveTable, StorageKind
from reconciler.model.ownership import KEYS, MANAGED_BY, PROTECT, REQUESTED_LOCATION, encode_keys
from reconciler.planner.entries import Action, Change
from reconciler.planner.outcome import CatalogContext, Remark
from reconciler.planner.tables import diff_table
from reconciler.storage import BrokenReference, CleanupBytes, Defects, Files, Index, Recovery, Salvage
from tests.strategies import SECRET, hostile_text, identifiers, locations, names

OWNER = "store/lake"
ANY_RULE = tuple(RULES)

_places = st.one_of(locations, hostile_text, st.sampled_from(("", "s3://", "file:", "/", "//", "C:\\data", "%", "a:b")))
_numbers = st.none() | st.integers(0, 2**63)
_moments = st.none() | st.datetimes(timezones=st.just(UTC))
_schemas = st.lists(
    st.builds(
        Column,
        name=names,
        type=st.sampled_from(("int64", "string", "struct<a: int64>")) | hostile_text,
        nullable=st.booleans(),
        metadata=st.dictionaries(names, hostile_text, max_size=2),
    ),
    max_size=4,
).map(tuple)
_properties = st.one_of(
    st.dictionaries(st.sampled_from((MANAGED_BY, KEYS, PROTECT, REQUESTED_LOCATION, "tier")), hostile_text),
    st.dictionaries(names, hostile_text, max_size=3),
    st.dictionaries(st.sampled_from(("db_password", "token")), st.just(SECRET)),
)
_texts = st.lists(hostile_text, max_size=5).map(tuple)
_expectations = st.builds(
    Expectations, _texts, st.none() | st.integers(0), st.none() | st.integers(0), st.none() | st.integers(1, 10_000)
)
_references = st.lists(
    st.builds(BrokenReference, hostile_text, _numbers, _numbers, st.booleans(), st.none() | hostile_text), max_size=5
).map(tuple)
_salvages = st.none() | st.builds(
    Salvage,
    version=st.integers(1, 2**63),
    whole=st.integers(1, 2**31),
    broken=st.sets(st.integers(0, 2**31), min_size=1).map(sorted).map(tuple),
    rows=_numbers,
    lost_rows=_numbers,
    cleans_up=st.booleans(),
)
_ids = st.lists(st.integers(0, 2**31), max_size=5).map(tuple)
_stored = st.builds(
    LocationContent,
    kind=st.sampled_from(StorageKind),
    detail=hostile_text,
    reserved=st.booleans(),
    version=_numbers,
    rows=_numbers,
    bytes=_numbers,
    fragments=_numbers,
    schema=st.none() | _schemas,
    committed=_moments,
    small_fragments=_numbers,
    indices=st.none() | st.lists(st.builds(Index, hostile_text, hostile_text, _texts, _numbers), max_size=2).map(tuple),
    defects=st.builds(Defects, _ids, _ids, st.booleans(), st.booleans(), _ids, _texts),
    unversioned=st.booleans(),
    cleanup=st.none() | st.builds(AutoCleanup, hostile_text, st.integers(1, 2**63), hostile_text, hostile_text),
    files=st.none()
    | st.builds(
        Files,
        bytes=st.integers(0, 2**63),
        reclaimable=_numbers,
        cleanup=st.none() | st.builds(CleanupBytes, st.integers(0, 2**63), st.integers(0, 2**63)),
        held=st.lists(st.tuples(hostile_text, st.integers(0, 2**63)), max_size=5).map(tuple),
        versions=st.integers(0, 2**63),
        missing=_texts,
        short=_texts,
        damaged=_texts,
        invalid=st.none() | hostile_text,
        owners=st.lists(st.integers(0, 2**31) | hostile_text, max_size=3).map(tuple),
        complete_version=_numbers,
        salvage=_salvages,
        missing_version=_numbers,
        uncertain_version=_numbers,
        broken_tags=_references,
        broken_branches=_references,
        problem=st.none() | hostile_text,
    ),
    recovery=st.none() | st.builds(Recovery, _numbers, _texts, st.booleans(), _salvages),
)


@st.composite
def records(draw: st.DrawFn) -> TableRecord:
    """Draw a record whose parts need not fit together."""
    identifier = draw(identifiers)
    desired = st.builds(
        DesiredTable,
        id=st.just(identifier),
        source=st.just(Source("lancens.yaml", 1, 1)),
        properties=_properties,
        location=st.none() | _places,
        schema=st.none() | _schemas,
        evolve=st.sampled_from(Evolve),
        absent=st.booleans(),
        protect=st.none() | st.booleans(),
    )
    return TableRecord(
        catalog=draw(names),
        id=identifier,
        owner=OWNER,
        location=draw(st.none() | _places),
        root=draw(st.none() | _places),
        desired=draw(st.none() | desired),
        live=draw(st.none() | st.builds(LiveTable, st.just(identifier), _places, _properties)),
        foreign=draw(st.none() | st.builds(ForeignTable, st.just(identifier), st.none() | _places, hostile_text)),
        stored=draw(st.just(NOT_PROBED) | _stored),
        sharing=tuple(draw(st.lists(hostile_text, max_size=5))),
        schemes=tuple(draw(st.lists(hostile_text, max_size=3))),
        inside=tuple(draw(st.lists(hostile_text, max_size=5))),
        place=draw(st.none() | _places),
        team=draw(st.none() | hostile_text),
        expect=draw(_expectations),
    )


@given(records(), st.datetimes(timezones=st.just(UTC)), st.none() | st.timedeltas(timedelta(0)))
def test_no_rule_raises_shows_a_secret_or_is_more_severe_than_it_says(
    record: TableRecord, now: datetime, stale_after: timedelta | None
) -> None:
    for finding in check(record, RuleLimits(now, stale_after), ANY_RULE):
        assert finding.reason
        assert finding.remedy.endswith(".")
        assert SECRET not in repr(finding)
        highest = RULES[finding.rule].severity
        assert list(Severity).index(finding.severity) >= list(Severity).index(highest)


_values = st.dictionaries(st.sampled_from(("tier", "color")), st.sampled_from(("gold", "red")))
_spots = st.sampled_from(("s3://lake/a", "s3a://lake/a/", "s3://lake/b"))


@st.composite
def _consistent(draw: st.DrawFn) -> tuple[DesiredTable, LiveTable]:
    """Draw a block, and an entry that lancens may have left at some time."""
    marks: dict[str, str] = {}
    manager = draw(st.sampled_from((OWNER, None, "other/lake")))
    if manager is not None:
        marks = {MANAGED_BY: manager, KEYS: encode_keys(draw(st.sets(st.sampled_from(("tier", "color")))))}
        marks |= {PROTECT: "true"} if draw(st.booleans()) else {}
    marks |= {REQUESTED_LOCATION: draw(_spots)} if draw(st.booleans()) else {}
    desired = DesiredTable(
        ("t",),
        Source("lancens.yaml", 1, 1),
        draw(_values),
        draw(st.none() | _spots),
        absent=draw(st.booleans()),
        protect=draw(st.none() | st.booleans()),
    )
    return desired, LiveTable(("t",), draw(_spots), {**draw(_values), **marks})


@given(_consistent())
def test_an_entry_drifts_exactly_where_plan_would_change_more_than_marks(pair: tuple[DesiredTable, LiveTable]) -> None:
    desired, live = pair
    record = TableRecord("lake", ("t",), OWNER, live.location, None, desired, live)
    drift = list(check(record, RuleLimits(datetime(2026, 1, 1, tzinfo=UTC), None), ("property-drift",)))
    outcome = diff_table(CatalogContext("lake", OWNER, Prune.OWNED, Capabilities()), desired, live)
    if desired.absent:
        assert drift == []
    elif drift:
        assert outcome is not None
        assert not isinstance(outcome, Remark)
    elif isinstance(outcome, Change):
        assert outcome.before is not None
        assert outcome.after is not None
        assert outcome.action is Action.UPDATE_TABLE
        assert outcome.before.properties == outcome.after.properties
        assert outcome.before.managed_by is None or outcome.before.content == outcome.after.content
    else:
        assert outcome is None or isinstance(outcome, Remark)
