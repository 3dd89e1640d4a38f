"""Pages of sorted names."""

from __future__ import annotations

from collections.abc import Iterable

from lance_namespace.errors import InvalidInputError

__all__ = ["Page", "page_of"]


class Page:
    """A slice of sorted names and the token of the next one."""

    __slots__ = ("names", "token")

    def __init__(self, names: list[str], token: str | None) -> None:
        self.names = names
        self.token = token


def page_of(names: Iterable[str], token: str | None, limit: int | None) -> Page:
    """Return the names after ``token`` in order, at most ``limit`` of them.

    The token is the last name of the page before, so that pages stay complete while names come and go.

    Raises:
        InvalidInputError: ``limit`` is not positive.
    """
    if limit is not None and limit < 1:
        raise InvalidInputError(f"limit must be 1 or more, not {limit}")
    rest = sorted(name for name in names if not token or name > token)
    if limit is None or len(rest) <= limit:
        return Page(rest, None)
    return Page(rest[:limit], rest[limit - 1])
