"""Tell which renames of a schema the data still needs.

The data does not record old names. So a rename counts as pending while the data has only the old name, and as done once
it has only the new one. In a chain (`a` becomes `b`, and `b` becomes `c`) a name can be an old and a new one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise

from reconciler.model.columns import Column


@dataclass(frozen=True, slots=True)
class ColumnRenames:
    """The old names by new name, of renames that are ``pending``, ``done`` or, undecidable, ``unclear``."""

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


def sort_renames(origins: Mapping[str, str], columns: Collection[str]) -> ColumnRenames:
    """Sort renames into pending, done and unclear ones, by the columns that the data has.

    ``origins`` has old names by new ones. A run is a part of a chain whose names are all in the data. Its renames are
    pending if it has the chain's first name, and done if it has the last one; with both or neither, they are unclear.
    """
    pending: dict[str, str] = {}
    done: dict[str, str] = {}
    unclear: dict[str, str] = {}
    for chain in _chains(origins):
        for names in _runs_in_data(chain, columns):
            is_pending, is_done = chain[0] in names, chain[-1] in names
            for old, new in pairwise(chain):
                if is_pending != is_done:
                    if (old if is_pending else new) in names:
                        (pending if is_pending else done)[new] = old
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


def _runs_in_data(chain: list[str], columns: Collection[str]) -> Iterator[frozenset[str]]:
    """Yield each longest part of ``chain`` whose names are all in ``columns``."""
    for is_in_data, names in groupby(chain, columns.__contains__):
        if is_in_data:
            yield frozenset(names)
