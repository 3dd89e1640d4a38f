"""Rules about the manifest: property-drift, schema-drift, moved-tag, expired-suppression."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from reconciler.auditor.records import Severity, TableRecord
from reconciler.auditor.rules.rule import RuleLimits, Verdict, first_few, rule
from reconciler.model import locations, ownership
from reconciler.model.desired import DesiredTable
from reconciler.model.live import LiveTable, StorageKind
from reconciler.model.redaction import is_hidden, redact_value
from reconciler.model.tags import TagTarget
from reconciler.planner.facts import has_true_request, is_relocated
from reconciler.planner.schemas import compare


@rule(Severity.WARNING, needs_manifest=True)
def expired_suppression(_: TableRecord, __: RuleLimits) -> Iterator[Verdict]:
    """A suppression in the manifest has expired

    The last day of an entry of `suppress` has passed, so that the findings that it suppressed count again. Somebody
    accepted them for a time that is over.
    """
    yield from ()  # it is about no table: see `reconciler.auditor.suppressions`


@rule(Severity.WARNING, needs_manifest=True)
def property_drift(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The entry differs from its block in the manifest

    A property of the block has another value, a property that was removed from the block is still there, a tag leads
    to another version, the location or the protection differs, or another manifest has marked the table as its own.
    The table was changed by hand, or the manifest was changed and not applied. A table that equals its block and
    carries no mark is no drift.
    """
    desired, live = record.desired, record.live
    if desired is None or desired.absent or live is None:
        return
    manager = ownership.owner_of(live.properties)
    if manager is not None and not ownership.is_same_owner(manager, record.owner):
        yield Verdict(
            f"it is in this manifest, and `{manager}` manages it",
            "Agree on one manifest for it: remove the block from the other, or from this one; "
            "`lancens apply --take-over` claims the table for this one.",
        )
        return
    differences = dict(_entry_differences(desired, live)) | dict(_tag_differences(record, desired, live))
    if differences:
        yield Verdict(
            f"it differs from the manifest: {first_few([f'`{key}`' for key in sorted(differences)])}",
            "`lancens plan` shows the change that corrects it. If the catalog is right, correct the manifest.",
            details=differences,
        )


def _entry_differences(desired: DesiredTable, live: LiveTable) -> Iterator[tuple[str, str]]:
    """Yield each key of the entry that a plan would change, with a text of the live and the desired value."""
    properties = live.properties
    secret = desired.secret_keys | ownership.recorded_secrets(properties)
    for key, value in desired.properties.items():
        if properties.get(key) != value and not is_hidden(key, value, properties):
            yield (
                key,
                f"{_live_value(key, properties, secret)}, in the manifest {redact_value(key, value, secret=secret)!r}",
            )
    if ownership.owner_of(properties) is not None:
        for key in ownership.recorded_keys(properties) - desired.properties.keys():
            # The block of a clone is on top of the properties of its source, which an audit does not read.
            if key in properties and ownership.clone_of(properties) is None:
                yield key, f"{_live_value(key, properties, secret)}, not in the manifest any more"
        if desired.protect is not None and desired.protect != ownership.is_protected(properties):
            yield "protect", f"{not desired.protect}, in the manifest {desired.protect}"
    if is_relocated(desired, live):
        yield (
            "location",
            f"{locations.redact(live.location)}, in the manifest {locations.redact(desired.location or '')}",
        )
    elif ownership.owner_of(properties) is not None and not has_true_request(live):
        requested = locations.redact(properties.get(ownership.REQUESTED_LOCATION, "nothing"))
        yield (
            "requested-location",
            f"{requested}, which is out of date: the entry is at {locations.redact(live.location)}",
        )


def tags_to_read(record: TableRecord) -> Collection[str]:
    """Return the names of the tags to read for the rule: those of the block, and those that the entry lists."""
    desired, live = record.desired, record.live
    if desired is None or desired.absent or not desired.probe or live is None:
        return ()
    return desired.tags.keys() | _listed_tags(live) if record.stored.kind is StorageKind.DATASET else ()


def _listed_tags(live: LiveTable) -> frozenset[str]:
    """Return the tags that a managed entry lists as set by lancens."""
    is_owned = ownership.owner_of(live.properties) is not None
    return ownership.recorded_tags(live.properties) if is_owned else frozenset()


def _tag_differences(record: TableRecord, desired: DesiredTable, live: LiveTable) -> Iterator[tuple[str, str]]:
    """Yield each tag that a plan would set, move, remove or list in the entry, as ``tags.NAME``, with a text."""
    if record.tags is None:
        return
    listed = _listed_tags(live)
    is_listing = record.lists_tags and ownership.owner_of(live.properties) is not None
    for name in sorted(desired.tags.keys() | listed):
        actual_version, desired_version = record.tags.get(name), desired.tags.get(name)
        if actual_version != desired_version or (is_listing and (name in listed) != (desired_version is not None)):
            marked = ", listed in the entry" if name in listed else ""
            expected = "not in the manifest" if desired_version is None else f"in the manifest {desired_version}"
            yield f"tags.{name}", f"{actual_version or 'not there'}{marked}, {expected}"


def _live_value(key: str, properties: Mapping[str, str], secret: Collection[str]) -> str:
    return repr(redact_value(key, properties[key], secret=secret)) if key in properties else "not there"


@rule(Severity.NOTE, needs_manifest=True)
def moved_tag(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The tag that a clone was made at leads to another version

    The manifest clones the version of a tag, and the tag has moved since. The clone stays as it is, and so do the rows
    that others wrote to it. With `follow: true`, the next apply makes a new clone in its place.
    """
    at, known = record.clone_at, record.stored.base
    now = known.tags.get(at.tag or "") if known is not None and at is not None else None
    if known is not None and at is not None and now is not None:
        made_of = str(TagTarget(known.base.version, known.base.branch))
        if now != made_of:
            yield Verdict(
                f"it is a clone of version {made_of} of {locations.redact(known.base.location)}, whose tag `{at.tag}` "
                f"is at {now} now",
                "Apply the manifest for a new clone."
                if at.follow
                else "Keep it, or write `follow: true` for a new clone.",
            )


@rule(Severity.ERROR, needs_manifest=True)
def schema_drift(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The data has another schema than its block in the manifest

    Readers that rely on the manifest expect columns that are missing or have another type, and `lancens plan` blocks
    the table until the two agree. With `evolve: additive` in the block, apply adds and alters columns where no data is
    rewritten; the finding is then a warning. Columns that the block does not name are no finding, except with
    `extra_columns: conflict`.
    """
    desired = record.desired
    schema = record.stored.schema
    if desired is None or desired.absent or desired.schema is None or record.live is None or schema is None:
        return
    difference = compare(desired.schema, schema)
    blocking = difference.blocking(desired.evolve, desired.extra_columns)
    if blocking:
        yield Verdict(
            f"the data has other columns than its block: {first_few([*blocking.texts()], '; ')}",
            "`lancens plan` shows what to write into the block, and which call of pylance changes the data.",
        )
    elif difference.grows:
        lacking = [*replace(difference, extra=()).texts()]
        yield Verdict(
            f"the data does not follow its block yet: {first_few(lacking, '; ')}",
            "`lancens apply` adds or alters them; no data is rewritten.",
            Severity.WARNING,
        )
