"""Pages of sorted names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from lance_namespace.errors import InvalidInputError


class Page(NamedTuple):
    """A slice of sorted names and the token of the next one."""

    names: list[str]
    token: str | None


def _all(names: Sequence[str]) -> Sequence[str]:
    return names


def page_of(
    names: Iterable[str], token: str | None, limit: int | None, chosen: Callable[[Sequence[str]], Sequence[str]] = _all
) -> Page:
    """Return the names after ``token`` in order, at most ``limit`` of them.

    The token is the last name of the page before, so that pages stay complete while names come and go.

    Args:
        names: in any order.
        token: that of the page before, None for the first.
        limit: None for no limit.
        chosen: returns those of some names that count, in their order. It is asked about as many as the page can take
            and one more, which tells whether another page follows, and about the next ones where too few count.

    Raises:
        InvalidInputError: ``limit`` is not positive.
    """
    if limit is not None and limit < 1:
        raise InvalidInputError(f"limit must be 1 or more, not {limit}")
    rest = sorted(name for name in names if not token or name > token)
    if limit is None:
        return Page(list(chosen(rest)), None)
    found: list[str] = []
    at, asking = 0, limit + 1
    while at < len(rest) and len(found) <= limit:
        counted = chosen(rest[at : at + asking])
        found += counted
        at += asking
        asking = limit + 1 - len(found) if counted else asking * 2
    return Page(found[:limit], found[limit - 1] if len(found) > limit else None)
