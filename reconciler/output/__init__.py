"""Render a plan: one module a format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.planner.entries import Key
    from reconciler.planner.plan import Plan

FORMATS = ("text", "json", "markdown", "html", "junit")
"""The formats: text for people, JSON for ``lancens apply``, Markdown for a forge, HTML for a browser, JUnit for CI."""


def render(
    plan: Plan,
    format: str,  # noqa: A002
    *,
    color: bool = False,
    full: bool = False,
    summary: bool = False,
    width: int | None = None,
    removed: Mapping[Key, str] | None = None,
    complete: Callable[[str], str] | None = None,
) -> str:
    """Return ``plan`` in one of ``FORMATS``, ending with a newline.

    Sensitive values are replaced in every format.

    Args:
        plan: the plan to show.
        format: one of ``FORMATS``.
        color: use ANSI colours (text only).
        full: fold and shorten nothing (text only; the other formats fold what can be unfolded).
        summary: show counts by catalog and a line for each object, without details (text, Markdown and HTML).
        width: terminal cells a line may take, None for no limit (text only).
        removed: notes on the data of tables that the plan deregisters, by key; JSON leaves them out.
        complete: adds the options of this run to a command of a note or a remedy (text only).

    Raises:
        ValueError: ``format`` is unknown.
    """
    match format:
        case "text":
            from reconciler.output.text import render_text

            return render_text(
                plan,
                color=color,
                full=full,
                summary=summary,
                width=width,
                removal_notes=removed or {},
                complete=complete,
            )
        case "json":
            return plan.to_json()
        case "markdown":
            from reconciler.output.markdown import render_markdown

            return render_markdown(plan, summary=summary, removal_notes=removed or {})
        case "html":
            from reconciler.output.html import render_html

            return render_html(plan, summary=summary, removal_notes=removed or {})
        case "junit":
            from reconciler.output.junit import render_junit

            return render_junit(plan)
    raise ValueError(f"format {format!r}: expected one of {', '.join(FORMATS)}")
