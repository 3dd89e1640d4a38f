"""Compare one namespace. A pure function.

Whether a namespace is empty and can be dropped is decided for the whole catalog in ``conflicts``.
"""

from __future__ import annotations

from collections.abc import Collection

from reconciler.model import ownership
from reconciler.model.desired import DesiredNamespace
from reconciler.model.live import LiveNamespace
from reconciler.model.reasons import NoteCode, Params, ReasonCode, Why
from reconciler.planner.entries import Action, Kind
from reconciler.planner.outcome import CatalogContext, Outcome, Remark, change_of, diff_unwanted, note_on_fixed_marks


def diff_namespace(
    context: CatalogContext,
    desired: DesiredNamespace | None,
    live: LiveNamespace | None,
    *,
    holds: Collection[Kind] = (),
    renamed_to: DesiredNamespace | None = None,
    origin: LiveNamespace | None = None,
) -> Outcome:
    """Return the outcome for one namespace; drops still need an emptiness check.

    ``holds`` are the kinds of objects that the manifest puts into it, which decide its kind if the catalog has two.
    ``renamed_to`` is the block under a new name, ``origin`` the live namespace under the old name.
    """
    identifier = desired.id if desired else live.id if live else ()
    if len(identifier) <= context.capabilities.fixed_levels:
        if live is None and desired is not None and not desired.absent:
            return context.blocked_entry(Why(ReasonCode.MADE_OUTSIDE), desired, None)
        return None
    if desired is None or desired.absent:
        return None if live is None else diff_unwanted(context, desired, live, renamed_to)
    if live is not None and live.disabled:
        return context.blocked_entry(Why(ReasonCode.NAMESPACE_DISABLED), desired, live)
    kinds = context.capabilities.namespace_kinds
    kind = (desired.kind or kinds["namespace" not in holds]) if kinds else None
    why = _why_blocked_by_kind(context, desired, live, kind, holds)
    if why:
        return context.blocked_entry(why, desired, live)
    if live is None:
        return _diff_new(context, desired, kind, origin)
    return _diff_existing(context, desired, live) if desired.is_claimed else None


def _diff_new(
    context: CatalogContext, desired: DesiredNamespace, kind: str | None, origin: LiveNamespace | None
) -> Outcome:
    able = context.capabilities
    params: Params = {"mirror": context.mirror} if desired.mirrored and context.mirror else {}
    after = context.marks(desired, {}, able.namespace_markers).model_copy(update={"kind": kind})
    if origin is None or context.why_foreign(origin.properties) is not None:
        why = Why(ReasonCode.MIRRORED if params else ReasonCode.IN_MANIFEST, params)
        return change_of(context, Action.CREATE_NAMESPACE, desired.id, None, after, why, desired)
    params["name"] = "/".join(origin.id)
    if ownership.is_protected(origin.properties) and desired.protect is not False:
        return context.blocked_entry(Why(ReasonCode.PROTECTED, params), desired, None)
    if able.lost_with_namespace:
        params["lost"] = able.lost_with_namespace
    why = Why(ReasonCode.NAMESPACE_MOVED, params)
    creation = change_of(context, Action.CREATE_NAMESPACE, desired.id, None, after, why, desired)
    return creation.model_copy(update={"takes_from": origin.id})


def _why_blocked_by_kind(
    context: CatalogContext,
    desired: DesiredNamespace,
    live: LiveNamespace | None,
    kind: str | None,
    holds: Collection[Kind],
) -> Why | None:
    """Return why a namespace cannot be, or become, what the manifest says; None when it can, or has no kind."""
    kinds = context.capabilities.namespace_kinds
    if kinds is None:
        return None
    outer, inner = kinds
    deepest = context.capabilities.outer_kind_depth
    if live is None and kind == outer and deepest is not None and len(desired.id) > deepest:
        if len(desired.id) == 1:
            return Why(ReasonCode.KIND_NOT_CREATABLE, {"kind": outer, "other_kind": inner})
        return Why(ReasonCode.KIND_NOT_NESTABLE, {"kind": outer})
    if live is not None and desired.kind is not None and live.kind != desired.kind:
        return Why(ReasonCode.KIND_CHANGED, {"kind": live.kind or "", "other_kind": desired.kind})
    actual_kind = kind if live is None else live.kind
    if actual_kind == inner and "namespace" in holds:
        return Why(ReasonCode.KIND_HOLDS_NO_NAMESPACES, {"kind": inner, "other_kind": outer})
    if actual_kind == outer and "table" in holds:
        return Why(ReasonCode.KIND_HOLDS_NO_TABLES, {"kind": outer, "other_kind": inner})
    return None


def _diff_existing(context: CatalogContext, desired: DesiredNamespace, live: LiveNamespace) -> Outcome:
    foreign = context.blocked_as_foreign(live, desired)
    if foreign:
        return foreign
    before = context.view(desired, live)
    marked = context.marks(desired, live.properties, context.capabilities.namespace_markers)
    after = marked.model_copy(update={"kind": live.kind})
    if before is None or (before.content, before.marks) == (after.content, after.marks):
        return None
    only_marks = before.content == after.content
    if only_marks and before.managed_by is None and context.capabilities.alter_namespace and not context.adopt:
        return Remark(NoteCode.ADOPTABLE, live.id)
    if not context.capabilities.alter_namespace:
        if before.properties == after.properties:
            return Remark(note_on_fixed_marks(before, after), live.id)
        return context.blocked_entry(Why(ReasonCode.CANNOT_ALTER_NAMESPACE), desired, live)
    if only_marks:
        why = Why(ReasonCode.ADOPTED if before.managed_by is None else ReasonCode.MARKS)
    else:
        why = Why(ReasonCode.DIFFERS)
    return change_of(context, Action.UPDATE_NAMESPACE, live.id, before, after, why, desired)
