"""Is it so that what a mirror takes away has gone from the catalog that it follows?

A plan cannot show that something is not there under any name that would lead to it, nor that there is anything left at
all. So where a plan takes away what a mirror has made, the catalog it follows is read once more.
"""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.model import display
from reconciler.model.display import count
from reconciler.model.errors import StalePlanError
from reconciler.model.live import Snapshot
from reconciler.model.names import Identifier
from reconciler.operations.connections import Connection, read_all
from reconciler.planner.entries import Action
from reconciler.planner.facts import CatalogInput
from reconciler.planner.mirrors import Remaining, Remains, mirrored
from reconciler.planner.plan import Plan


def check_vanished(
    plan: Plan, sources: Mapping[str, CatalogInput], connections: Mapping[str, Connection], parallelism: int
) -> Mapping[str, int]:
    """Return how many tables the mirror finds, for each catalog that loses something that its mirror had made.

    Args:
        plan: what is to be carried out.
        sources: how its catalogs are planned.
        connections: the same catalogs.
        parallelism: how many catalogs are read at a time.

    Raises:
        StalePlanError: what is to be taken away is, or is again, in the catalog that it follows.
        CatalogError: that catalog could not be read.
    """
    vanishing = {name: gone for name, source in sources.items() if (gone := _unmirrored(plan, source))}
    mirrors = {name: mirror for name in vanishing if (mirror := sources[name].desired.mirror) is not None}
    followed = sorted({mirror.origin for mirror in mirrors.values()})
    scans = read_all(
        [connections[name] for name in followed], lambda one: one.backend.scan(one.desired.scope), parallelism
    )
    remains = {name: _remains(plan, name, scan) for name, scan in zip(followed, scans, strict=True)}
    counts: dict[str, int] = {}
    back: list[str] = []
    for name, mirror in mirrors.items():
        source = sources[name]
        found = mirrored(source.desired, mirror, source.capabilities, remains[mirror.origin])
        counts[name] = found.tables
        for table in sorted(vanishing[name] & found.desired.tables.keys()):
            origin = display.address(mirror.origin, *found.origins_of(table)[0])
            back.append(f"  {display.address(name, *table)} mirrors {origin}, which is there")
    if back:
        raise StalePlanError(
            f"The plan is stale: {count(len(back), 'table')} that it deregisters would have to stay.",
            *back,
            "Plan again, or apply the manifest. Nothing was changed.",
        )
    return counts


def _unmirrored(plan: Plan, source: CatalogInput) -> frozenset[Identifier]:
    """Return the tables that go although, or because, a mirror had made them."""
    mirror, own = source.desired.mirror, source.desired.tables
    return frozenset(
        change.identifier
        for change in plan.changes
        if mirror is not None
        and change.catalog == source.desired.name
        and change.action is Action.DEREGISTER_TABLE
        and change.before is not None
        and change.before.mirror == mirror.origin
        and change.identifier not in own
    )


def _remains(plan: Plan, catalog: str, live: Snapshot) -> Remains:
    """Return what there is in a catalog, less what the plan takes away there, and more what it makes."""
    names = set(live.tables)
    for change in plan.changes:
        if change.catalog == catalog and change.kind == "table":
            names -= {change.identifier, change.moved_from or change.identifier}
            names |= {change.identifier} if change.after is not None else set()
    return Remains({name: Remaining(name, None) for name in names})
