"""Render plans, manifests and reports for ``print`` as text, and for notebooks as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from reconciler.applier.report import MARKS, ApplyReport, ending_of, subject_of, summary_line
from reconciler.manifest import Manifest
from reconciler.model import display
from reconciler.model.display import count
from reconciler.model.rendering import Renderable
from reconciler.output import render
from reconciler.output.templating import in_frame, render_fragment
from reconciler.planner.plan import Plan

_MAX_RESULTS = 100


def render_document(document: Renderable, form: Literal["text", "html"]) -> str:
    """Return a document as ``str`` and notebooks show it; only plans have more text than one line."""
    if isinstance(document, Plan):
        return render(document, "text").rstrip("\n") if form == "text" else in_frame(render(document, "html"), "plan")
    if form == "html" and isinstance(document, Manifest):
        return _manifest_table(document)
    if form == "html" and isinstance(document, ApplyReport):
        return _report_table(document)
    return repr(document)


def _manifest_table(manifest: Manifest) -> str:
    counts = ", ".join(count(number, kind) for kind, number in manifest.counts.items())
    blocks = ((catalog, catalog.desired) for catalog in manifest.catalogs.values())
    rows = [
        (display.name(catalog.name), display.name(catalog.impl), len(block.namespaces), len(block.tables))
        for catalog, block in blocks
    ]
    caption = f"Manifest {display.printable(manifest.name)}: {counts}"
    return _render_table(caption, ("Catalog", "impl", "Namespaces", "Tables"), rows)


def _report_table(report: ApplyReport) -> str:
    listed = sorted(report.results, key=lambda result: result.status.satisfies)[:_MAX_RESULTS]
    rows = [
        (
            f"{MARKS[result.status]} {result.status}",
            display.name(result.change.catalog),
            subject_of(result),
            ending_of(result),
        )
        for result in listed
    ]
    unlisted = len(report.results) - len(listed)
    remark = f"and {unlisted:,} more" if unlisted else ""
    return _render_table(summary_line(report), ("Result", "Catalog", "Object", "Details"), rows, remark)


def _render_table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]], remark: str = "") -> str:
    """Return an HTML table; its texts are printable already, and the template escapes them."""
    return render_fragment(__package__, "table", caption=caption, headings=headings, rows=rows, remark=remark)
