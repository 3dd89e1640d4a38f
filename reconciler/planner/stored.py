"""What the data at a table's location means for its plan: its columns, and why it blocks."""

from __future__ import annotations

from dataclasses import replace

from reconciler.model import locations, ownership
from reconciler.model.auto_cleanup import AutoCleanup, why_unbound
from reconciler.model.columns import Schema
from reconciler.model.desired import DesiredTable, Evolve
from reconciler.model.live import LiveTable, StorageKind
from reconciler.model.names import Identifier, address
from reconciler.model.reasons import Params, ReasonCode, Why
from reconciler.planner.facts import TableFacts
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.schema_calls import code_by_service, schema_remedy
from reconciler.planner.schemas import SchemaDifference, compare, named_metadata

_NO_DIFFERENCE = SchemaDifference()


def why_unregistrable(context: CatalogContext, desired: DesiredTable, facts: TableFacts) -> Why | None:
    """Return why existing data cannot be registered; None if it can."""
    if facts.storage.kind is not StorageKind.DATASET:
        return None
    if context.capabilities.chooses_locations:
        return Why(ReasonCode.DATA_ELSEWHERE, {"location": _shown_location(facts)})
    difference = schema_difference(desired, facts)
    blocking = difference.blocking(Evolve.NEVER, desired.extra_columns)
    return _why_other_columns(facts, blocking, difference.extra, None) if blocking else None


def blocked_by_storage(desired: DesiredTable, facts: TableFacts, *, vends: bool = False) -> Why | None:
    """Return why storage blocks any plan for a table; None if it does not.

    ``vends``: the catalog hands out credentials for existing tables, and this one does not exist yet.
    """
    storage, is_read = facts.storage, facts.storage.kind in (StorageKind.DATASET, StorageKind.NOTHING)
    if facts.problem is None and (is_read or not desired.probe):
        return None
    params = Params(location=_shown_location(facts))
    if facts.problem is not None:
        return Why(ReasonCode.BAD_LOCATION, {**params, "detail": facts.problem})
    if storage.kind is StorageKind.NOT_LANCE:
        return Why(ReasonCode.NOT_LANCE, params)
    code = ReasonCode.STORAGE_UNREADABLE
    if storage.kind is StorageKind.DENIED:
        code = ReasonCode.CREDENTIALS_NOT_VENDED if vends else ReasonCode.STORAGE_DENIED
    return Why(code, {**params, "detail": storage.detail})


def lacks_data(desired: DesiredTable, facts: TableFacts | None) -> bool:
    """Return whether a table with a schema has no data."""
    return desired.schema is not None and facts is not None and facts.storage.kind is StorageKind.NOTHING


def why_data_lost(
    context: CatalogContext, desired: DesiredTable, live: LiveTable, facts: TableFacts | None
) -> Why | None:
    """Return why a table without data is blocked: it had some, and nobody asked for an empty dataset.

    A clone is never given one: its mark would go on saying what it is a clone of.
    """
    if facts is None or facts.storage.kind is not StorageKind.NOTHING or not ownership.has_data(live.properties):
        return None
    params = Params(location=_shown_location(facts))
    if desired.clones is not None:
        params["other"] = address(desired.clones.origin.catalog, desired.clones.origin.identifier)
    elif desired.schema is not None:
        if context.recreate_lost.contains(desired.id):
            return None
        params["name"] = address(context.catalog, desired.id)
    return Why(ReasonCode.DATA_LOST, params)


def blocked_by_data(
    desired: DesiredTable,
    live: LiveTable | None,
    facts: TableFacts | None,
    difference: SchemaDifference,
    *,
    relocates: bool,
) -> Why | None:
    """Return why storage blocks any plan for a live table, or a new one with data; None if it does not."""
    if facts is None:
        return None
    blocking_reason = blocked_by_storage(desired, facts)
    if blocking_reason:
        return blocking_reason
    served_as = live.id if live is not None and live.managed_versioning else None
    blocking = difference.blocking(desired.evolve, desired.extra_columns)
    if blocking:
        return _why_other_columns(facts, blocking, difference.extra, None if relocates else desired.evolve, served_as)
    if relocates and desired.probe and facts.storage.kind is StorageKind.NOTHING and facts.base is None:
        return Why(ReasonCode.NO_DATA_TO_RELOCATE_TO, {"location": locations.redact(desired.location or "")})
    if relocates and difference.grows:
        return Why(ReasonCode.RELOCATED_AND_ALTERED)
    if served_as is not None and not relocates and (lacks_data(desired, facts) or difference.grows):
        code = ReasonCode.SERVICE_KEEPS_VERSIONS if difference else ReasonCode.SERVICE_MAKES_DATA
        return Why(code, {"code": code_by_service(served_as, replace(difference, extra=()))})
    if not difference.grows:
        return None
    if facts.storage.detail:
        return Why(ReasonCode.CANNOT_COMMIT, {"location": _shown_location(facts), "detail": facts.storage.detail})
    return blocked_commits(facts.location or "", facts.storage.cleanup, difference.commits)


def blocked_commits(location: str, cleanup: AutoCleanup | None, commits: int) -> Why | None:
    """Return why lancens does not make the next ``commits`` commits to a dataset; None if it does."""
    reason, code = why_unbound(location), ReasonCode.UNBOUND_COMMIT
    if reason is None and cleanup is not None:
        reason, code = cleanup.reason(commits), ReasonCode.CLEANUP_DUE
    return None if reason is None else Why(code, {"location": locations.redact(location), "detail": reason})


def _why_other_columns(
    facts: TableFacts,
    blocking: SchemaDifference,
    extra: Schema,
    evolve: Evolve | None,
    served_as: Identifier | None = None,
) -> Why:
    remedy = schema_remedy(blocking, extra, facts.location or "", evolve, served_as)
    return Why(
        ReasonCode.OTHER_COLUMNS, {"location": _shown_location(facts), "differences": tuple(blocking.texts()), **remedy}
    )


def schema_difference(desired: DesiredTable, facts: TableFacts | None) -> SchemaDifference:
    """Return how the block's and the data's columns differ, if they are compared."""
    columns = compared_columns(desired, facts)
    return _NO_DIFFERENCE if columns is None or desired.schema is None else compare(desired.schema, columns)


def compared_columns(desired: DesiredTable, facts: TableFacts | None) -> Schema | None:
    """Return the data's columns as they are compared; None if they are not."""
    if desired.schema is None or facts is None or facts.storage.schema is None:
        return None
    return named_metadata(facts.storage.schema, desired.schema)


def _shown_location(facts: TableFacts) -> str:
    return locations.redact(facts.location) or "its location"
