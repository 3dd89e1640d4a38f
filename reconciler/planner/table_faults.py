"""Why a table cannot be planned: what its catalog cannot keep or change, and what its storage holds."""

from __future__ import annotations

from reconciler.model import locations
from reconciler.model.auto_cleanup import unbound
from reconciler.model.columns import Schema
from reconciler.model.desired import DesiredTable, Evolve
from reconciler.model.live import LiveTable, StorageKind
from reconciler.model.names import Identifier
from reconciler.model.reasons import Params, ReasonCode, Why
from reconciler.planner.facts import TableFacts
from reconciler.planner.mending import code_by_service, mending_of
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.schemas import SchemaDifference, compare, named_metadata

_NO_DIFFERENCE = SchemaDifference()


def unkeepable(context: CatalogContext, desired: DesiredTable) -> Why | None:
    """Return why the catalog cannot hold what the block says, None when it can."""
    keeps = context.capabilities.table_markers or not desired.properties
    return None if keeps else Why(ReasonCode.KEEPS_NO_PROPERTIES)


def immovable(context: CatalogContext, live: LiveTable, *, can_move: bool) -> Why | None:
    """Return why an entry stays where it is; None where it can be given another place."""
    if context.capabilities.chooses_locations:
        return Why(ReasonCode.LOCATION_CHOSEN, {"location": locations.redact(live.location)})
    return None if can_move else Why(ReasonCode.CANNOT_RELOCATE)


def unreachable(facts: TableFacts) -> Why:
    """Return the fault of data for which a catalog that chooses every location can have no entry."""
    return Why(ReasonCode.DATA_ELSEWHERE, {"location": _place(facts)})


def storage_fault(desired: DesiredTable, facts: TableFacts, *, vends: bool = False) -> Why | None:
    """Return why nothing can be decided from storage, None when something can.

    ``vends``: its catalog hands out credentials for tables that it has, and it has none of this one yet.
    """
    storage, params = facts.storage, Params(location=_place(facts))
    if facts.problem is not None:
        return Why(ReasonCode.BAD_LOCATION, {**params, "detail": facts.problem})
    if not desired.probe or storage.kind in (StorageKind.DATASET, StorageKind.NOTHING):
        return None
    if storage.kind is StorageKind.NOT_LANCE:
        return Why(ReasonCode.NOT_LANCE, params)
    code = ReasonCode.STORAGE_UNREADABLE
    if storage.kind is StorageKind.DENIED:
        code = ReasonCode.CREDENTIALS_NOT_VENDED if vends else ReasonCode.STORAGE_DENIED
    return Why(code, {**params, "detail": storage.detail})


def existing_fault(
    desired: DesiredTable,
    facts: TableFacts | None,
    difference: SchemaDifference,
    *,
    moved: bool,
    served_as: Identifier | None = None,
) -> Why | None:
    """Return why what storage holds forbids any plan for a live table, None when it does not.

    ``served_as``: its identifier, where the service keeps the versions of its data.
    """
    fault = storage_fault(desired, facts) if facts else None
    if fault:
        return fault
    blocking = difference.blocking(desired.evolve, desired.extra_columns)
    if blocking and facts:
        return other_columns(facts, blocking, difference.extra, None if moved else desired.evolve, served_as)
    if moved and desired.probe and facts is not None and facts.storage.kind is StorageKind.NOTHING:
        return Why(ReasonCode.NO_DATA_TO_RELOCATE_TO, {"location": locations.redact(desired.location or "")})
    if moved and (difference.missing or difference.relaxed):
        return Why(ReasonCode.RELOCATED_AND_ALTERED)
    without_data = desired.schema is not None and facts is not None and facts.storage.kind is StorageKind.NOTHING
    if served_as is not None and not moved and (without_data or difference.missing or difference.relaxed):
        return _written_by_service(served_as, difference)
    reason = unbound(facts.location or "") if facts and (difference.missing or difference.relaxed) else None
    if facts and reason is not None:
        return Why(ReasonCode.UNBOUND_COMMIT, {"location": _place(facts), "detail": reason})
    cleanup = facts.storage.cleanup if facts else None
    # Columns are added in one commit, and may be null after another.
    due = cleanup.due_within(bool(difference.missing) + bool(difference.relaxed)) if cleanup else None
    if facts and cleanup and due is not None:
        return Why(ReasonCode.CLEANUP_DUE, {"location": _place(facts), "detail": cleanup.reason(due)})
    return None


def _written_by_service(table: Identifier, difference: SchemaDifference) -> Why:
    """Return the fault of data whose versions the service of ``table`` keeps, and that is to be given ``difference``.

    Without a difference the data is to be made.
    """
    code = ReasonCode.SERVICE_KEEPS_VERSIONS if difference else ReasonCode.SERVICE_MAKES_DATA
    return Why(code, {"code": code_by_service(table, difference)})


def other_columns(
    facts: TableFacts,
    blocking: SchemaDifference,
    extra: Schema,
    evolve: Evolve | None,
    served_as: Identifier | None = None,
) -> Why:
    """Return the fault of a table whose data has other columns than its block."""
    mending = mending_of(blocking, extra, facts.location or "", evolve, served_as)
    return Why(ReasonCode.OTHER_COLUMNS, {"location": _place(facts), "differences": tuple(blocking.texts()), **mending})


def schema_difference(desired: DesiredTable, facts: TableFacts | None) -> SchemaDifference:
    """Return what separates the data's columns from the block's; nothing where they are not compared."""
    found = found_columns(desired, facts)
    return _NO_DIFFERENCE if found is None or desired.schema is None else compare(desired.schema, found)


def found_columns(desired: DesiredTable, facts: TableFacts | None) -> Schema | None:
    """Return the columns of the data as they are compared; None where they are not."""
    if desired.schema is None or facts is None or facts.storage.schema is None:
        return None
    return named_metadata(facts.storage.schema, desired.schema)


def _place(facts: TableFacts) -> str:
    return locations.redact(facts.location) or "its location"
