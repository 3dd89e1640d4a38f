"""Read lists that a service returns in pages; stop at lists that never end.

A broken or hostile service can return page tokens without end. Reading stops when a token repeats, after many pages
with nothing new, and at a number of pages that no catalog has.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from reconciler.model.errors import InternalError

MAX_PAGES_WITHOUT_NEW = 1_000
"""Consecutive pages. Some are normal: services filter each page by the caller's permissions."""
MAX_PAGES = 100_000

EntryT = TypeVar("EntryT")


def paged_entries(
    where: str,
    fetch: Callable[[str | None, int], tuple[Sequence[EntryT], str | None]],
    key: Callable[[EntryT], Hashable],
    *,
    distinct: bool = True,
) -> Iterator[EntryT]:
    """Yield the entries of all pages; an empty page with a token is not the end.

    Args:
        where: a name of the list; the errors raised here begin with it.
        fetch: takes the token of the page before, None for the first, and the page's number from 1. Returns the entries
            of the page and the token of the next one; None, or an empty one, at the end.
        key: returns the identity of an entry, to recognise repeated ones.
        distinct: yield only the first of the entries with the same ``key``.

    Raises:
        InternalError: the list does not end.
    """
    token: str | None = None
    tokens: set[str] = set()
    seen: set[Hashable] = set()
    pages_without_new = 0
    for number in range(1, MAX_PAGES + 1):
        entries, token = fetch(token, number)
        new = []
        for entry in entries:
            identity = key(entry)
            if identity not in seen:
                seen.add(identity)
                new.append(entry)
        yield from new if distinct else entries
        if not token:
            return
        pages_without_new = 0 if new else pages_without_new + 1
        if token in tokens:
            raise _endless_list(where, number, "the service gives the same page token again")
        if pages_without_new == MAX_PAGES_WITHOUT_NEW:
            raise _endless_list(
                where, number, f"the service gave {pages_without_new:,} pages in a row with nothing new on them"
            )
        tokens.add(token)
    raise _endless_list(where, MAX_PAGES, "the service still names a next page")


def _endless_list(where: str, number: int, why: str) -> InternalError:
    return InternalError(f"{where}, page {number:,}: {why}; the list never ends")
