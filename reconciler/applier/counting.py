"""Is what a plan removes as small a part of its catalog as the plan says?

How many tables pruning may touch is the one count that a plan cannot prove by itself, and too high a number would lift
the limit. So it is counted again where the limit depends on it: first among tables that stay, as many as it takes to
know that there are enough, and only if these are too few in the whole catalog.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from reconciler.applier.live import load_table
from reconciler.backends import optional
from reconciler.backends.base import Backend
from reconciler.model.concurrency import in_parallel
from reconciler.model.desired import Thresholds
from reconciler.model.live import LiveTable
from reconciler.model.names import Identifier
from reconciler.model.ownership import owner_of
from reconciler.planner.facts import CatalogInput
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.plan import CatalogSummary


def with_true_count(
    summary: CatalogSummary,
    limits: Thresholds,
    source: CatalogInput,
    removed: Collection[Identifier],
    backend: Backend,
    parallelism: int,
) -> CatalogSummary:
    """Return ``summary`` with a ``removable_tables`` that is true, or on the same side of the limits as the true one.

    Args:
        summary: what the plan says of a catalog.
        limits: how much may be removed.
        source: how the catalog is planned.
        removed: the tables that the plan deregisters; they count whether they are still there or not.
        backend: the catalog.
        parallelism: how many tables are read at a time.

    Raises:
        BackendError: the catalog could not be read.
    """
    percent, going = limits.max_removal_percent, summary.removed_tables
    if going * 100 <= max(limits.min_tables, going) * percent:
        return summary  # no count at all makes this too much
    context = CatalogContext.of(source)

    def counted(tables: Iterable[LiveTable]) -> int:
        return sum(context.is_removable(table.id, owner_of(table.properties)) for table in tables)

    if percent:
        needed = -(-going * 100 // percent) - going
        asked = islice(_staying(source, context), 2 * needed)
        found = in_parallel(lambda identifier: load_table(backend, identifier), asked, parallelism)
        staying = counted(table for table in found if table is not None)
        if staying >= needed:
            return summary.model_copy(update={"removable_tables": going + staying})
    tables = optional.scan_readable(backend, source.desired.scope).tables.values()
    staying = counted(table for table in tables if table.id not in removed)
    return summary.model_copy(update={"removable_tables": going + staying})


def _staying(source: CatalogInput, context: CatalogContext) -> Iterator[Identifier]:
    """Yield the tables that the manifest wants and that were seen when the plan was made."""
    for identifier, table in source.desired.tables.items():
        if not table.absent and context.select.contains(identifier):
            yield identifier
