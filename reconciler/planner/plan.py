"""The plan document, its saved form, and the checks before it is applied.

A plan is data: made by ``reconciler.planner``, shown by ``reconciler.output``, saved as JSON (schema in
``schemas/plan.schema.json``) and carried out by ``reconciler.applier``. Its only times are those of dataset versions,
and it names no machine: the same states give the same bytes. Sensitive property values exist in memory only. The JSON
form holds stand-ins for them, which depend on the object (see ``reconciler.model.redaction``). Digests cover the
stand-ins, so a plan read back has the digests it was saved with.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ConfigDict, Field, PrivateAttr, SerializerFunctionWrapHandler, ValidationError, model_serializer

from reconciler.model import display
from reconciler.model.collector import collector_paused
from reconciler.model.desired import Thresholds
from reconciler.model.errors import BlockedError, PlanFileError, SafetyError
from reconciler.model.json_encoding import encode_json
from reconciler.model.reasons import NoteCode
from reconciler.model.rendering import Renderable
from reconciler.model.secret_forms import REDACTED
from reconciler.planner.entries import Blocked, Change, Fingerprint, Key, Note, Protection
from reconciler.planner.views import Document

FORMAT_VERSION = "1.0"
_DIGEST_KEY = "digest"
_JOB_SORTS = ("compact", "build", "optimize")
"""The sorts of changes that only `lancens maintain` plans."""


class CatalogSummary(Document):
    """The numbers of objects in one catalog, and of those that the plan removes.

    ``removable_tables`` counts the tables that pruning may remove, ``removed_tables`` those of them that the plan
    removes, ``untagged_tables`` those that lose a tag, ``recreated_tables`` those whose lost data it replaces.
    ``unnamed_tables`` are not in the manifest, ``unmanaged_tables`` are those of them that no manifest manages.
    ``mirrored_tables`` counts the tables that its mirror selects in the source, absent without a mirror, and
    ``unmirrored_tables`` the mirrored tables that the plan removes. ``desired_objects`` counts the manifest's blocks.
    ``service`` is a digest of the resolved configuration without its credentials, a slow one if values come from
    outside the manifest.
    """

    name: str
    impl: str
    namespaces: int
    tables: int
    removable_tables: int
    removed_tables: int = 0
    untagged_tables: int = 0
    recreated_tables: int = 0
    unnamed_tables: int = 0
    unmanaged_tables: int = 0
    mirrored_tables: int | None = None
    unmirrored_tables: int = 0
    service: str = ""
    desired_objects: int

    @property
    def removals(self) -> tuple[int, int, int, int]:
        """The numbers of tables that are removed, removed by a mirror, that lose a tag, and that lose data."""
        return self.removed_tables, self.unmirrored_tables, self.untagged_tables, self.recreated_tables

    @property
    def total_removed(self) -> int:
        """How many tables count as removed for the manifest's thresholds."""
        return self.removed_tables + self.untagged_tables + self.recreated_tables


class ManifestRef(Document):
    """The manifest of a plan; paths are relative to the folder it was made in.

    ``variables`` has a slow digest of the value of each variable that the manifest uses. ``given`` has the values of
    those that differ from ``lancens.vars.yaml``, ``services`` the service and root of each catalog, both for people.
    """

    name: str
    digest: str
    files: tuple[str, ...]
    variables: Mapping[str, str] = {}
    given: Mapping[str, str] = {}
    services: Mapping[str, str] = {}
    upkeep: str | None = Field(default=None, description="A digest of all `maintain` settings, in a plan of jobs.")

    def is_shown_as(self, other: ManifestRef) -> bool:
        """Return whether people see the services and variables of ``other``; credentials may differ."""
        mine, others = (
            {name: value for name, value in each.given.items() if value != REDACTED} for each in (self, other)
        )
        return mine == others and self.services == other.services

    def differing_variables(self, other: ManifestRef) -> list[str]:
        """Return the sorted names of the variables that have another value in ``other``, or none."""
        names = self.variables.keys() | other.variables.keys()
        return sorted(name for name in names if self.variables.get(name) != other.variables.get(name))


class WorkLimits(Document):
    """The most bytes that the jobs of a plan read and write, and the most tables with jobs; None: no limit."""

    max_bytes: int | None = None
    max_tables: int | None = None


class Options(Document):
    """The options of a plan.

    ``mass_removal``: the plan removes more than the thresholds allow, and the user allowed that.
    """

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    adopt: bool = False
    take_over: bool = False
    recreate_lost: tuple[str, ...] = ()
    mass_removal: bool = False
    maintain: bool = Field(default=False, description="Whether its changes are jobs of `lancens maintain`.")
    limits: WorkLimits = Field(default=WorkLimits(), description="Jobs beyond them are left out.")


