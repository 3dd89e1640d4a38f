"""Compare the tags of a table's data with its block's.

Only tags that lancens set, which the entry lists, are ever moved or removed without ``take_over``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.model import ownership
from reconciler.model.desired import DesiredTable
from reconciler.model.live import LiveTable, StorageKind
from reconciler.model.reasons import Params, ReasonCode, Why
from reconciler.model.tags import FoundTags, TagTarget
from reconciler.planner.facts import TableFacts
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.views import ObjectView

_FIRST_VERSION = str(TagTarget(1))


@dataclass(frozen=True, slots=True)
class TagChange:
    """How the tags of a table change.

    ``before`` and ``after`` are the targets by tag, None if nothing changes. ``recorded`` are the tags that the entry
    lists afterwards. ``blocked`` is why the data cannot have the tags that the block asks for; None if it can.
    """

    recorded: tuple[str, ...] = ()
    before: dict[str, str] | None = None
    after: dict[str, str] | None = None
    blocked: Why | None = None

    def applied_to(self, before: ObjectView, after: ObjectView) -> tuple[ObjectView, ObjectView]:
        """Return the views of an entry before and after its change, with the tags added."""
        if not (self.recorded or before.tag_keys or self.after is not None):
            return before, after
        return (
            before.model_copy(update={"tags": self.before}),
            after.model_copy(update={"tags": self.after, "tag_keys": self.recorded}),
        )


def tag_change(
    context: CatalogContext, desired: DesiredTable, live: LiveTable | None, facts: TableFacts | None, *, relocates: bool
) -> TagChange:
    """Return how the tags of a table change.

    ``relocates``: the entry gets other data, whose tags lancens has not set.
    """
    listed = ownership.recorded_tags(live.properties) if live is not None and not relocates else frozenset()
    recorded = listed if live is not None and ownership.owner_of(live.properties) is not None else frozenset()
    live_tags, wanted = facts.tags if facts else None, dict(sorted(desired.tags.items()))
    if live_tags is None and facts is not None and facts.storage.kind is StorageKind.NOTHING:
        live_tags = tags_of_new(desired, is_written=desired.schema is not None)
    if live_tags is None:
        return TagChange(tuple(sorted(listed)))
    before = {name: live_tags.there[name] for name in sorted(wanted.keys() | recorded) if name in live_tags.there}
    differing = [name for name in wanted if name in before and before[name] != wanted[name]]
    taken = [] if context.take_over else [name for name in differing if name not in recorded]
    if taken:
        return TagChange(blocked=Why(ReasonCode.TAG_TAKEN, _targets_of(taken, before)))
    if live_tags.missing:
        return TagChange(blocked=Why(ReasonCode.TAG_WITHOUT_VERSION, _targets_of(live_tags.missing, wanted)))
    can_record = context.capabilities.alter_table and context.capabilities.table_markers
    if before == wanted:
        return TagChange(tuple(wanted) if can_record else tuple(sorted(listed)))
    if not can_record and listed != wanted.keys():
        return TagChange(blocked=Why(ReasonCode.CANNOT_TAG))
    if live is not None and live.managed_versioning:
        return TagChange(blocked=Why(ReasonCode.SERVICE_KEEPS_TAGS))
    return TagChange(tuple(wanted), before, wanted)


def tags_of_new(desired: DesiredTable, *, is_written: bool) -> FoundTags:
    """Return the tags of a dataset that does not exist; it gets its first version if the plan writes it."""
    versions = (_FIRST_VERSION,) if is_written else ()
    return FoundTags(missing=tuple(name for name, target in sorted(desired.tags.items()) if target not in versions))


def _targets_of(names: Iterable[str], targets: Mapping[str, str]) -> Params:
    return {"names": tuple(f"{name}: {targets[name]}" for name in names)}


def is_only_tagged(before: ObjectView, after: ObjectView) -> bool:
    """Return whether two views of an entry differ in tags, and its lists of them, alone."""
    differ = (before.tags, before.tag_keys) != (after.tags, after.tag_keys)
    return differ and before.model_copy(update={"tags": after.tags, "tag_keys": after.tag_keys}) == after


def why_tagged(before: ObjectView, after: ObjectView) -> Why:
    """Return the reason for a change of tags."""
    current, wanted = before.tags or {}, after.tags or {}
    params: Params = {}
    if tagged := tuple(name for name, target in wanted.items() if current.get(name) != target):
        params["tagged"] = tagged
    if untagged := tuple(current.keys() - wanted.keys()):
        params["untagged"] = tuple(sorted(untagged))
    return Why(ReasonCode.TAGS, params)
