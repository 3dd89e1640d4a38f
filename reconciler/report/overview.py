"""What the part of the page that is read first says: how far to trust it, and the headline figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from reconciler.auditor import figures
from reconciler.auditor.document import AuditDocument, RunSummary
from reconciler.auditor.records import Severity
from reconciler.model.display import count


def unread(document: AuditDocument) -> str:
    """Return how much could not be read."""
    namespaces = sum(catalog.namespaces_unread for catalog in document.coverage)
    return count(namespaces, "namespace") if namespaces else count(len(document.failures), "part")


def incomplete(document: AuditDocument) -> frozenset[str]:
    """Return the names of the catalogs of which something could not be read."""
    unread = {catalog.name for catalog in document.coverage if catalog.namespaces_unread}
    return frozenset(unread | {failure.catalog for failure in document.failures})


def comparable(document: AuditDocument) -> RunSummary | None:
    """Return the run before this one, where both saw everything."""
    before = next((run for run in reversed(document.history) if run.run_id != document.run_id), None)
    return before if before is not None and before.complete and document.complete else None


@dataclass(frozen=True, slots=True)
class Figure:
    """One number and how it changed; ``since`` is None where there is nothing to compare it with."""

    label: str
    amount: str
    since: str | None
    style: str = ""


def headline(document: AuditDocument) -> Iterator[Figure]:
    """Yield the figures, with how they changed since the last run that can be compared."""
    totals, before = document.totals, comparable(document)
    for name in (severity.value for severity in Severity):
        amount = getattr(totals.findings, name)
        earlier = getattr(before.totals.findings, name) if before else None
        yield _figure(f"{name.capitalize()}s", amount, earlier, figures.number, style=name if amount else "none")
    for label, name, written in (
        ("Tables", "tables", figures.number),
        ("Rows", "rows", figures.number),
        ("Data", "bytes", figures.size),
        ("Fragments", "fragments", figures.number),
        ("On disk", "bytes_on_disk", figures.size),
        ("Reclaimable", "reclaimable", figures.size),
    ):
        amount = getattr(totals, name)
        if amount is not None:
            yield _figure(label, amount, getattr(before.totals, name) if before else None, written)


def _figure(label: str, amount: int, before: int | None, written: Callable[[int], str], *, style: str = "") -> Figure:
    since = None
    if before is not None:
        moved = amount - before
        since = figures.change(moved, written(abs(moved))) if moved else "no change"
    return Figure(label, written(amount), since, style)
