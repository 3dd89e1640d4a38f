"""Hypothesis strategies for audit documents whose every name and value may be hostile."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from reconciler.auditor.document import AuditDocument, CatalogCoverage, Finding, ReportedTable
from reconciler.model.desired import Source
from reconciler.pipeline.rows import ReadFailure
from tests.strategies import SECRET, hostile_text, identifiers, locations, names
from tests.unit.pipeline.documents import RULES, document

_catalogs = st.sampled_from(("lake", "prod")) | names
_owners = st.none() | st.just("feature-store/lake") | hostile_text
_counts = st.none() | st.integers(0, 1 << 60)
_rules = st.sampled_from(RULES)
_prose = st.sampled_from(("nothing is there", "`tier` differs", "an `unclosed tick")) | hostile_text
_details = st.dictionaries(names.filter(lambda key: SECRET not in key), hostile_text, max_size=2).flatmap(
    lambda plain: st.sampled_from(({}, {"db_password": SECRET}, {"token": f"x{SECRET}"})).map(
        lambda secret: {**plain, **secret}
    )
)
# What is drawn many times is made once: to make a strategy anew takes longer than to draw from it.
_places = identifiers | st.just(())
_locations = st.none() | locations
_sources = st.none() | st.builds(Source, file=st.just("lancens.yaml") | hostile_text, line=st.integers(1, 10_000))


@st.composite
def findings(draw: st.DrawFn) -> Finding:
    """Draw a finding about a table, a namespace or a root."""
    rule = draw(_rules)
    identifier = draw(_places)
    return Finding(
        rule=rule.name,
        severity=rule.severity,
        catalog=draw(_catalogs),
        namespace=identifier[:-1],
        name=identifier[-1] if identifier else "",
        reason=draw(_prose),
        remedy=draw(_prose),
        location=draw(_locations),
        owner=draw(_owners),
        source=draw(_sources),
        details=draw(_details),
    )


_times = st.none() | st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))
_names_of_rules = st.lists(_rules.map(lambda rule: rule.name), max_size=3, unique=True)


@st.composite
def tables(draw: st.DrawFn) -> ReportedTable:
    """Draw a table of which much or little is known."""
    identifier = draw(identifiers)
    return ReportedTable(
        catalog=draw(_catalogs),
        namespace=identifier[:-1],
        name=identifier[-1],
        location=draw(_locations),
        owner=draw(_owners),
        rows=draw(_counts),
        bytes=draw(_counts),
        fragments=draw(_counts),
        version=draw(_counts),
        committed=draw(_times),
        rules=tuple(draw(_names_of_rules)),
    )


_notes = st.lists(hostile_text.filter(bool), max_size=2)
_findings, _tables = st.lists(findings(), max_size=4), st.lists(tables(), max_size=4)
_coverage = st.lists(
    st.builds(CatalogCoverage, name=_catalogs, impl=st.just("dir") | names, namespaces=st.integers(0, 9)),
    max_size=2,
    unique_by=lambda catalog: catalog.name,
)
_failures = st.lists(st.builds(ReadFailure, catalog=_catalogs, namespace=_places, message=hostile_text), max_size=2)


@st.composite
def documents(draw: st.DrawFn) -> AuditDocument:
    """Draw a document of a few findings and tables."""
    notes = draw(_notes)
    made = document(draw(_findings), draw(_tables), draw(_coverage), draw(_failures))
    return made.model_copy(update={"notes": tuple(notes)})
