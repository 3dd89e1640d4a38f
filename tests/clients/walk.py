"""What every client does on every catalog, step by step, and how each step ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from reconciler.model.names import Identifier

__all__ = ["OPERATIONS", "Client", "Refused", "Result", "walk"]

OPERATIONS = (
    "create",
    "open",
    "append",
    "overwrite",
    "search",
    "list",
    "create from a query",
    "rename",
    "drop",
    "create again",
)


class Refused(Exception):  # noqa: N818 - it is an answer
    """The client, or what it speaks to, does not do this; the text is what a user reads."""


class Client(Protocol):
    """A Lance client as its users use it. A table's rows are an ``id`` and the vector ``[id, 0]`` each.

    Every method raises :class:`Refused` for what the client reports as an error.
    """

    def create_namespace(self, namespace: Identifier) -> None: ...

    def create(self, table: Identifier, ids: Sequence[int]) -> None: ...

    def ids(self, table: Identifier) -> list[int]: ...

    def append(self, table: Identifier, ids: Sequence[int]) -> None: ...

    def overwrite(self, table: Identifier, ids: Sequence[int]) -> None: ...

    def search(self, table: Identifier, wanted: int) -> int:
        """Return the id that a search for ``wanted`` finds first."""
        ...

    def tables(self, namespace: Identifier) -> list[str]: ...

    def create_from_query(self, table: Identifier, source: Identifier, wanted: int) -> None:
        """Make a table of the rows of another one whose id is ``wanted``."""
        ...

    def rename(self, table: Identifier, name: str) -> None: ...

    def drop(self, table: Identifier) -> None: ...

    def instead_of_drop(self, table: Identifier) -> None:
        """Take the table out of the catalog as the client's users are told to when ``drop`` is refused."""
        ...


@dataclass(frozen=True, slots=True)
class Result:
    """How an operation ended: ``refusal`` is what the user read, None where all went well."""

    operation: str
    refusal: str | None = None


def walk(client: Client, namespace: Identifier) -> list[Result]:
    """Do everything in a new namespace and return how each operation ended, in order.

    A refusal must leave everything as it was, and what comes after it goes on from there.

    Raises:
        AssertionError: an operation that went well did something else than it says.
    """
    client.create_namespace(namespace)
    table, made, renamed = (*namespace, "tab"), (*namespace, "made"), (*namespace, "renamed")
    results: list[Result] = []

    def done(operation: str, act: Callable[[], object]) -> bool:
        try:
            act()
        except Refused as refusal:
            results.append(Result(operation, str(refusal)))
        else:
            results.append(Result(operation))
        return results[-1].refusal is None

    def holds(one: Identifier, ids: Sequence[int]) -> None:
        found = client.ids(one)
        assert found == list(ids), f"{one} holds {found}, not {list(ids)}"

    def lists(*names: str) -> None:
        found = sorted(client.tables(namespace))
        assert found == sorted(names), f"{namespace} lists {found}, not {sorted(names)}"

    done("create", lambda: client.create(table, [1, 2, 3]))
    done("open", lambda: holds(table, [1, 2, 3]))
    done("append", lambda: client.append(table, [4]))
    holds(table, [1, 2, 3, 4])
    done("overwrite", lambda: client.overwrite(table, [5, 6]))
    holds(table, [5, 6] if results[-1].refusal is None else [1, 2, 3, 4])
    wanted = client.ids(table)[-1]
    found: list[int] = []
    if done("search", lambda: found.append(client.search(table, wanted))):
        assert found == [wanted]
    done("list", lambda: lists("tab"))
    done("create from a query", lambda: client.create_from_query(made, table, wanted))
    holds(made, [wanted])
    if done("rename", lambda: client.rename(made, renamed[-1])):
        holds(renamed, [wanted])
        lists("tab", "renamed")
    else:
        holds(made, [wanted])
        lists("tab", "made")
    if not done("drop", lambda: client.drop(table)):
        lists("tab", "made" if "made" in client.tables(namespace) else "renamed")
        client.instead_of_drop(table)
    assert "tab" not in client.tables(namespace)
    done("create again", lambda: client.create(table, [9]))
    holds(table, [9])
    assert [result.operation for result in results] == list(OPERATIONS)
    return results
