"""What every page of lancens has in common: its frame, its policy and its look.

A page is one file that asks for nothing from anywhere. A content security policy forbids every request and every
script and style but those of this package, so that a name that looks like markup stays a name.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from html import escape
from importlib import resources

from reconciler import display

__all__ = ["asset", "render_page", "sentence"]

_IN_BACKTICKS = re.compile("`([^`]+)`")
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect width='16' height='16' rx='4' fill='%232a6f5e'/%3E"
    "%3Cpath d='M8 3v10M3 8h10' stroke='white' stroke-width='2'/%3E%3C/svg%3E"
)


def asset(package: str, name: str) -> str:
    """Return the text of the file ``name`` that is shipped in ``package``."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def render_page(title: str, body: Iterable[str], *, style: str, script: str) -> str:
    """Return a page, ready to be written as UTF-8.

    Args:
        title: its title, as plain text.
        body: the lines of its body, as markup.
        style: what it adds to the look that all pages share.
        script: what it runs at the end of its body.
    """
    return "".join(f"{line}\n" for line in _lines(title, body, asset(__package__, "page.css") + style, script))


def _lines(title: str, body: Iterable[str], style: str, script: str) -> Iterator[str]:
    policy = (
        f"default-src 'none'; style-src {_source_hash(style)}; script-src {_source_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    yield "<!doctype html>"
    yield '<html lang="en">'
    yield "<head>"
    yield '<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f'<link rel="icon" href="{_ICON}">'
    yield f"<title>{escape(title)}</title>"
    yield f"<style>{style}</style>"
    yield "</head>"
    yield "<body>"
    yield from body
    yield f"<script>{script}</script>"
    yield "</body>"
    yield "</html>"


def _source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def sentence(text: str) -> str:
    """Return foreign prose as markup in which what stands in backticks is code."""
    parts = _IN_BACKTICKS.split(escape(display.printable(text)))
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
