"""The possible outcomes of comparing one object, and how to make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from reconciler.model import ownership
from reconciler.model.capabilities import Capabilities
from reconciler.model.clones import CloneBase
from reconciler.model.desired import DesiredNamespace, DesiredTable, Prune
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.names import EVERYTHING, NOTHING, Identifier, Scope, address
from reconciler.model.policies import Policies
from reconciler.model.reasons import NO_PARAMS, NoteCode, Params, ReasonCode, Why
from reconciler.model.redaction import is_hidden
from reconciler.model.secret_forms import REDACTED
from reconciler.planner.entries import Action, Blocked, Change, Kind, Protection, concealed_base
from reconciler.planner.facts import CatalogInput, TableFacts
from reconciler.planner.mirrors import leave_out
from reconciler.planner.moves import NO_MOVES, Moves, moves_of
from reconciler.planner.views import ObjectView, field_changes, view_of


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark about an object, or about ``count`` objects, of which it names one."""

    topic: NoteCode
    identifier: Identifier
    params: Params = field(default_factory=Params)
    count: int = 1

    def with_others(self, other: Remark | None) -> Remark:
        """Return both as one."""
        if other is None:
            return self
        first = self if self.identifier <= other.identifier else other
        return Remark(self.topic, first.identifier, first.params, self.count + other.count)


Outcome: TypeAlias = Change | Protection | Blocked | Remark | None
"""None: the object is as it should be."""


