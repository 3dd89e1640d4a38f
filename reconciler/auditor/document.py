"""Models of the audit document: coverage, counts, findings and tables.

``reconciler.auditor.audit`` creates it and ``reconciler.report`` renders it. Its JSON form has a schema in
``schemas/audit.schema.json``. Locations are redacted when they enter it, so that no form can show credentials.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, date
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, computed_field

from reconciler.auditor.records import FailOn, Severity
from reconciler.auditor.scales import Scale
from reconciler.model import locations, names
from reconciler.model.desired import Source
from reconciler.model.display import count
from reconciler.model.names import Identifier
from reconciler.model.redaction import redact_properties
from reconciler.pipeline.rows import ReadFailure
from reconciler.planner.plan import ManifestRef
from reconciler.storage import Depth

FORMAT_VERSION = "2.1"

_UNREADABLE_RULES = {"unreadable", "unknown-scheme"}

Count = Annotated[int, Field(ge=0)]
Location = Annotated[str, AfterValidator(locations.redact)]
Details = Annotated[dict[str, str], AfterValidator(redact_properties)]
Moment = Annotated[AwareDatetime, AfterValidator(lambda moment: moment.astimezone(UTC))]


class _Part(BaseModel):
    """A frozen model that reads documents of later minor versions, too."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", hide_input_in_errors=True, json_schema_serialization_defaults_required=True
    )


# ---- settings and coverage -------------------------------------------------------------------------------------------


class RuleInfo(_Part):
    """A rule that was applied.

    ``title`` is one line on what a finding means; ``help`` says why it matters and what to do. ``severity`` is the
    highest of its findings.
    """

    name: str
    severity: Severity
    title: str
    help: str


class AuditSettings(_Part):
    """The options of the audit."""

    stale_after_days: Count | None = Field(default=None, description="Without it, no table is too old.")
    depth: Depth = Depth.QUICK
    limits: dict[str, Count] = Field(default={}, description="What `--limit` can set.")
    rules: tuple[RuleInfo, ...] = ()
    exclude: tuple[str, ...] = Field(default=(), description="Globs over addresses; their matches were not checked.")

    @property
    def text(self) -> str:
        """The settings as JSON with the names of the rules."""
        names = sorted(rule.name for rule in self.rules)
        return json.dumps({**self.model_dump(mode="json"), "rules": names}, sort_keys=True)


class CatalogCoverage(_Part):
    """How much of one catalog was read.

    ``namespaces`` and ``tables`` count what was found. ``namespaces_unread`` of the namespaces could not be read.
    ``tables_looked_at`` of the tables were probed in storage by this audit; the others were by an earlier one, and have
    no new version since. ``tables_unreadable`` could not be opened.
    """

    name: str
    impl: str
    namespaces: Count = 0
    namespaces_unread: Count = 0
    tables: Count = 0
    tables_looked_at: Count = 0
    tables_unreadable: Count = 0


# ---- counts ----------------------------------------------------------------------------------------------------------


class SeverityCounts(_Part):
    """The number of findings of each severity."""

    error: Count = 0
    warning: Count = 0
    note: Count = 0

    @property
    def total(self) -> int:
        """The number of all findings."""
        return self.error + self.warning + self.note

    @property
    def text(self) -> str:
        """The counts that are not zero, such as ``2 errors, 1 note``."""
        return ", ".join(count(number, each.value) for each in Severity if (number := getattr(self, each.value)))


class RuleCount(SeverityCounts):
    """The findings of one rule."""

    rule: str


class CatalogCount(SeverityCounts):
    """The findings in one catalog."""

    catalog: str


class NamespaceCount(SeverityCounts):
    """The findings directly in one namespace."""

    catalog: str
    namespace: tuple[str, ...]

    @property
    def address(self) -> str:
        """The address that people use for the namespace."""
        return names.address(self.catalog, self.namespace)


class OwnerCount(SeverityCounts):
    """The findings about the tables of one owner, None for tables without one."""

    owner: str | None


class FindingCounts(_Part):
    """All findings by rule, catalog, namespace and owner, highest counts first."""

    by_rule: tuple[RuleCount, ...] = ()
    by_catalog: tuple[CatalogCount, ...] = ()
    by_namespace: tuple[NamespaceCount, ...] = ()
    by_owner: tuple[OwnerCount, ...] = ()

    @classmethod
    def of(cls, tallies: Mapping[tuple[str, Severity, str, Identifier, str | None], int]) -> FindingCounts:
        """Return the counts of findings; ``tallies`` has the number of findings of each :meth:`group_of`."""
        rules, catalogs, namespaces, owners = (_Tally() for _ in range(4))
        for (rule, severity, catalog, namespace, owner), number in tallies.items():
            rules[rule][severity.value] += number
            catalogs[catalog][severity.value] += number
            namespaces[catalog, namespace][severity.value] += number
            owners[owner][severity.value] += number
        return cls(
            by_rule=tuple(RuleCount(rule=rule, **counts) for rule, counts in rules.most_first()),
            by_catalog=tuple(CatalogCount(catalog=catalog, **counts) for catalog, counts in catalogs.most_first()),
            by_namespace=tuple(
                NamespaceCount(catalog=catalog, namespace=namespace, **counts)
                for (catalog, namespace), counts in namespaces.most_first()
            ),
            by_owner=tuple(OwnerCount(owner=owner, **counts) for owner, counts in owners.most_first()),
        )

    @staticmethod
    def group_of(finding: Finding) -> tuple[str, Severity, str, Identifier, str | None]:
        """Return the rule, severity, catalog, namespace and owner of ``finding``."""
        return finding.rule, finding.severity, finding.catalog, finding.namespace, finding.owner


