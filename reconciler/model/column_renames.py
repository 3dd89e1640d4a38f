"""The renames that a schema asks for, and which of them the data still needs.

The data does not tell where a name comes from. So a rename counts as pending while only the old name is there, and as
done once only the new one is. In a chain (`a` becomes `b`, and `b` becomes `c`) a name can be both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise

from reconciler.model.columns import Column


@dataclass(frozen=True, slots=True)
class ColumnRenames:
    """Renames by new name, with the old one: ``pending``, ``done``, and ``unclear`` ones, which nothing decides."""

    pending: Mapping[str, str]
    done: Mapping[str, str]
    unclear: Mapping[str, str]


def rename_problem(column: Column, columns: Iterable[Column]) -> str | None:
    """Return why a schema of ``columns`` cannot rename ``column``; None if it can."""
    origin = column.renamed_from
    if origin is None:
        return None
    origins = {other.name: other.renamed_from for other in columns}
    if origin == column.name:
        return f"`renamed_from: {origin}` is its own name"
    if [*origins.values()].count(origin) > 1:
        return f"`renamed_from: {origin}` is in another column, too"
    if origin in origins and origins[origin] is None:
        return f"`renamed_from: {origin}` names another column of this schema"
    cycle = [column.name]
    while (old := origins.get(cycle[-1])) is not None and old not in cycle:
        cycle.append(old)
    if old != column.name or old != min(cycle):
        return None
    renames = ", ".join(f'{{"path": "{origins[name]}", "name": "{name}"}}' for name in cycle)
    return (
        f"`renamed_from: {origin}` is part of a cycle, and no name in the data tells whether that is done; call "
        f"pylance's `alter_columns({renames})`, and remove `renamed_from`"
    )


def resolve(origins: Mapping[str, str], columns: Collection[str]) -> ColumnRenames:
    """Sort renames into pending, done and unclear ones, by the columns that the data has.

    ``origins`` has old names by new ones. Columns of a chain that are side by side in the data were all renamed, or are
    all still to be. They are to be if the chain's first name is among them, and they were if its last one is: one of
    the two must hold.
    """
    pending: dict[str, str] = {}
    done: dict[str, str] = {}
    unclear: dict[str, str] = {}
    for chain in _chains(origins):
        for names in _side_by_side(chain, columns):
            is_to_do, is_done = chain[0] in names, chain[-1] in names
            for old, new in pairwise(chain):
                if is_to_do != is_done:
                    if (old if is_to_do else new) in names:
                        (pending if is_to_do else done)[new] = old
                elif old in names or new in names:
                    unclear[new] = old
    return ColumnRenames(pending, done, unclear)


def _chains(origins: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the names of each chain, oldest first."""
    new_of = {old: new for new, old in origins.items()}
    for name in new_of.keys() - origins.keys():
        chain = [name]
        while chain[-1] in new_of:
            chain.append(new_of[chain[-1]])
        yield chain


def _side_by_side(chain: list[str], columns: Collection[str]) -> Iterator[frozenset[str]]:
    for is_there, names in groupby(chain, columns.__contains__):
        if is_there:
            yield frozenset(names)
