"""Which SQL a client may send: conditions and values over the columns of a table, with functions of a list."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reconciler.model.errors import InvalidInputError

_FUNCTIONS = (
    "abs array_contains array_has array_length arrow_cast bit_length btrim cast ceil char_length character_length "
    "coalesce concat contains date_part date_trunc ends_with extract floor greatest isnan least left length lower "
    "ltrim mod nullif octet_length position power regexp_like regexp_match right round rtrim signum sqrt starts_with "
    "strpos substr substring to_date to_timestamp trim try_cast upper"
)
_LANGUAGE = (
    "and as between binary by case char decimal distinct else fixed_size_binary float from ilike in is like not "
    "numeric on or then time timestamp varchar when"
)
FUNCTIONS = frozenset(_FUNCTIONS.split())
"""None of these makes much of little."""

_BEFORE_PARENTHESES = FUNCTIONS.union(_LANGUAGE.split())

_TOKENS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|[^\W\d]\w*|\d[\w.]*|--|/\*|\S""")
_UNCLEAR = re.compile(r"""--|/\*|[$'"`]|'.*\\'""", re.DOTALL)


def check_expressions(expressions: Iterable[str]) -> None:
    """Return when each is made of what is open to clients.

    Raises:
        InvalidInputError: one calls another function, or is written so that nobody could tell.
    """
    for expression in expressions:
        before, end = "", 0
        for found in _TOKENS.finditer(expression):
            one = found[0]
            if one == "(" and not _may_call(before):
                raise InvalidInputError(f"`{before[:40]}` is not a function that this server evaluates: {_FUNCTIONS}")
            if _UNCLEAR.fullmatch(one) or (one[0] == "'" and end == found.start() and before[-1:].isalnum()):
                raise InvalidInputError(
                    "an expression has no comments, no `$`, quotes in pairs, and no backslash or letter before a quote"
                )
            before, end = one, found.end()


def _may_call(before: str) -> bool:
    """Return whether a parenthesis after ``before`` calls nothing, or a function of the list."""
    if before[:1] in ('"', "`", "'"):
        return False
    return not (before[:1].isalpha() or before[:1] == "_") or before.casefold() in _BEFORE_PARENTHESES
