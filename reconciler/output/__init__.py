"""Showing a plan: one module a format, all from the same :class:`reconciler.planner.plan.Plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.planner.entries import Key
    from reconciler.planner.plan import Plan

__all__ = ["Format", "render"]

Format: TypeAlias = Literal["text", "json", "markdown", "html"]


def render(
    plan: Plan,
    format: Format,  # noqa: A002
    *,
    color: bool = False,
    full: bool = False,
    width: int | None = None,
    removed: Mapping[Key, str] | None = None,
) -> str:
    """Return ``plan`` in one format, ending with a newline.

    Args:
        plan: what to show; sensitive values in it are replaced in every format.
        format: ``text`` for people, ``json`` for ``lancens apply``, ``markdown`` for a forge, ``html`` for a browser.
        color: use ANSI colours (text only).
        full: fold and shorten nothing (text only; the other formats fold what can be unfolded).
        removed: what to say of the data of tables that are deregistered; it is no part of the plan (not in JSON).
        width: terminal cells a line may take, None for no limit (text only).
    """
    match format:
        case "text":
            from reconciler.output.text import render_text

            return render_text(plan, color=color, full=full, width=width, removed=removed or {})
        case "json":
            from reconciler.output.json import render_json

            return render_json(plan)
        case "markdown":
            from reconciler.output.markdown import render_markdown

            return render_markdown(plan, removed=removed or {})
        case "html":
            from reconciler.output.html import render_html

            return render_html(plan, removed=removed or {})
        case _:
            assert_never(format)
