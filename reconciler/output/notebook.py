"""Render plans, manifests and reports for ``print`` as text, and for notebooks as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from reconciler.applier.report import MARKS, ApplyReport, ChangeResult, ending_of, result_line, subject_of, summary_line
from reconciler.manifest import Manifest
from reconciler.model import display
from reconciler.model.display import count
from reconciler.model.rendering import Renderable
from reconciler.output import render
from reconciler.output.templating import in_frame, render_fragment
from reconciler.planner.plan import Plan

_MAX_RESULTS = 100


def render_document(document: Renderable, form: Literal["text", "html"]) -> str:
    """Return a document as ``str`` and notebooks show it."""
    if isinstance(document, Plan):
        return render(document, "text").rstrip("\n") if form == "text" else in_frame(render(document, "html"), "plan")
    if isinstance(document, Manifest):
        return repr(document) if form == "text" else _manifest_table(document)
    if isinstance(document, ApplyReport):
        return _report_text(document) if form == "text" else _report_table(document)
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


def _listed_results(report: ApplyReport) -> tuple[list[ChangeResult], str]:
    """Return the results to list, those that did not succeed first, and a remark on the others."""
    listed = sorted(report.results, key=lambda result: result.status.satisfies)[:_MAX_RESULTS]
    unlisted = len(report.results) - len(listed)
    return listed, f"and {unlisted:,} more" if unlisted else ""


def _report_text(report: ApplyReport) -> str:
    listed, remark = _listed_results(report)
    return "\n".join([*map(result_line, listed), *filter(None, [remark]), summary_line(report)])


def _report_table(report: ApplyReport) -> str:
    listed, remark = _listed_results(report)
    rows = [
        (
            f"{MARKS[result.status]} {result.status}",
            display.name(result.change.catalog),
            subject_of(result),
            ending_of(result),
        )
        for result in listed
    ]
    return _render_table(summary_line(report), ("Result", "Catalog", "Object", "Details"), rows, remark)


def _render_table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]], remark: str = "") -> str:
    """Return an HTML table; its texts are printable already, and the template escapes them."""
    return render_fragment(__package__, "table", caption=caption, headings=headings, rows=rows, remark=remark)
