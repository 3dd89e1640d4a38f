"""Why a table cannot be planned: what its catalog cannot keep or change, and what its storage holds."""

from __future__ import annotations

from reconciler.model import locations
from reconciler.model.auto_cleanup import UNBOUND_REMEDY, unbound
from reconciler.model.columns import Schema
from reconciler.model.desired import DesiredTable, Evolve, Fault
from reconciler.model.live import LiveTable, StorageKind
from reconciler.model.names import Identifier
from reconciler.model.reasons import ReasonCode
from reconciler.planner.facts import TableFacts
from reconciler.planner.mending import code_by_service, remedy
from reconciler.planner.mirrors import CHOSEN_BY_CATALOG
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.schemas import SchemaDifference, compare, named_metadata

NO_PLACE = Fault(
    ReasonCode.NO_DEFAULT_LOCATION,
    "the catalog has no default location for a new table",
    "write the `location:` of the table in its block",
)
_GIVE = "set what opens it (credentials, region, endpoint) in `storage.*` of the catalog's `config`"
_NO_DIFFERENCE = SchemaDifference()


def unkeepable(context: CatalogContext, desired: DesiredTable) -> Fault | None:
    """Return why the catalog cannot hold what the block says, None when it can."""
    if desired.properties and not context.capabilities.table_markers:
        return Fault(
            ReasonCode.KEEPS_NO_PROPERTIES,
            "this catalog keeps no properties of tables",
            "take `properties` out of its block",
        )
    return None


def unalterable(what: str) -> Fault:
    """Return the fault of an entry that the catalog would have to change; ``what`` completes "it cannot be"."""
    return Fault(
        ReasonCode.CANNOT_ALTER,
        f"it cannot be {what}: this catalog cannot alter a table",
        "deregister it with `absent: true`, apply, and put the block back",
    )


def immovable(context: CatalogContext, live: LiveTable, *, can_move: bool) -> Fault | None:
    """Return why an entry stays where it is; None where it can be given another place."""
    if context.capabilities.chooses_locations:
        return Fault(
            ReasonCode.LOCATION_CHOSEN,
            f"it cannot be relocated: {CHOSEN_BY_CATALOG}; it is at {locations.redact(live.location)}",
            "take `location` out of its block",
        )
    return None if can_move else unalterable("relocated")


def unreachable(facts: TableFacts) -> Fault:
    """Return the fault of data for which a catalog that chooses every location can have no entry."""
    return Fault(
        ReasonCode.LOCATION_CHOSEN,
        f"the data is at {_place(facts)}, and {CHOSEN_BY_CATALOG}",
        "take `location` out of its block, apply, and copy the data to the place that apply tells",
    )


def storage_fault(desired: DesiredTable, facts: TableFacts, *, vends: bool = False) -> Fault | None:
    """Return why nothing can be decided from storage, None when something can.

    ``vends``: its catalog hands out credentials for tables that it has, and it has none of this one yet.
    """
    place = _place(facts)
    if facts.problem is not None:
        return Fault(ReasonCode.BAD_LOCATION, f"{place}: {facts.problem}", "write another `location:` in its block")
    storage = facts.storage
    if not desired.probe or storage.kind in (StorageKind.DATASET, StorageKind.NOTHING):
        return None
    if storage.kind is StorageKind.DENIED:
        vended = (
            "; the catalog hands out credentials for tables that it has, and it has not got this one" if vends else ""
        )
        return Fault(
            ReasonCode.STORAGE_DENIED,
            f"{place} is not accessible ({storage.detail}){vended}",
            "set credentials in `storage.*` of the catalog's `config`, or write `probe: false` in its block",
            "set credentials in `storage.*` of the catalog's `config`, or write `probe: false` in its `defaults`",
        )
    if storage.kind is StorageKind.NOT_LANCE:
        return Fault(
            ReasonCode.NOT_LANCE,
            f"{place} holds files that are not a Lance dataset",
            "write another `location:` in its block, or `probe: false`",
        )
    return Fault(
        ReasonCode.STORAGE_UNREADABLE,
        f"{place} cannot be opened: {storage.detail}",
        f"plan again once it can be opened, {_GIVE}, or write `probe: false` in its block",
        f"plan again once it can be opened, {_GIVE}, or write `probe: false` in the catalog's `defaults`",
    )


def existing_fault(
    desired: DesiredTable,
    facts: TableFacts | None,
    difference: SchemaDifference,
    *,
    moved: bool,
    served_as: Identifier | None = None,
) -> Fault | None:
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
        return Fault(
            ReasonCode.NO_DATA_TO_RELOCATE_TO,
            f"there is no dataset at {locations.redact(desired.location or '')} to relocate it to",
            "write the data there first, take `location` out of its block, or write `probe: false`",
        )
    if moved and (difference.missing or difference.relaxed):
        return Fault(
            ReasonCode.TWO_CHANGES_AT_ONCE,
            "a table cannot be relocated and its columns changed in one plan",
            "relocate it first: give its block the columns that the data has, apply, and change them then",
        )
    without_data = desired.schema is not None and facts is not None and facts.storage.kind is StorageKind.NOTHING
    if served_as is not None and not moved and (without_data or difference.missing or difference.relaxed):
        return _written_by_service(served_as, difference)
    reason = unbound(facts.location or "") if facts and (difference.missing or difference.relaxed) else None
    if facts and reason is not None:
        return Fault(ReasonCode.UNBOUND_COMMIT, f"{_place(facts)}: {reason}", UNBOUND_REMEDY)
    cleanup = facts.storage.cleanup if facts else None
    # Columns are added in one commit, and may be null after another.
    due = cleanup.due_within(bool(difference.missing) + bool(difference.relaxed)) if cleanup else None
    if facts and cleanup and due is not None:
        return Fault(ReasonCode.CLEANUP_DUE, f"{_place(facts)}: {cleanup.reason(due)}", cleanup.remedy)
    return None


def _written_by_service(table: Identifier, difference: SchemaDifference) -> Fault:
    """Return the fault of data whose versions the service of ``table`` keeps, and that is to be given ``difference``.

    Without a difference the data is to be made.
    """
    what = "add its columns" if difference else "make its dataset"
    remedy_there = (
        f"{what} by way of the service, with `namespace = lance_namespace.connect(...)`: "
        f"`{code_by_service(table, difference)}`, and plan again"
    )
    return Fault(
        ReasonCode.SERVICE_KEEPS_VERSIONS,
        "the service keeps the versions of its data itself (`managed_versioning`), and lancens writes to storage: it "
        f"does not {what} behind the service's back",
        remedy_there,
        remedy_there,
    )


def other_columns(
    facts: TableFacts,
    blocking: SchemaDifference,
    extra: Schema,
    evolve: Evolve | None,
    served_as: Identifier | None = None,
) -> Fault:
    """Return the fault of a table whose data has other columns than its block."""
    return Fault(
        ReasonCode.OTHER_COLUMNS,
        f"the data at {_place(facts)} has other columns than its block: {'; '.join(blocking.texts())}",
        remedy(blocking, extra, facts.location or "", evolve, served_as),
    )


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
