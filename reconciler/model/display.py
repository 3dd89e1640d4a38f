"""Make text from outside safe to show: no name or value can forge a line, hide text or colour it.

Invisible characters (controls, bidirectional overrides, unusual spaces, joiners, lone surrogates) are escaped, as in
``\\x1b``, and so are commands for the runner of GitHub Actions. Backslashes in names and values are doubled, so that
escapes are unambiguous; sentences keep theirs (:func:`message`). Text that looks like a renderer's punctuation is
quoted.

Renderers escape names, keys and values, ``reconciler.model.errors`` the texts of errors, and ``reconciler.cli``
everything else that a command prints.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence

ELLIPSIS = "…"

_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Fillers and variation selectors: printable to Python, and invisible.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
# A line that begins with `::`, and `##[` anywhere in one, are commands to the runner of GitHub Actions.
_COMMAND = re.compile(r"##(?=\[)|\A *:(?=:)")
# Characters that JSON may hold, that a terminal or the runner acts on, and that a reviewer cannot see.
_ACTING_IN_JSON = re.compile(
    "#(?=#\\[)|[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]"
)
# Code in backticks counts as a word, unless spaces in it could look like the margin of a line.
_WORDS = re.compile(r"(?:[^\s`]*`(?:(?!  )[^`])+`[^\s`]*|\S+) *")
_QUOTED_IN_NAMES = re.compile(r'[\s"\',/*:]')
_QUOTED_IN_KEYS = re.compile(r"[\s\"']|:$")


def printable(text: str) -> str:
    """Return a name or value on one line, with every character visible and every backslash doubled."""
    return message(text if "\\" not in text else text.replace("\\", "\\\\"))


def message(text: str) -> str:
    """Return a sentence on one line, with every character visible and its backslashes kept."""
    if not text.isprintable() or _BLANK.search(text):
        text = "".join(character if _is_plain(character) else _escape(character) for character in text)
    if text and unicodedata.combining(text[0]):
        text = _escape(text[0]) + text[1:]
    if "::" in text or "##[" in text:
        text = _COMMAND.sub(lambda match: match[0][:-1] + _escape(match[0][-1]), text)
    return text


def _is_plain(character: str) -> bool:
    return character.isprintable() and not _BLANK.match(character)


def _escape(character: str) -> str:
    """Return the escape of a character, such as ``\\x1b``."""
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _quoted(safe: str) -> str:
    return '"' + safe.replace('"', '\\"') + '"'


def name(text: str) -> str:
    """Return one name of an identifier safe to show, quoted if it is empty or holds spaces or punctuation."""
    safe = printable(text)
    return _quoted(safe) if not safe or _QUOTED_IN_NAMES.search(safe) else safe


def address(*names: str) -> str:
    """Return the names of an address safe to show, joined by ``/``."""
    return "/".join(map(name, names))


def json_text(text: str) -> str:
    """Return equivalent JSON in which all characters that act on a terminal or a runner are escaped."""
    if text.isascii() and "\x7f" not in text and "##[" not in text:
        return text
    return _ACTING_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def key(text: str) -> str:
    """Return a property key or column name safe to show, quoted if it is empty or holds spaces or quotes."""
    safe = printable(text)
    return _quoted(safe) if not safe or _QUOTED_IN_KEYS.search(safe) else safe


def value(text: str) -> str:
    """Return a value safe to show, quoted if its ends would be invisible or it looks like part of a plan's line."""
    safe = printable(text)
    if not safe or safe != safe.strip() or safe[0] == '"' or "->" in safe or "(data stays" in safe:
        return _quoted(safe)
    return safe


def width_of(text: str) -> int:
    """Return how many terminal cells ``text`` takes; a wide character takes two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def padded(text: str, width: int) -> str:
    """Return ``text`` with spaces behind it, so that it takes ``width`` cells; unchanged if it takes more."""
    return text + " " * (width - width_of(text))


def shorten(text: str, limit: int) -> str:
    """Return ``text`` in at most ``limit`` cells, shortened in the middle."""
    if width_of(text) <= limit:
        return text
    room = max(limit - 1, 2)
    return _fitting_prefix(text, (room + 1) // 2) + ELLIPSIS + _fitting_prefix(text[::-1], room // 2)[::-1]


def _fitting_prefix(text: str, room: int) -> str:
    """Return the longest start of ``text`` that takes at most ``room`` cells."""
    if text.isascii():
        return text[:room]
    width = 0
    for position, character in enumerate(text):
        width += width_of(character)
        if width > room:
            return text[:position]
    return text


def wrap(text: str, room: int) -> Sequence[str]:
    """Return ``text`` in lines of at most ``room`` cells, broken at spaces where possible, or else after slashes."""
    lines: list[str] = []
    while len(_fitting_prefix(text, room)) < len(text):
        start = _fitting_prefix(text, max(room, 2)) or text[0]
        at = start.rfind(" ", 1) if text[len(start) : len(start) + 1] != " " else len(start)
        if at <= 0:
            slash = start.rfind("/") + 1
            at = slash if slash > len(start) // 2 else len(start)
        start = text[:at]
        lines.append(start)
        text = text[len(start) :].lstrip(" ")
    if text or not lines:
        lines.append(text)
    return lines


def hang(text: str, width: int) -> Sequence[str]:
    """Return ``text`` in lines of at most ``width`` cells, those after the first indented by 4 more than it is.

    A word that takes more stays whole, and so does code in backticks, to be copied.
    """
    content = text.lstrip(" ")
    lines = [text[: len(text) - len(content)]]
    indent = lines[0] + "    "
    for word in _WORDS.findall(content):
        if lines[-1].strip() and width_of(lines[-1] + word.rstrip()) > width:
            lines.append(indent)
        lines[-1] += word
    return [line.rstrip() for line in lines]


def count(number: int, noun: str) -> str:
    """Return number and noun, such as ``1,204 tables``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """Return the hint for an unknown ``word``: the most similar known one, or ``otherwise``.

    ``cutoff`` is the least similarity, from 0 to 1.
    """
    nearest = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"did you mean `{nearest[0]}`?" if nearest else otherwise
