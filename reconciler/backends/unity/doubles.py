"""Names that the service holds twice.

The reference server 0.6 looks whether a name is taken before it makes an object, and nothing keeps two creates at the
same moment from finding it free: both succeed. Of a table that is there twice it answers every call with 500; of a
schema or catalog it takes the row it finds first. None of this ever ends well by itself, so it is never passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from reconciler.backends.doubles import list_without_doubles
from reconciler.model.names import Identifier, join

_KINDS = ("catalog", "schema", "table")
_TABLE = (
    "the service neither reads nor removes either of them, not even by force: have one of the two rows taken out of "
    "its database, and leave the schema out with `scope` until then"
)
_NAMESPACE = "the service uses the one it finds first: have the other one dropped in Unity Catalog"


class _Row(Protocol):
    @property
    def name(self) -> str: ...


RowT = TypeVar("RowT", bound=_Row)


def explained(identifier: Identifier) -> str:
    """Return, in words, that ``identifier`` is there twice, how that comes about and the way out."""
    kind = _KINDS[len(identifier) - 1]
    remedy = _TABLE if kind == "table" else _NAMESPACE
    return (
        f"the {kind} `{join(identifier)}` is there twice, as after two creates at the same moment, which this service "
        f"lets both succeed; {remedy}"
    )


def each_once(
    read: Callable[[], Iterable[RowT]], parent: Identifier, concerns: Callable[[RowT], bool] = lambda _: True
) -> list[RowT]:
    """Return the rows that ``read`` lists below ``parent``, as :func:`list_without_doubles` does."""
    return list_without_doubles(
        read, lambda row: row.name, concerns, lambda name: f"unity: {explained((*parent, name))}"
    )
