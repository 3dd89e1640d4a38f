"""Write foreign text into GitHub-flavoured Markdown.

Names and values come from people who may open a pull request, so none of them is trusted. They stand in code, where
Markdown, HTML, mentions and references mean nothing, or in sentences with all punctuation encoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_BACKTICKS = re.compile("`+")
_ENCODED = re.compile(r"[!-/:-@\[-`{-~]")
_READABLE = frozenset("(),;'.:-/")
_IN_BACKTICKS = re.compile("(`[^`]+`)")
# GitHub decodes entities before it looks for mentions and references; a word joiner inside prevents both.
_REFERENCE = re.compile(r"([@#]|\bGH-|\bwww\.|:(?=[/\w]))", re.IGNORECASE)
_WORD_JOINER = "&#8288;"


def code(text: str) -> str:
    """Return visible ``text`` as a code span."""
    fence = "`" * (max((len(run) for run in _BACKTICKS.findall(text)), default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") or text != text.strip() else ""
    return f"{fence}{space}{text}{space}{fence}"


def cell(markdown: str) -> str:
    """Return Markdown escaped for a table cell."""
    return str(markdown).replace("|", "\\|")


def sentence(text: str) -> str:
    """Return visible ``text`` as prose; text in backticks stays code."""
    parts = _IN_BACKTICKS.split(text)
    return "".join(code(part[1:-1]) if index % 2 else prose(part) for index, part in enumerate(parts))


def prose(text: str) -> str:
    """Return visible ``text`` with all punctuation encoded that Markdown interprets."""
    parts = _REFERENCE.split(text)
    return _WORD_JOINER.join(
        _ENCODED.sub(lambda match: match[0] if match[0] in _READABLE else f"&#{ord(match[0])};", part) for part in parts
    )


def fenced(lines: Iterable[str], language: str = "") -> str:
    """Return visible ``lines`` as a block of code."""
    text = "\n".join(lines)
    fence = "`" * max(3, *(len(run) + 1 for run in _BACKTICKS.findall(text)), 3)
    return f"{fence}{language}\n{text}\n{fence}\n"


def length_of(text: str) -> int:
    """Return the length as GitHub may count it: in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
