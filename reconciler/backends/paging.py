"""Read lists that a service returns in pages, to their end and never forever.

A broken or hostile service can return page tokens without end. Reading stops when a token repeats, after many pages
with nothing new, and at a number of pages that no catalog has.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from reconciler.model.errors import InternalError

MOST_BARREN = 1_000
"""Pages in a row with nothing new. Some are normal: services leave out what a caller may not see, page by page."""
MOST_PAGES = 100_000

EntryT = TypeVar("EntryT")


def every_page(
    where: str,
    fetch: Callable[[str | None, int], tuple[Sequence[EntryT], str | None]],
    key: Callable[[EntryT], Hashable],
    *,
    once: bool = True,
) -> Iterator[EntryT]:
    """Yield the entries of every page; an empty page with a token is not the end.

    Args:
        where: what is listed; the errors raised here begin with it.
        fetch: takes the token of the page before, None for the first, and the page's number from 1. Returns the entries
            of the page and the token of the next one; None, or an empty one, at the end.
        key: returns the same value for two entries that are the same.
        once: yield only the first of the entries with the same ``key``.

    Raises:
        InternalError: the list does not end.
    """
    token: str | None = None
    tokens: set[str] = set()
    seen: set[Hashable] = set()
    barren = 0
    for number in range(1, MOST_PAGES + 1):
        entries, token = fetch(token, number)
        new = []
        for entry in entries:
            identity = key(entry)
            if identity not in seen:
                seen.add(identity)
                new.append(entry)
        yield from new if once else entries
        if not token:
            return
        barren = 0 if new else barren + 1
        if token in tokens:
            raise _endless(where, number, "the service gives the same page token again")
        if barren == MOST_BARREN:
            raise _endless(where, number, f"the service gave {barren:,} pages in a row with nothing new on them")
        tokens.add(token)
    raise _endless(where, MOST_PAGES, "the service still names a next page")


def _endless(where: str, number: int, why: str) -> InternalError:
    return InternalError(f"{where}, page {number:,}: {why}; the list never ends")