class _Tally(defaultdict[Any, Counter[str]]):
    """The number of findings by severity, for each key."""

    def __init__(self) -> None:
        super().__init__(Counter)

    def most_first(self) -> list[tuple[Any, Counter[str]]]:
        """Return the keys with their counts, those with the most findings first."""
        return sorted(self.items(), key=lambda item: (-item[1].total(), str(item[0])))


class Totals(_Part):
    """The headline figures.

    Rows, bytes and fragments are of the tables that could be opened. ``rows_unknown`` and ``bytes_unknown`` count those
    that the sums of rows and of bytes leave out, as storage does not have the figure.

    ``bytes_on_disk`` and ``reclaimable`` are of the tables whose files were listed; null with `--depth quick`.
    """

    catalogs: Count = 0
    namespaces: Count = 0
    tables: Count = 0
    rows: Count = 0
    bytes: Count = 0
    rows_unknown: Count = 0
    bytes_unknown: Count = 0
    fragments: Count = 0
    bytes_on_disk: Count | None = None
    reclaimable: Count | None = None
    findings: SeverityCounts = SeverityCounts()


class Bin(_Part):
    """One class of a distribution, from ``at_least`` to the next class."""

    label: str
    at_least: Count
    tables: Count


class Distribution(_Part):
    """The number of tables in each class; ``unknown`` counts those without a value."""

    unit: str
    bins: tuple[Bin, ...]
    unknown: Count = 0

    @classmethod
    def of(cls, scale: Scale, tables: Mapping[int | None, int]) -> Distribution:
        """Return the distribution over ``scale``; ``tables`` has their number by ``Scale.bin_of``, None for unknown."""
        bins = [
            Bin(label=label, at_least=edge, tables=tables.get(at, 0)) for at, (edge, label) in enumerate(scale.classes)
        ]
        return cls(unit=scale.unit, bins=tuple(bins), unknown=tables.get(None, 0))


# ---- findings and tables ---------------------------------------------------------------------------------------------


_CARRIED_FROM = Field(
    default=None, description="The start of the earlier audit that looked at its storage; null if this one did."
)


class _Table(_Part):
    """A table, or an unregistered dataset, whose names are the path below its root.

    A finding may also be about a namespace; without any name it is about the root.
    """

    catalog: str
    namespace: tuple[str, ...]
    name: str

    @computed_field(description="The address that people use for the table.")  # type: ignore[prop-decorator] # as in pydantic's docs
    @property
    def address(self) -> str:
        """The address that people use for the table."""
        return names.address(self.catalog, self.identifier)

    @property
    def identifier(self) -> Identifier:
        """The names from the root to the table; empty for the root."""
        return (*self.namespace, self.name) if self.namespace or self.name else ()


class _AnyFinding(_Table):
    """A finding, now or earlier."""

    rule: str
    severity: Severity


class PastFinding(_AnyFinding):
    """A finding of an earlier run that this one does not have.

    It is ``gone``, unless it is suppressed or its place could not be read this time.
    """

    fingerprint: str
    first_seen: Moment
    last_seen: Moment
    gone: bool = False


class Suppressed(_Part):
    """A suppression of the manifest in force, and how many findings it leaves out of the counts."""

    catalog: str
    rule: str
    match: str = Field(description="A glob over names joined by a slash.")
    until: date
    reason: str
    source: Source
    findings: Count = 0


class Finding(_AnyFinding):
    """One defect: the reason, and the remedy. No text holds a secret."""

    reason: str
    remedy: str
    location: Location | None = None
    owner: str | None = Field(default=None, description="The property `owner` of the table, or of its namespace.")
    manager: str | None = Field(default=None, description="The manifest that manages the table, as `name/catalog`.")
    source: Source | None = Field(default=None, description="The place of the table's block in the manifest.")
    details: Details = Field(default_factory=dict)
    carried_from: Moment | None = _CARRIED_FROM
    first_seen: Moment | None = Field(
        default=None, description="The end of the first run with it; null without a history."
    )

    @property
    def fingerprint(self) -> str:
        """The digest that identifies the finding in every run."""
        place = None if self.location is None else locations.normalise(self.location)
        parts = json.dumps([self.rule, self.catalog, *self.identifier, place])
        return hashlib.sha256(parts.encode()).hexdigest()

    @property
    def rank(self) -> tuple[int, str, str]:
        """The sort key that puts the most severe findings first."""
        return list(Severity).index(self.severity), self.rule, self.address


