"""Compare a live table without a block with the policies that match it."""

from __future__ import annotations

from reconciler.model import ownership
from reconciler.model.live import LiveTable
from reconciler.model.policies import TablePolicy
from reconciler.model.reasons import NoteCode, ReasonCode, Why
from reconciler.planner.entries import Action
from reconciler.planner.outcome import CatalogContext, Outcome, Remark, change_of
from reconciler.planner.views import ObjectView


def with_policies(context: CatalogContext, live: LiveTable, outcome: Outcome) -> Outcome:
    """Return the outcome for a table without a block, with its policies applied.

    ``outcome`` is the outcome without policies. A removal or block in it stays: policies neither remove tables nor keep
    them. Tables that a manifest owns get no properties, but a remark.
    """
    wanted = context.policies.of(live.id)
    if wanted is not None and not wanted.names:
        wanted = None
    mark = ownership.policy_of(live.properties)
    is_ours = ownership.is_same_owner(mark, context.owner)
    if (wanted is None and not is_ours) or not (outcome is None or isinstance(outcome, Remark)):
        return outcome
    if wanted is not None and is_ours and _is_up_to_date(wanted, live):
        return None
    before = context.view(wanted.block if wanted else None, live) or ObjectView()
    after = _view_after(context, wanted, live, before)
    names = tuple(sorted({key for key, _ in before.properties.items() ^ after.properties.items()}))
    manager = before.managed_by or (None if context.take_over or is_ours else mark)
    if manager is not None:
        return Remark(NoteCode.POLICY_NOT_APPLIED, live.id, {"owner": manager}) if names else outcome
    if not names and (before.marks == after.marks or (mark is None and not context.adopt)):
        return None
    if not (context.capabilities.alter_table and context.capabilities.table_markers):
        return Remark(NoteCode.POLICY_NOT_KEPT, live.id, {"names": names}) if names else None
    why = Why(ReasonCode.POLICY_ENDED) if wanted is None else Why(ReasonCode.POLICY, {"names": wanted.names})
    return change_of(
        context, Action.UPDATE_TABLE, live.id, before, after, why, wanted.block if wanted else None, probe=False
    )


def _is_up_to_date(policy: TablePolicy, live: LiveTable) -> bool:
    """Return whether the policies ask for no change of a table with our mark; fast, as it builds no view."""
    is_recorded = live.properties.get(ownership.KEYS) == policy.keys
    return is_recorded and policy.block.properties.items() <= live.properties.items()


def _view_after(context: CatalogContext, policy: TablePolicy | None, live: LiveTable, before: ObjectView) -> ObjectView:
    if policy is None:
        return before.model_copy(update={"keys": (), "secret_keys": (), "properties": {}, "policy": None})
    marks = context.marks(policy.block, live.properties, kept=True)
    updates = {"keys": marks.keys, "secret_keys": marks.secret_keys, "properties": marks.properties}
    is_ours = ownership.is_same_owner(before.policy, context.owner)
    return before.model_copy(update={**updates, "policy": before.policy if is_ours else context.owner})
