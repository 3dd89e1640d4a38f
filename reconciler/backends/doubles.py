"""Names that a service lists twice: never folded into one, as nobody knows which of the two a call reaches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from reconciler.model.errors import InternalError
from reconciler.model.names import Identifier, join

RowT = TypeVar("RowT")


class DoubledNameError(InternalError):
    """The service holds a name twice."""


def every_name(name: str) -> bool:
    """Return True: a double of any name concerns the caller."""
    del name
    return True


def list_without_doubles(
    read: Callable[[], Iterable[RowT]],
    name: Callable[[RowT], str],
    concerns: Callable[[RowT], bool],
    problem: Callable[[str], str],
) -> list[RowT]:
    """Return the rows that ``read`` lists; those that ``concerns`` refuses may be there twice.

    A doubled list is read again: what is dropped and made again between two pages is on both.

    Raises:
        DoubledNameError: with the ``problem`` of a name that is there twice.
    """
    rows, doubled = _look(read, name, concerns)
    if doubled:
        rows, doubled = _look(read, name, concerns)
    if doubled:
        raise DoubledNameError(problem(min(doubled)))
    return rows


def names_without_doubles(
    impl: str, kind: str, parent: Identifier, read: Callable[[], Iterable[str]], concerns: Callable[[str], bool]
) -> list[str]:
    """Return the names that ``read`` lists below ``parent``, as :func:`list_without_doubles` does."""
    return list_without_doubles(
        read,
        str,
        concerns,
        lambda name: (
            f"{impl}: the service lists the {kind} `{join((*parent, name))}` twice: have one of the two removed there, "
            "or leave the name out with `scope`"
        ),
    )


def _look(
    read: Callable[[], Iterable[RowT]], name: Callable[[RowT], str], concerns: Callable[[RowT], bool]
) -> tuple[list[RowT], set[str]]:
    rows = list(read())
    counts = Counter(map(name, rows))
    if len(counts) == len(rows):
        return rows, set()
    return rows, {name(row) for row in rows if counts[name(row)] > 1 and concerns(row)}