class Summary(Document):
    """The number of changes of each sort."""

    create: int = 0
    declare: int = 0
    register_: int = Field(default=0, alias="register", serialization_alias="register")
    update: int = 0
    move: int = 0
    deregister: int = 0
    drop: int = 0
    compact: int = 0
    build: int = 0
    optimize: int = 0
    protected: int = 0
    blocked: int = 0

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    @model_serializer(mode="wrap")
    def _omit_zero_jobs(self, write: SerializerFunctionWrapHandler) -> dict[str, int]:
        """Return the counts by sort, without those of jobs that are zero."""
        return {sort: number for sort, number in write(self).items() if number or sort not in _JOB_SORTS}


class Plan(Renderable, Document):
    """All changes, in execution order.

    ``blocked`` are the objects that cannot be planned, ``waiting`` the changes that wait for them; neither is carried
    out. ``guards`` are the protected objects that stay.
    """

    format_version: str = FORMAT_VERSION
    manifest: ManifestRef
    catalogs: tuple[CatalogSummary, ...] = ()
    changes: tuple[Change, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    waiting: tuple[Change, ...] = ()
    guards: tuple[Protection, ...] = ()
    notes: tuple[Note, ...] = ()
    fingerprints: tuple[Fingerprint, ...] = ()
    thresholds: Thresholds = Thresholds()
    options: Options = Options()
    _pending: frozenset[Key] = PrivateAttr(frozenset())

    def _headline(self) -> tuple[str, Mapping[str, int]]:
        return self.manifest.name, self.summary().model_dump(by_alias=True)

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be changed."""
        return not self.changes

    @property
    def concerned(self) -> frozenset[str]:
        """The catalogs with a change, a waiting change or a blocked object."""
        return frozenset(entry.catalog for entry in (*self.changes, *self.blocked, *self.waiting))

    @property
    def pending(self) -> frozenset[Key]:
        """The objects whose entries an earlier manifest asks for, too; no saved plan has them."""
        return self._pending

    def with_pending(self, earlier: Plan) -> Plan:
        """Return this plan with the entries pending that the plan of an earlier manifest has, too."""
        before = {entry.key: entry for entry in earlier.entries}
        plan = self.model_copy()
        plan._pending = frozenset(  # noqa: SLF001 - of its own copy
            entry.key for entry in self.entries if entry.key in before and entry.is_like(before[entry.key])
        )
        return plan

    @property
    def entries(self) -> tuple[Change | Blocked | Protection, ...]:
        """Blocked objects, changes and protected objects."""
        return (*self.blocked, *self.changes, *self.guards)

    def changes_of(self, catalog: str) -> Iterator[Change]:
        """Return the changes of one catalog, in execution order."""
        return (change for change in self.changes if change.catalog == catalog)

    def summary(self) -> Summary:
        """Return the counts of changes and kept objects, as the last line of a plan shows them."""
        counts = Counter(change.action.sort for change in self.changes)
        return Summary(**counts, protected=len(self.guards), blocked=len(self.blocked))

    def to_json(self) -> str:
        """Return the saved form: the same text for the same plan, without secrets."""
        content = self._content()
        return display.json_text(encode_json({**content, _DIGEST_KEY: _digest_of(content)}, 2)) + "\n"

    def digest(self) -> str:
        """Return the SHA-256 of the saved form, by which a review identifies this plan."""
        return _digest_of(self._content())

    def _content(self) -> dict[str, Any]:
        """Return the saved form without its digest."""
        document = self.model_dump(mode="json", exclude_defaults=True, by_alias=True)
        summary = self.summary().model_dump(by_alias=True)
        return {"format_version": self.format_version, **document, "summary": summary}

    @classmethod
    @collector_paused()
    def from_json(cls, text: str | bytes) -> Plan:
        """Return the plan that :meth:`to_json` wrote.

        Raises:
            PlanFileError: the text is not a plan, was edited or truncated, or has another major version.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PlanFileError(f"not a plan: the file is not JSON ({error}); save the plan again") from None
        version = document.get("format_version") if isinstance(document, dict) else None
        if not isinstance(version, str):
            raise PlanFileError("not a plan: there is no `format_version`")
        if version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
            raise PlanFileError(
                f"the plan has format {version}; this lancens reads {FORMAT_VERSION}. Make the plan again."
            )
        try:
            plan = cls.model_validate_json(encode_json(document))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise PlanFileError(f"the plan is damaged at {where}: {first['msg']}. Make the plan again.") from None
        _check_seal(document, plan.summary())
        count = len(plan.changes)
        for position, change in enumerate(plan.changes):
            if any(not 0 <= dependency < count or dependency == position for dependency in change.depends_on):
                raise PlanFileError(f"the plan is damaged: {change.address} depends on what is not in it")
        return plan


def _check_seal(document: Mapping[str, Any], summary: Summary) -> None:
    """Check the digest of ``document``, a saved plan, and that it has the counts of ``summary``.

    The digest also covers keys of later minor versions, which are otherwise ignored.

    Raises:
        PlanFileError: either differs.
    """
    content = {key: value for key, value in document.items() if key != _DIGEST_KEY}
    if document.get(_DIGEST_KEY) != _digest_of(content):
        raise PlanFileError(
            "the plan was edited or damaged: its `digest` does not match its content. Make the plan again."
        )
    counted = summary.model_dump(by_alias=True)
    summarised = content.get("summary")
    if not isinstance(summarised, dict) or any(summarised.get(sort) != count for sort, count in counted.items()):
        raise PlanFileError(
            "the plan was edited or damaged: its `summary` does not count its changes. Make the plan again."
        )


def _digest_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a plan's content, independent of its layout.

    It leaves out the versions of data: an approved plan keeps its digest while writers append.
    """
    for part in ("changes", "waiting"):
        if part in content:
            entries = [{key: value for key, value in entry.items() if key != "dataset"} for entry in content[part]]
            content = {**content, part: entries}
    text = json.dumps(content, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def check_blocked(plan: Plan) -> None:
    """Refuse a plan with blocked objects.

    Raises:
        BlockedError: naming each blocked object and why.
    """
    if plan.blocked:
        raise BlockedError(
            [
                f"{display.address(entry.catalog, *entry.identifier)}: {display.printable(entry.reason)}"
                for entry in plan.blocked
            ]
        )


_RENAMES = (NoteCode.RENAME_LIKELY, NoteCode.RENAME_UNDECIDED, NoteCode.RENAMES_LIKELY)
"""Notes that say how to keep what would be removed."""


def check_removals(plan: Plan) -> None:
    """Refuse a plan that removes too much of a catalog.

    The limit is ``thresholds.max_removal_percent`` of the tables that pruning may remove, if there are at least
    ``thresholds.min_tables``. If the manifest names nothing in the catalog, or its mirror finds an empty source, any
    removal is too much.

    Raises:
        SafetyError: naming each catalog, what would be removed and the flag that allows it.
    """
    reasons = [reason for catalog in plan.catalogs for reason in _excess_removals(plan.thresholds, catalog)]
    if reasons:
        renames = [note.message for note in plan.notes if note.code in _RENAMES]
        allowed = "Nothing was changed. If this is meant, allow it with --allow-mass-removal."
        raise SafetyError(*reasons, allowed, *renames)


def removes_too_much(limits: Thresholds, catalogs: Iterable[CatalogSummary]) -> bool:
    """Return whether :func:`check_removals` refuses a plan with these catalogs."""
    return any(True for catalog in catalogs for _ in _excess_removals(limits, catalog))


def _percent(part: int, whole: int) -> str:
    """Return a share rounded up to a tenth, so that a share above a limit never reads as the limit: 4 of 13 is 30.8."""
    return f"{-(-part * 1000 // whole) / 10:.1f}".removesuffix(".0")


def _excess_removals(limits: Thresholds, catalog: CatalogSummary) -> Iterator[str]:
    """Yield a sentence if the plan removes too much of ``catalog``."""
    tables, removed, untagged = catalog.removable_tables, catalog.removed_tables, catalog.untagged_tables
    if catalog.unmirrored_tables and catalog.mirrored_tables == 0:
        yield (
            f"{catalog.name}: its mirror finds no table in the catalog that it follows, which would deregister "
            f"{catalog.unmirrored_tables} tables; that catalog may be empty, missing or another one"
        )
    elif removed and not catalog.desired_objects and catalog.mirrored_tables is None:
        yield f"{catalog.name}: the manifest names no object of this catalog, which would deregister {removed} tables"
    elif tables >= limits.min_tables and catalog.total_removed * 100 > tables * limits.max_removal_percent:
        tags = f" and remove tags of {untagged}" if untagged else ""
        tags += f" and give up the lost data of {catalog.recreated_tables}" if catalog.recreated_tables else ""
        yield (
            f"{catalog.name}: the plan would deregister {removed}{tags} of {tables} tables "
            f"({_percent(catalog.total_removed, tables)}%); the limit is {limits.max_removal_percent}%"
        )
