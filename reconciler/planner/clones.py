"""Decide what a table that begins as a shallow clone is made of, and whether data that is there is that clone."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Literal

from reconciler.model import locations, ownership
from reconciler.model.clones import CloneBase
from reconciler.model.columns import Schema
from reconciler.model.desired import DesiredTable
from reconciler.model.figures import UNKNOWN
from reconciler.model.live import LiveTable, Storage, StorageKind
from reconciler.model.names import address
from reconciler.model.ownership import version_of_clone
from reconciler.model.reasons import Params, ReasonCode, Why
from reconciler.model.tags import MAIN_BRANCH
from reconciler.planner.entries import Action, Blocked, Change, concealed_base
from reconciler.planner.facts import TableFacts, is_followed, is_recorded_clone
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.schemas import evolved, growth_of
from reconciler.planner.stored import blocked_by_data, compared_columns, schema_difference
from reconciler.planner.views import ObjectView, field_changes

_CALLS: tuple[Literal["code", "fills", "impossible", "rename_code", "renames", "rewritten"], ...] = (
    "code",
    "fills",
    "impossible",
    "rename_code",
    "renames",
    "rewritten",
)
"""The parameters of a remedy that changes data."""
_DIGITS = 8
_FORMER_DIGEST = re.compile(rf"-[0-9a-f]{{{_DIGITS}}}$")
_BASE_REFUSALS = (
    ReasonCode.BASE_OUTSIDE,
    ReasonCode.BASE_UNAVAILABLE,
    ReasonCode.CLONE_WRITTEN,
    ReasonCode.OPTIONS_DIFFER,
)


def base_of(desired: DesiredTable, facts: TableFacts) -> CloneBase | None:
    """Return the version that a new table is cloned from; None for a table that is no clone, or has no such version."""
    if desired.clones is None or not isinstance(facts.base, CloneBase):
        return None
    return replace(facts.base, pin=desired.clones.at.pin)


def with_clone(desired: DesiredTable, facts: TableFacts) -> TableFacts:
    """Return ``facts`` about a new table as they are once its clone is written, if it is to be one."""
    base = base_of(desired, facts)
    if base is None or (facts.storage.kind is StorageKind.DATASET and not facts.is_begun):
        return facts
    return replace(facts, storage=replace(facts.storage, kind=StorageKind.DATASET, schema=base.columns, cleanup=None))


def why_unlike_block(desired: DesiredTable, facts: TableFacts, cloned: TableFacts) -> Why | None:
    """Return why the columns of a clone cannot be those of its block; None if they can.

    ``cloned`` are the facts once it is written. The remedies name no call that changes the data: the clone is not
    there yet.
    """
    base, difference = base_of(desired, facts), schema_difference(desired, cloned)
    why = blocked_by_data(desired, None, cloned, difference, relocates=False)
    if base is None or why is None or why.code is not ReasonCode.OTHER_COLUMNS:
        return why
    params: Params = {**why.params, "location": locations.redact(base.location)}
    for key in _CALLS:
        params.pop(key, None)
    return Why(why.code, params)


def mark_of_clone(desired: DesiredTable, base: CloneBase | None) -> str | None:
    """Return the mark of an entry whose data is a clone of ``base``."""
    if desired.clones is None or base is None:
        return None
    return ownership.clone_mark(_origin(desired), base.version, desired.clones.at.pin or base.pin)


def mark_of_existing(desired: DesiredTable, live: LiveTable, facts: TableFacts | None) -> Mapping[str, str | None]:
    """Return the mark to write to an entry that lacks it and has the data of its clone, as a field of its view."""
    if facts is None or facts.clone is None or is_recorded_clone(desired, live):
        return {}
    base = replace(facts.clone, pin=ownership.is_pinned(ownership.clone_of(live.properties)))
    return {"clone": mark_of_clone(desired, base)}


def how_cloned(
    desired: DesiredTable, facts: TableFacts, cloned: TableFacts, base: CloneBase
) -> tuple[Action, Schema | None, Why]:
    """Return the action that makes a clone, the columns of its data, and the reason.

    ``cloned`` are the facts once it is written.
    """
    is_there = facts.storage.kind is StorageKind.DATASET and not facts.is_begun
    action = Action.REGISTER_TABLE if is_there else Action.CREATE_TABLE
    return action, _columns_of(desired, cloned), Why(ReasonCode.CLONED, _params_of(desired, cloned, base))


def _columns_of(desired: DesiredTable, cloned: TableFacts) -> Schema | None:
    """Return the columns of a new clone once those of its block are applied; None if the plan is not about them."""
    actual = compared_columns(desired, cloned)
    return None if actual is None else evolved(actual, schema_difference(desired, cloned))


def _params_of(desired: DesiredTable, cloned: TableFacts, base: CloneBase) -> Params:
    """Return what the reason for a clone says of its base and its columns."""
    params: Params = {
        "name": _origin(desired),
        "version": base.version,
        **growth_of(schema_difference(desired, cloned)),
    }
    if base.tag is not None:
        params["tag"] = base.tag
    if base.rows is not None:
        params["count"] = base.rows
    if base.pin:
        params["kind"] = "pinned"
    return params


def with_base(change: Change, base: CloneBase, columns: Schema | None) -> Change:
    """Return the change that makes a clone of ``base`` with what it does to ``columns``, those of the new clone."""
    after = ObjectView(columns=change.after_columns)
    fields = (*change.fields, *field_changes(ObjectView(columns=columns), after, change.address))
    base = concealed_base(replace(base, columns=columns), change.address)
    return change.model_copy(update={"clone": base, "fields": tuple(sorted(fields, key=attrgetter("path")))})


def why_unclonable(context: CatalogContext, desired: DesiredTable, facts: TableFacts) -> Why | None:
    """Return why a new table cannot be made as a clone; None if it can, or is to be no clone."""
    clone, able = desired.clones, context.capabilities
    if clone is None:
        return None
    if able.chooses_locations or (facts.location is None and able.places_tables):
        return Why(ReasonCode.CLONE_CANNOT_PLACE)
    if clone.at.pin and not able.table_markers:
        detail = "its catalog keeps no properties to record `pin` in: remove `pin`"
        return Why(ReasonCode.BASE_UNAVAILABLE, Params(name=_origin(desired), detail=detail))
    if clone.awaited is not None:
        return clone.awaited
    if isinstance(facts.base, Why):
        return facts.base
    base = base_of(desired, facts)
    if base is not None and facts.storage.kind is not StorageKind.DATASET:
        return None
    is_same = base is not None and locations.same(base.location, clone.location) and base.is_same_version(facts.clone)
    return None if is_same else _why_other_data(desired, facts)


def why_no_clone(desired: DesiredTable, live: LiveTable, facts: TableFacts | None) -> Why | None:
    """Return why an existing table is not the clone that its block asks for; None if it is, or is to be none."""
    clone = desired.clones
    if clone is None or facts is None or is_recorded_clone(desired, live):
        return None
    is_same = facts.clone is not None and locations.same(facts.clone.location, clone.location)
    return None if is_same else _why_other_data(desired, facts)


def followed_base(desired: DesiredTable, live: LiveTable, facts: TableFacts | None) -> CloneBase | Why | None:
    """Return the version that the tag of a clone has moved to; None if it has not, or need not be followed.

    If that cannot be known, return why.
    """
    clone = desired.clones
    if clone is None or facts is None or not is_followed(desired, live):
        return None
    base = clone.awaited or facts.base
    if not isinstance(base, CloneBase):
        return base
    is_same = version_of_clone(ownership.clone_of(live.properties)) == base.version
    if facts.clone is not None:
        is_same = base.is_same_version(facts.clone)
    return None if is_same else replace(base, pin=clone.at.pin)


def followed(
    desired: DesiredTable, live: LiveTable, facts: TableFacts, base: CloneBase
) -> tuple[DesiredTable, TableFacts]:
    """Return a block and the facts for an entry that gets a new clone of ``base``: beside the present one.

    Its name has a digest, so that it is found again after an interruption, and no clone is used that was left before.
    """
    home, _, name = live.location.rstrip("/").rpartition("/")
    text = f"{name} {base.branch} {base.version} {base.transaction}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    # Without the suffix, as a directory catalog takes each one at its root for a table of its own.
    location = f"{home}/{_FORMER_DIGEST.sub('', name.removesuffix('.lance'))}-{digest}"
    facts = replace(facts, location=location, storage=Storage(StorageKind.NOTHING), base=base, clone=None, entry=None)
    return replace(desired, location=location), facts


def why_written(desired: DesiredTable, new: TableFacts, base: CloneBase, written: int) -> Why | None:
    """Return why the clone of ``base`` that was left at a new clone's location cannot be taken; None if it can.

    Args:
        desired, new: from :func:`followed`.
        base: the version to clone.
        written: the number of its versions since. An interrupted apply has written one for each change of a column.
    """
    cloned = with_clone(desired, new)
    before, after = compared_columns(desired, cloned), _columns_of(desired, cloned)
    if written <= len(field_changes(ObjectView(columns=before), ObjectView(columns=after), "")):
        return None
    params = Params(name=_origin(desired), version=base.version, location=locations.redact(new.location or ""))
    return Why(ReasonCode.CLONE_WRITTEN, params if base.tag is None else {**params, "tag": base.tag})


def without_following(desired: DesiredTable) -> DesiredTable:
    """Return a block whose clone stays, wherever its tag is: the entry is to be renamed first."""
    clone = desired.clones
    return desired if clone is None else replace(desired, clones=replace(clone, at=replace(clone.at, follow=False)))


def with_new_clone(change: Change, desired: DesiredTable, live: LiveTable, cloned: TableFacts) -> Change:
    """Return the change that relocates an entry to a new clone, with the columns of its block, and with its reason."""
    base, after = base_of(desired, cloned), change.after
    if base is None or after is None:
        return change
    params = _params_of(desired, cloned, base)
    params["value"] = str(version_of_clone(ownership.clone_of(live.properties)) or UNKNOWN)
    if cloned.written:
        params["more"] = cloned.written
    after = after.model_copy(update={"columns": _columns_of(desired, cloned)})
    change = change.model_copy(update={"after": after, "code": ReasonCode.CLONE_FOLLOWS, "params": params})
    return with_base(change, base, compared_columns(desired, cloned))


def recorded_clone(
    desired: DesiredTable, entry: Change | Blocked | None, facts: TableFacts, columns: Schema | None
) -> TableFacts:
    """Return ``facts`` with what was known of a clone when a plan with ``entry`` was made.

    The manifest says where the base is, and by which tag or number it is found; only the rest is taken from the plan.
    ``columns`` are its recorded columns, with their secrets.
    """
    clone = desired.clones
    if clone is None:
        return facts
    seen = CloneBase(clone.location or "", 0, "")
    if entry is None:
        return replace(facts, clone=seen)
    if entry.clone is not None:
        number = clone.at.version or entry.clone.version
        columns = columns if desired.schema is not None else None
        base = replace(entry.clone, location=clone.location or "", tag=clone.at.tag, version=number, columns=columns)
        if base.tag is None:  # only a tag leads to another branch
            base = replace(base, branch=MAIN_BRANCH)
        is_there = isinstance(entry, Change) and entry.storage is StorageKind.DATASET
        is_begun = isinstance(entry, Change) and entry.action is Action.CREATE_TABLE
        facts = replace(facts, base=base, clone=base if is_there else None, is_begun=is_begun)
        if entry.before is not None:  # another version than that of the present clone
            written = entry.params.get("more", 0)
            facts = replace(facts, clone=seen, is_begun=False, written=written)
    elif isinstance(entry, Blocked) and entry.code in _BASE_REFUSALS:
        facts = replace(facts, base=Why(entry.code, entry.params))
    elif isinstance(entry, Change) and entry.after is not None:
        facts = replace(facts, clone=replace(seen, version=version_of_clone(entry.after.clone)))
    if isinstance(entry, Blocked) and entry.code is ReasonCode.NOT_THIS_CLONE and "version" in entry.params:
        facts = replace(facts, clone=replace(seen, version=entry.params["version"]))
    return facts


def _why_other_data(desired: DesiredTable, facts: TableFacts) -> Why:
    params = Params(location=locations.redact(facts.location or ""), name=_origin(desired))
    base = desired.clones.location if desired.clones is not None else None
    if facts.clone is not None and locations.same(facts.clone.location, base):
        params["version"] = facts.clone.version
    return Why(ReasonCode.NOT_THIS_CLONE, params)


def _origin(desired: DesiredTable) -> str:
    """Return the address of the table that a table is cloned from."""
    origin = desired.clones.origin if desired.clones is not None else None
    return "" if origin is None else address(origin.catalog, origin.identifier)
