"""Carry out a plan: connect, check that nothing has moved, and hand it to the applier."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from reconciler.errors import PlanFileError, StalePlanError
from reconciler.operations.connections import Connection, open_connections
from reconciler.planner.integrity import check_integrity
from reconciler.planner.plan import Change, Plan
from reconciler.planner.safety import check_removals
from reconciler.redaction import is_sensitive_key, redact_value
from reconciler.state import DEFAULT_PARALLELISM, DesiredTable

if TYPE_CHECKING:
    import os

    from reconciler.applier import ApplyReport, Event, StopSignal
    from reconciler.manifest import Manifest

__all__ = ["apply"]


def _ignore(event: Event) -> None:
    """Let an event pass."""


def apply(
    plan: Plan,
    manifest: Manifest,
    *,
    journal: str | os.PathLike[str] = ".lancens",
    allow_mass_removal: bool = False,
    parallelism: int = DEFAULT_PARALLELISM,
    on_event: Callable[[Event], None] = _ignore,
    stop: StopSignal | None = None,
) -> ApplyReport:
    """Carry out ``plan`` on the catalogs of ``manifest``, the one it was made from.

    Args:
        plan: from :func:`reconciler.plan` or a saved one.
        manifest: for the connections; its digest has to be the plan's.
        journal: the folder in which a journal of this run is kept.
        allow_mass_removal: carry out a plan that removes more than its thresholds allow.
        parallelism: how many changes run at once.
        on_event: told of every change as it starts and ends.
        stop: when set, what is in flight is finished and nothing new is started.

    Raises:
        StalePlanError: the manifest, or an object the plan touches, has changed since; nothing was written.
        PlanFileError: a saved plan was edited or cut.
        SafetyError: too much would be removed.
        ApplyError: the journal cannot be written.
        CatalogError: a catalog could not be reached before the first write.
    """
    from reconciler.applier import Journal, check_plan, execute

    if plan.manifest.digest != manifest.digest:
        raise StalePlanError(
            f"the manifest has changed since the plan was made (digest {plan.manifest.digest[:12]} then, "
            f"{manifest.digest[:12]} now). Plan again. Nothing was changed."
        )
    if not allow_mass_removal:
        check_removals(plan)
    check_integrity(plan)
    concerned = {change.catalog for change in plan.changes}
    with open_connections(manifest, concerned, parallelism=parallelism) as connections:
        _check_services(plan, connections)
        whole = with_sensitive_values(plan, manifest)
        backends = {name: connection.backend for name, connection in connections.items()}
        secrets = [secret for connection in connections.values() for secret in connection.spec.secrets]
        check_plan(whole, backends, parallelism=parallelism, secrets=secrets)
        with Journal.open(journal, whole) as opened:
            return execute(
                whole,
                backends,
                parallelism=parallelism,
                journal=opened,
                on_event=on_event,
                stop=stop or threading.Event(),
                secrets=secrets,
            )


def _check_services(plan: Plan, connections: Mapping[str, Connection]) -> None:
    """Refuse a plan whose catalogs, by other variables or another environment, are other services now."""
    for catalog in plan.catalogs:
        connection = connections.get(catalog.name)
        if connection is not None and connection.service != catalog.service:
            raise StalePlanError(
                f"{catalog.name} ({catalog.impl}) now reaches another service or root than the plan was made for: its "
                "`config` has other values. Plan again. Nothing was changed."
            )


def with_sensitive_values(plan: Plan, manifest: Manifest) -> Plan:
    """Return ``plan`` with the sensitive values that a saved plan leaves out, taken from ``manifest`` again.

    Raises:
        StalePlanError: a value is not the one that was planned with.
    """
    return plan.model_copy(update={"changes": tuple(_restored(change, manifest) for change in plan.changes)})


def _restored(change: Change, manifest: Manifest) -> Change:
    after = change.after
    if after is None:
        return change
    desired = manifest.catalogs[change.catalog].desired
    block = (
        desired.tables.get(change.identifier) if change.kind == "table" else desired.namespaces.get(change.identifier)
    )
    wanted_properties = block.properties if block else {}
    if after.properties.keys() != wanted_properties.keys() or any(
        value != wanted_properties[key] for key, value in after.properties.items() if not is_sensitive_key(key)
    ):
        raise PlanFileError(
            f"the plan is damaged: {change.address} would not get what the manifest says. Make the plan again. "
            "Nothing was changed."
        )
    properties = _merge_sensitive(change, after.properties, wanted_properties)
    columns = after.columns
    if columns is not None and isinstance(block, DesiredTable) and block.schema is not None:
        wanted = {field.name: dict(field.metadata) for field in block.schema}
        columns = tuple(
            column.model_copy(update={"metadata": _merge_sensitive(change, column.metadata, wanted[column.name])})
            if column.name in wanted
            else column
            for column in columns
        )
    return change.model_copy(update={"after": after.model_copy(update={"properties": properties, "columns": columns})})


def _merge_sensitive(change: Change, planned: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """Return ``planned`` with the real value of every sensitive key, which has to be the one planned with."""
    merged = dict(planned)
    for key, shown in planned.items():
        if not is_sensitive_key(key):
            continue
        value = wanted.get(key)
        if value is None or shown not in (value, redact_value(key, value)):
            raise StalePlanError(
                f"{change.address}: the value of `{key}` is not the one the plan was made with. Plan again. "
                "Nothing was changed."
            )
        merged[key] = value
    return merged
