"""Render a plan: one module a format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from reconciler.output.look import Look

if TYPE_CHECKING:
    from reconciler.planner.entries import Key
    from reconciler.planner.plan import Plan

__all__ = ["FORMATS", "Look", "render"]


def _text(plan: Plan, look: Look) -> str:
    from reconciler.output.text import render_text

    return render_text(plan, look)


def _json(plan: Plan, _: Look) -> str:
    return plan.to_json()


def _markdown(plan: Plan, look: Look) -> str:
    from reconciler.output.markdown import render_markdown

    return render_markdown(plan, removed=look.removed)


def _html(plan: Plan, look: Look) -> str:
    from reconciler.output.html import render_html

    return render_html(plan, removed=look.removed)


def _junit(plan: Plan, _: Look) -> str:
    from reconciler.output.junit import render_junit

    return render_junit(plan)


FORMATS: Mapping[str, Callable[[Plan, Look], str]] = {
    "text": _text,
    "json": _json,
    "markdown": _markdown,
    "html": _html,
    "junit": _junit,
}
"""The formats: text for people, JSON for ``lancens apply``, Markdown for a forge, HTML for a browser, JUnit for CI."""


def render(
    plan: Plan,
    format: str,  # noqa: A002
    *,
    color: bool = False,
    full: bool = False,
    width: int | None = None,
    removed: Mapping[Key, str] | None = None,
) -> str:
    """Return ``plan`` in one of ``FORMATS``, ending with a newline.

    For the other arguments see :class:`Look`. Sensitive values in it are replaced in every format.

    Raises:
        ValueError: ``format`` is unknown.
    """
    if format not in FORMATS:
        raise ValueError(f"format {format!r}: expected one of {', '.join(FORMATS)}")
    return FORMATS[format](plan, Look(color, full, width, removed or {}))