class ReportedTable(_Table):
    """One table with its figures in storage; an unknown figure is null.

    ``bytes`` counts the data files of ``version``, the latest one, and ``bytes_on_disk`` all files. A clean-up frees at
    most ``reclaimable`` bytes. ``rules`` are those with a finding.
    """

    location: Location | None = None
    owner: str | None = Field(default=None, description="The property `owner` of the table, or of its namespace.")
    manager: str | None = Field(default=None, description="The manifest that manages the table, as `name/catalog`.")
    rows: Count | None = None
    bytes: Count | None = None
    fragments: Count | None = None
    small_fragments: Count | None = None
    version: Count | None = None
    versions: Count | None = None
    committed: Moment | None = None
    bytes_on_disk: Count | None = None
    reclaimable: Count | None = None
    carried_from: Moment | None = _CARRIED_FROM
    rules: tuple[str, ...] = ()


# ---- the document ----------------------------------------------------------------------------------------------------


class RunSummary(_Part):
    """One run in the history."""

    run_id: str
    finished: Moment
    manifest: str
    complete: bool
    settings: str = Field(default="", description="Equal in runs whose figures can be compared.")
    totals: Totals
    coverage: tuple[CatalogCoverage, ...] = ()
    by_rule: tuple[RuleCount, ...] = ()
    by_catalog: tuple[CatalogCount, ...] = ()

    @property
    def series(self) -> tuple[str, str]:
        """The manifest and the settings, equal in runs that can be compared."""
        return self.manifest, self.settings


class AuditDocument(_Part):
    """The result of one audit.

    ``findings``, the most severe first, and ``tables`` may be cut short; the counts, the totals and the distributions
    cover all of them, without those that are ``suppressed``. ``notes`` name what the catalogs hold that cannot be
    shown, and what was not searched. ``history`` holds the runs of this manifest with the same settings, this one last.
    """

    format_version: str = FORMAT_VERSION
    lancens_version: str
    run_id: str
    started: Moment
    finished: Moment
    manifest: ManifestRef
    settings: AuditSettings = AuditSettings()
    coverage: tuple[CatalogCoverage, ...] = ()
    carried_since: Moment | None = Field(default=None, description="The earliest `carried_from` of a table.")
    failures: tuple[ReadFailure, ...] = ()
    notes: tuple[str, ...] = ()
    totals: Totals = Totals()
    counts: FindingCounts = FindingCounts()
    findings: tuple[Finding, ...] = ()
    findings_left_out: Count = 0
    suppressed: tuple[Suppressed, ...] = ()
    past: tuple[PastFinding, ...] = ()
    tables: tuple[ReportedTable, ...] = ()
    tables_left_out: Count = 0
    sizes: Distribution
    ages: Distribution
    history: tuple[RunSummary, ...] = ()

    @computed_field(description="Whether everything in scope was read.")  # type: ignore[prop-decorator] # as above
    @property
    def complete(self) -> bool:
        """Whether everything in scope was read."""
        return not self.failures and not any(catalog.namespaces_unread for catalog in self.coverage)

    @property
    def incomplete_catalogs(self) -> frozenset[str]:
        """The catalogs that could not be read completely."""
        unread = {catalog.name for catalog in self.coverage if catalog.namespaces_unread}
        return frozenset(unread | {failure.catalog for failure in self.failures})

    @property
    def tables_unreadable(self) -> int:
        """The number of tables that could not be opened, without those of ``probe: false``."""
        return sum(catalog.tables_unreadable for catalog in self.coverage)

    @property
    def carried_over(self) -> str:
        """How many tables and findings have an earlier audit's probe result, in words."""
        tables = sum(catalog.tables - catalog.tables_looked_at for catalog in self.coverage)
        findings = sum(finding.carried_from is not None for finding in self.findings)
        return f"{count(tables, 'table')} without a new version, and {count(findings, 'finding')} about them"

    def fails(self, fail_on: FailOn) -> bool:
        """Return whether there is a finding of the severity ``fail_on`` or a higher one.

        An unreadable table counts as such a finding if the rules that report it were left out.
        """
        if fail_on == "never":
            return False
        rules = {rule.name for rule in self.settings.rules}
        has_unreported = self.tables_unreadable > 0 and not rules >= _UNREADABLE_RULES
        severities = [severity.value for severity in Severity]
        failing = severities[: severities.index(fail_on) + 1]
        return has_unreported or any(getattr(self.totals.findings, severity) for severity in failing)

    def summary(self) -> RunSummary:
        """Return the row of this run in the history."""
        return RunSummary(
            run_id=self.run_id,
            finished=self.finished,
            manifest=self.manifest.name,
            complete=self.complete,
            settings=self.settings.text,
            totals=self.totals,
            coverage=self.coverage,
            by_rule=self.counts.by_rule,
            by_catalog=self.counts.by_catalog,
        )