@dataclass(frozen=True, slots=True)
class CatalogContext:
    """What is the same for every object of a catalog.

    ``origin`` is the catalog that it mirrors or clones, if any; ``mirrors`` tells which. ``has_blocks``: whether the
    manifest names a table of it. ``scope`` is the part of it that the manifest manages, ``select`` the part to plan,
    ``recreate_lost`` the part whose lost data is replaced by empty datasets. ``moves`` are its ``moved`` lines;
    ``policies`` are for tables without a block.
    """

    catalog: str
    owner: str
    prune: Prune
    capabilities: Capabilities
    adopt: bool = False
    take_over: bool = False
    origin: str | None = None
    mirrors: bool = False
    has_blocks: bool = False
    scope: Scope = EVERYTHING
    select: Scope = EVERYTHING
    recreate_lost: Scope = NOTHING
    moves: Moves = NO_MOVES
    policies: Policies = field(default_factory=Policies)

    @classmethod
    def of(cls, source: CatalogInput) -> CatalogContext:
        """Return the context of a catalog."""
        desired, options = source.desired, source.options
        return cls(
            catalog=desired.name,
            owner=desired.owner,
            prune=desired.prune,
            capabilities=source.capabilities,
            adopt=options.adopt,
            take_over=options.take_over,
            origin=desired.mirror.origin if desired.mirror else None,
            mirrors=desired.mirror is not None and desired.mirror.clones is None,
            has_blocks=bool(desired.tables),
            scope=desired.scope,
            select=options.select,
            recreate_lost=options.recreate_lost,
            moves=moves_of(desired),
            policies=Policies(desired.policies),
        )

    @property
    def mirror(self) -> str | None:
        """The catalog that it mirrors; None if it mirrors none."""
        return self.origin if self.mirrors else None

    def is_removable(self, table: Identifier, owner: str | None) -> bool:
        """Return whether pruning may remove a live table with this owner mark, were it without a block."""
        if self.prune is Prune.NEVER or not self.capabilities.table_markers or not self.scope.contains(table):
            return False
        return self.prune is Prune.ALL or ownership.is_same_owner(owner, self.owner)

    def why_foreign(self, properties: Mapping[str, str], params: Params = NO_PARAMS) -> Why | None:
        """Return why an object of another manifest is left alone; None if this manifest may change it."""
        owner = ownership.owner_of(properties)
        if owner is None or ownership.is_same_owner(owner, self.owner) or self.take_over:
            return None
        params = {**params, "owner": owner, "manifest": self.owner}
        if ownership.is_same_name(owner, self.owner):
            return Why(ReasonCode.MANIFEST_ID_DIFFERS, {**params, "value": ownership.identity_of(properties) or ""})
        return Why(ReasonCode.FOREIGN_OWNER, params)

    def blocked_as_foreign(
        self, live: LiveNamespace | LiveTable, desired: DesiredNamespace | DesiredTable | None = None
    ) -> Blocked | None:
        """Return the blocked entry of an object of another manifest; None if this manifest may change it."""
        why = self.why_foreign(live.properties, NO_PARAMS if desired is not None else {"key": "prune: owned"})
        return None if why is None else self.blocked_entry(why, desired, live)

    def blocked_entry(
        self,
        why: Why,
        desired: DesiredNamespace | DesiredTable | None,
        live: LiveNamespace | LiveTable | None,
        facts: TableFacts | None = None,
    ) -> Blocked:
        """Return the entry of a blocked object, with the states it was decided by."""
        subject = desired or live
        if subject is None:
            raise ValueError("a blocked object needs a block or an entry")
        params = why.params
        if isinstance(desired, DesiredTable) and desired.mirrors is not None and why is not desired.refused:
            params = {**params, "leave_out": leave_out(desired.id), "catalog": self.catalog}
        storage, base = (facts.storage, facts.base) if facts else (None, None)
        before = self.view(desired, live)
        location = facts.location if facts else live.location if isinstance(live, LiveTable) else None
        return Blocked(
            catalog=self.catalog,
            kind="table" if isinstance(subject, DesiredTable | LiveTable) else "namespace",
            identifier=subject.id,
            code=why.code,
            params=params,
            source=desired.source if desired else None,
            before=before,
            location=location,
            storage=storage.kind if storage else None,
            columns=storage.schema if storage else None,
            detail=storage.detail if storage else "",
            cleanup=storage.cleanup if storage else None,
            tags=facts.tags if facts else None,
            clone=concealed_base(base, address(self.catalog, subject.id)) if isinstance(base, CloneBase) else None,
            kept_as=why.kept_as,
            secret_keys=_secret_keys(desired, before),
        )

    def blocked_by_name(self, holder: str, desired: DesiredTable, facts: TableFacts | None = None) -> Blocked:
        """Return the blocked entry of a table whose name an object of another kind has.

        ``holder`` describes that object.
        """
        why = Why(ReasonCode.NAME_HELD, {"detail": holder})
        return self.blocked_entry(why, desired, None, facts).model_copy(update={"held_by": holder})

    def view(
        self, desired: DesiredNamespace | DesiredTable | None, live: LiveNamespace | LiveTable | None
    ) -> ObjectView | None:
        """Return the view of a live object by which it is compared; None without an object."""
        if live is None:
            return None
        managed = {*(desired.properties if desired else ()), *ownership.recorded_keys(live.properties)}
        return view_of(live, managed, self.capabilities.safeguard)

    def safeguards(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return safe values for ``before``, an ``ObjectView.safeguards``."""
        safeguard = self.capabilities.safeguard
        return {} if safeguard is None else safeguard.applied_to(before)

    def marks(self, desired: DesiredNamespace | DesiredTable, live: Mapping[str, str], kept: bool) -> ObjectView:
        """Return the marks and properties that ``desired`` asks for.

        Args:
            desired: the block.
            live: the properties of the entry.
            kept: whether the catalog keeps marks; if not, only properties are returned.

        A mark of this manifest without its id counts as right: only another change adds the id. Values that the service
        hides in ``live`` count as equal, since nobody can compare them.
        """
        properties = {
            key: REDACTED if is_hidden(key, value, live) else value for key, value in desired.properties.items()
        }
        if not kept:
            return ObjectView(properties=properties)
        protect = ownership.is_protected(live) if desired.protect is None else desired.protect
        owner = ownership.owner_of(live)
        return ObjectView(
            managed_by=owner if ownership.is_same_owner(owner, self.owner) else self.owner,
            protect=protect,
            keys=tuple(sorted(desired.properties)),
            secret_keys=tuple(sorted(desired.secret_keys)),
            data=isinstance(desired, DesiredTable) and ownership.has_data(live),
            mirror=desired.mirror if isinstance(desired, DesiredTable) else None,
            clone=ownership.clone_of(live) if isinstance(desired, DesiredTable) else None,
            properties=properties,
        )

    def with_id(self, view: ObjectView | None, kind: Kind) -> ObjectView | None:
        """Return ``view`` with the id of this manifest in its marks, as a change writes them."""
        able = self.capabilities
        if view is None or not (able.alter_table if kind == "table" else able.alter_namespace):
            return view
        marks = {"managed_by": view.managed_by, "policy": view.policy}
        without_id = [
            key for key, mark in marks.items() if mark != self.owner and ownership.is_same_owner(mark, self.owner)
        ]
        return view.model_copy(update=dict.fromkeys(without_id, self.owner)) if without_id else view


def change_of(
    context: CatalogContext,
    action: Action,
    identifier: Identifier,
    before: ObjectView | None,
    after: ObjectView | None,
    why: Why,
    desired: DesiredNamespace | DesiredTable | None = None,
    facts: TableFacts | None = None,
    *,
    probe: bool = True,
) -> Change:
    """Return the change from ``before`` to ``after``, with the fields that differ."""
    secret_keys, after = _secret_keys(desired, before), context.with_id(after, action.kind)
    why = _why_mirrored(desired, action) or why
    return Change(
        catalog=context.catalog,
        kind=action.kind,
        identifier=identifier,
        action=action,
        before=before,
        after=after,
        fields=field_changes(before, after, address(context.catalog, identifier), secret_keys),
        code=why.code,
        params=why.params,
        source=desired.source if desired else None,
        mirror_of=desired.follows if isinstance(desired, DesiredTable) else None,
        probe=probe,
        storage=facts.storage.kind if facts else None,
        dataset=facts.storage.version if facts else None,
        tags=facts.tags if facts else None,
        secret_keys=secret_keys,
    )


def _secret_keys(desired: DesiredNamespace | DesiredTable | None, before: ObjectView | None) -> tuple[str, ...]:
    """Return the property keys whose values are secret, in the block or as recorded."""
    return tuple(sorted({*(desired.secret_keys if desired else ()), *(before.secret_keys if before else ())}))


def _why_mirrored(desired: DesiredNamespace | DesiredTable | None, action: Action) -> Why | None:
    """Return the reason for registering a mirrored table; None for any other change."""
    origin = desired.mirrors if isinstance(desired, DesiredTable) and desired.clones is None else None
    if desired is None or origin is None or action not in (Action.REGISTER_TABLE, Action.DECLARE_TABLE):
        return None
    is_same = desired.id[-len(origin.identifier) :] == origin.identifier
    shown = origin.catalog if is_same else address(origin.catalog, origin.identifier)
    return Why(ReasonCode.MIRRORED, {"mirror": shown})


def diff_unwanted(
    context: CatalogContext,
    desired: DesiredNamespace | DesiredTable | None,
    live: LiveNamespace | LiveTable,
    renamed_to: DesiredNamespace | None = None,
) -> Outcome:
    """Return the outcome for a live object whose block is ``absent`` or missing.

    ``renamed_to`` is the block of a namespace under its new name.
    """
    if desired is not None:
        return context.blocked_as_foreign(live, desired) or _removal(context, live, Why(ReasonCode.ABSENT), desired)
    is_table, owner = isinstance(live, LiveTable), ownership.owner_of(live.properties)
    able = context.capabilities
    if not (able.table_markers if is_table else able.namespace_markers):
        return None  # without marks, its owner is unknown
    if not ownership.is_same_owner(owner, context.owner):
        if context.prune is Prune.ALL or (
            context.prune is Prune.OWNED and ownership.is_same_name(owner, context.owner)
        ):
            return context.blocked_as_foreign(live) or _removal(context, live, Why(ReasonCode.NOT_IN_MANIFEST))
        is_unmanaged = is_table and owner is None and context.prune is Prune.OWNED
        return Remark(NoteCode.UNMANAGED, live.id) if is_unmanaged else None
    if renamed_to is not None:
        lifted = renamed_to if renamed_to.protect is False else None
        return _removal(context, live, Why(ReasonCode.MOVED_AWAY, {"name": "/".join(renamed_to.id)}), lifted)
    if context.prune is Prune.NEVER:
        return None
    mirror, clone = ownership.mirror_of(live.properties), ownership.clone_of(live.properties)
    if is_table and ownership.is_cloned_from(clone, context.origin):
        params = Params(name=ownership.origin_of_clone(clone))
        return _removal(context, live, Why(ReasonCode.CLONE_ENDED, params))
    if mirror is None or not is_table:
        return _removal(context, live, Why(ReasonCode.NO_LONGER_IN_MANIFEST))
    if mirror != context.mirror:
        return Remark(NoteCode.MIRRORED_BEFORE, live.id, {"mirror": mirror})
    return _removal(context, live, Why(ReasonCode.MIRROR_ENDED, {"mirror": mirror}))


def _removal(
    context: CatalogContext,
    live: LiveNamespace | LiveTable,
    why: Why,
    desired: DesiredNamespace | DesiredTable | None = None,
) -> Change | Protection:
    """Return the change that removes ``live``, or the guard of a protected object."""
    action = Action.DEREGISTER_TABLE if isinstance(live, LiveTable) else Action.DROP_NAMESPACE
    if not ownership.is_protected(live.properties) or (desired and desired.protect is False):
        return change_of(context, action, live.id, context.view(None, live), None, why, desired)
    return Protection(
        catalog=context.catalog,
        kind=action.kind,
        identifier=live.id,
        would=action,
        code=why.code,
        params=why.params,
        source=desired.source if desired else None,
    )


def note_on_fixed_marks(before: ObjectView, after: ObjectView) -> NoteCode:
    """Return the note on an object whose wrong marks the catalog cannot change."""
    if after.protect and not before.protect:
        return NoteCode.UNPROTECTABLE
    if before.protect and not after.protect:
        return NoteCode.STAYS_PROTECTED
    return NoteCode.UNMARKABLE if before.managed_by is None else NoteCode.STAYS_MARKED
