"""Explain syntax errors of YAML by the text around them: libyaml names where it gave up, not what to mend."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import yaml

from reconciler.model.display import shorten

TEMPLATE = "`{{ … }}` belongs to another tool; write `${var:name}`"
STATEMENT = "`{% … %}` belongs to another tool; lancens has no conditions and no loops, so render the template first"

_MARK = "\0"
"""Stands in a line before the character at which libyaml gave up."""

# What a flow block cannot hold unquoted: a value with a placeholder, and a type with brackets.
_PLACED = r"(?<![\w\"'])[^\s,{}\[\]\"']*\$\{[^}]*\}?[^\s,}\]]*"
_TYPE = r"(?<=type: )\w+(?:<[^\"]{,99}>)?\[[^\]\"]{,99}\]|(?<=type: )\w+<[^\"}]{,99}: [^\"}]{,99}>"
_UNQUOTED = f"{_PLACED}|{_TYPE}"
_ESCAPE = "a backslash in double quotes begins an escape; write it twice, or use single quotes"
_OTHER_BLANK = re.compile(r" *([^\S \t])")
_ANYWHERE = {
    re.compile(r"^(?:(?:<{7}|\|{7}|>{7})(?: |\r?$)|={7}\r?$)", re.MULTILINE): (
        "a merge conflict of git; keep one side, and delete the lines `<<<<<<<`, `=======` and `>>>>>>>`"
    ),
    re.compile(r"^[ \t]*\{%", re.MULTILINE): STATEMENT,
    re.compile(r"\A\s*(?://|/\*)"): "`//` and `/*` begin no comment of YAML, which begins with `#`",
    re.compile(r'\A\{".*\}\r?\n\{"'): "lines of JSON, such as a journal, which `lancens show FILE` takes",
}
"""What a line anywhere in the text means."""
_IN_LINE = {
    re.compile(r"\{\{"): f"{TEMPLATE}, in double quotes",
    re.compile(rf"\{{.*?({_UNQUOTED})"): r'`\1` inside `{…}` must be quoted: "\1"',
    re.compile(rf"{_MARK}\t|^{_MARK}?\t"): "a tab; YAML indents with spaces",
    re.compile(r"[^\S \t\r]"): "a blank that is no space ({code}); YAML has spaces only",
    re.compile(rf"([}}\]])[ ,;]*{_MARK}[,;]?[^}}\],;]*$"): r"text after `\1`, which ends the value; delete it",
    re.compile(rf"{_MARK}\\"): _ESCAPE,
    re.compile(rf"\\[xuU][0-9a-fA-F]{{,7}}{_MARK}"): _ESCAPE,
    re.compile(rf"{_MARK}([}}\]])"): r"`\1` closes nothing",
    re.compile(rf"[\"']\s*{_MARK}"): (
        "text after a closing quote; quote the whole value, or close the quote that is open above"
    ),
}
"""What the line at which libyaml gave up means; the first that matches explains it."""
_LANGUAGES = {
    re.compile(r"(?:resource|variable|module|provider|terraform|locals|data|output)\b[^{:]*\{"): "Terraform",
    re.compile(r"(?:create|alter|drop|select|insert|use)\s", re.IGNORECASE): "SQL",
    re.compile(r"(?:import|from|def|class)\s"): "Python",
    re.compile(r"\[{1,2}[\w.\"-]+\]{1,2}\s*$"): "TOML or INI",
    re.compile(r"(?:export\s+)?[A-Z][A-Z0-9_]*="): "a file of environment variables",
}
_NO_VALUE = re.compile(r"[{,]\s*([\w.-]+):(?=[,}\]])")
_KEY = re.compile(r"(?:^|[\s{,\"'])[^\s:]+:(?:\s|$)")
_TWO_WORDS = re.compile(r"([\w.-]+)(?:\s*=\s*|\s+|:)(\S.*)")
_SETTING = re.compile(r"([\w.-]+)\s*=(?!=)\s*[\"']?([^\"'\s]{,60})")
_RESERVED = frozenset("*&%@`!")
_CLOSING = {"{": "}", "[": "]"}
_LONGEST_EXCERPT = 60


class SyntaxFault(NamedTuple):
    """What is wrong in a YAML text, and where; ``line`` and ``column`` count from 1."""

    line: int
    column: int
    message: str


def explain(error: yaml.MarkedYAMLError, text: str) -> SyntaxFault:
    """Return the cause of a syntax error in ``text``: as libyaml says it where no common cause fits."""
    for form, message in _ANYWHERE.items():
        if (match := form.search(text)) is not None:
            return SyntaxFault(text.count("\n", 0, match.start()) + 1, 1, message)
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines, 1) if _is_content(line)), 1)
    if (language := _language(_line_at(lines, first))) is not None:
        return SyntaxFault(first, 1, language)
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    began = error.context_mark
    start = (began.line + 1, began.column + 1) if began else None
    is_reserved = start is not None and _line_at(lines, start[0])[start[1] - 1 : start[1]] in _RESERVED
    if start is not None and (closes := _closes_another(lines, start, (line, column))) is not None:
        return closes
    cause = None if is_reserved else _cause_in_line(_line_at(lines, line), column)
    if cause is not None:
        return SyntaxFault(line, column, cause)
    fault = (start and _cause_from_start(lines, start, (line, column))) or _lost_colon(lines, line, column)
    context = f" {error.context}" if error.context else ""
    return fault or SyntaxFault(line, column, f"not valid YAML:{context} {error.problem or ''}".rstrip())


def without_keys(text: str) -> str | None:
    """Return what to write for text that is no block of keys, where it looks like keys of another language."""
    setting = _SETTING.match(text)
    return _language(text) or (setting and f"write `{setting[1]}: {setting[2]}`")


def _language(text: str) -> str | None:
    """Return that ``text`` begins in another language; None if it may be YAML."""
    language = next((name for form, name in _LANGUAGES.items() if form.match(text)), None)
    return language and f"this is {language}, not the YAML that lancens reads"


def _cause_in_line(line: str, column: int) -> str | None:
    """Return why ``line`` cannot be read at ``column``, where the line alone shows it."""
    marked = f"{line[: column - 1]}{_MARK}{line[column - 1 :]}"
    for form, message in _IN_LINE.items():
        if (match := form.search(marked if _MARK in form.pattern else line)) is not None:
            return match.expand(message).replace("{code}", f"U+{ord(match[0][-1:] or ' '):04X}")
    return None


def _cause_from_start(lines: Sequence[str], start: tuple[int, int], end: tuple[int, int]) -> SyntaxFault | None:
    """Return what is wrong with the block, quote or value that begins at ``start`` and breaks at ``end``."""
    line = _line_at(lines, start[0])
    at = line[start[1] - 1 : start[1]]
    if at in _RESERVED:
        value = re.split(r"[\s,\]}]", line[start[1] - 1 :], maxsplit=1)[0].rstrip(":")
        if re.match(r"%\w+%", value):
            return SyntaxFault(*start, f'`{_excerpt(value)}` is not replaced; write "${{env:NAME}}", in double quotes')
        return SyntaxFault(*start, f'a value that begins with {at} must be quoted: "{_excerpt(value)}"')
    if at in ("'", '"'):
        return SyntaxFault(*start, f"the quote `{at}` is not closed")
    if at in _CLOSING:
        closing = _CLOSING[at]
        if start[0] == end[0]:
            return SyntaxFault(*end, f"expected `,` or `{closing}` before this")
        return SyntaxFault(*start, f"`{at}` is not closed; a `,` or `{closing}` is missing before line {end[0]}")
    broken = _line_at(lines, end[0])
    if (fault := _without_colon(lines, start[0])) is not None:
        return fault
    blank = next((number for number in range(start[0], end[0]) if _OTHER_BLANK.match(_line_at(lines, number))), None)
    if blank is not None:
        return SyntaxFault(blank, 1, _cause_in_line(_line_at(lines, blank), 1) or "")
    begins_line = start[0] < end[0] and broken.strip() and not broken[: end[1] - 1].strip()
    return SyntaxFault(*end, _misplaced(at, broken[end[1] - 1])) if begins_line else None


def _closes_another(lines: Sequence[str], start: tuple[int, int], end: tuple[int, int]) -> SyntaxFault | None:
    """Return that what opens at ``start`` is open where another bracket closes at ``end``; None if it is not."""
    opening, closing = (_line_at(lines, line)[column - 1 : column] for line, column in (start, end))
    if opening not in _CLOSING or closing not in _CLOSING.values() or closing == _CLOSING[opening]:
        return None
    at = f"{end[0]}:{end[1]}"
    return SyntaxFault(
        *start, f"`{opening}` is not closed; a `{_CLOSING[opening]}` is missing before the `{closing}` at {at}"
    )


def _misplaced(first: str, broken: str) -> str:
    """Return why a line that begins with ``broken`` is not part of the block that begins with ``first``."""
    if broken == "-":
        return "a list item where a key is expected; indent the list below its key"
    if first == "-":
        return "a key where a list item is expected; the items of a list begin with `- ` in one column"
    return "the indentation fits no line above; the keys of a block begin in one column"


def _lost_colon(lines: Sequence[str], number: int, column: int) -> SyntaxFault | None:
    """Return why a colon cannot be at ``column`` of line ``number``: mostly, the line before lacks one."""
    line = _line_at(lines, number)
    if line[column - 1 : column] != ":":
        return None
    if (empty := next((each for each in _NO_VALUE.finditer(line) if each.end() == column), None)) is not None:
        return SyntaxFault(number, column, f"`{empty[1]}` has no value; write one, or leave the key out")
    if (key := _KEY.search(line[: column - 1])) is not None:
        value = line[key.end() :].strip()
        return SyntaxFault(number, column, f'a second colon in one line; quote the value: "{_excerpt(value)}"')
    before = next((each for each in range(number - 1, 0, -1) if _is_content(_line_at(lines, each))), None)
    if before is None:
        return None
    if (cause := _cause_in_line(_line_at(lines, before), 1)) is not None:
        return SyntaxFault(before, 1, cause)
    indent = len(line) - len(line.lstrip())
    return _without_colon(lines, before) or SyntaxFault(
        number, indent + 1, f"indented as part of line {before}, which has a value already"
    )


def _without_colon(lines: Sequence[str], number: int) -> SyntaxFault | None:
    """Return the error of a line that has no key; None for a line with one."""
    line = _line_at(lines, number)
    text = line.partition(" #")[0].strip()
    if not text or _KEY.search(line) or (text.startswith("-") and not text.startswith("--")):
        return None
    if text.startswith(("//", "--", "/*")):
        return SyntaxFault(number, 1, f"`{_excerpt(text)}` is no comment of YAML, which begins with `#`")
    words = _TWO_WORDS.fullmatch(text)
    expected = f"`{words[1]}: {_excerpt(words[2])}`" if words else f"`{_excerpt(text)}:`"
    lacks = "space after its colon" if words and f"{words[1]}:{words[2]}" == text else "colon"
    column = len(line) - len(line.lstrip()) + 1
    return SyntaxFault(number, column, f"`{_excerpt(text)}` has no {lacks}; expected {expected}")


def _is_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _line_at(lines: Sequence[str], number: int) -> str:
    return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""


def _excerpt(text: str) -> str:
    return shorten(text, _LONGEST_EXCERPT)
