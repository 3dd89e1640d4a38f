"""What one task of the Spark engine compares: a unit of a catalog, with the blocks of the tables that are in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.manifest.apart import FileApart
from reconciler.names import Identifier
from reconciler.operations.connections import CatalogSpec
from reconciler.pipeline.units import Listing, Unit, grouped
from reconciler.state import DesiredTable

__all__ = ["FileGroup", "Share", "in_groups", "shares_of"]

_ALL = 2**31


@dataclass(frozen=True, slots=True)
class Share:
    """A unit, and the blocks of what is directly in its namespaces. Its ``spec`` names the catalog, and no more.

    Args:
        unit: what is read.
        blocks: those that the driver has.
        files: those of the manifest that have the others, and are read by the task.
        leads: whether this share, of all that have these files, also takes what they say of other namespaces than
            the ``listed`` ones, each of which is in a share.
        listed: these.
    """

    unit: Unit
    blocks: tuple[DesiredTable, ...] = ()
    files: tuple[FileApart, ...] = ()
    leads: bool = False
    listed: frozenset[Identifier] = frozenset()

    def read_with(self, spec: CatalogSpec) -> Unit:
        """Return the unit as it is read, with what it takes to reach the catalog."""
        return replace(self.unit, spec=spec)

    def has(self, table: Identifier) -> bool:
        """Return whether a table is one of those that the unit is about."""
        only, name = self.unit.only, table[-1]
        return table[:-1] in self.unit.namespaces and name not in self.unit.without and (only is None or name in only)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files of the manifest that one task reads, and the outermost namespaces in them."""

    files: tuple[FileApart, ...]
    names: frozenset[str]


def shares_of(
    listing: Listing,
    size: int,
    tables: Mapping[Identifier, DesiredTable],
    groups: Sequence[FileGroup],
) -> tuple[list[Share], dict[Identifier, DesiredTable]]:
    """Return what is to be read of one catalog, and the blocks among ``tables`` that are in no namespace listed.

    Args:
        listing: its namespaces.
        size: how many of them a task reads.
        tables: the blocks that the driver has.
        groups: the files that tasks read; such a task reads all that is below their names.
    """
    spec = CatalogSpec(listing.spec.name, listing.spec.impl)
    group_of = {name: number for number, group in enumerate(groups) for name in group.names}
    within: list[set[Identifier]] = [set() for _ in groups]
    others: set[Identifier] = set()
    for namespace in listing.children:
        number = group_of.get(namespace[0]) if namespace else None
        (others if number is None else within[number]).add(namespace)
    shares: list[Share] = []
    for group, listed in zip(groups, within, strict=True):
        units = [*grouped(listing, _ALL, listed)] or [Unit(spec, ())]
        shares += (
            Share(replace(unit, spec=spec), (), group.files, unit is units[0], frozenset(listed)) for unit in units
        )
    homes: defaultdict[Identifier, list[DesiredTable]] = defaultdict(list)
    for identifier, block in tables.items():
        homes[identifier[:-1]].append(block)
    for unit in grouped(listing, size, others):
        share = Share(replace(unit, spec=spec))
        shares.append(replace(share, blocks=tuple(_blocks(share, homes))))
    return shares, {block.id: block for home, blocks in homes.items() if home not in others for block in blocks}


def _blocks(share: Share, homes: Mapping[Identifier, Sequence[DesiredTable]]) -> Iterator[DesiredTable]:
    for namespace in share.unit.namespaces:
        for block in homes.get(namespace, ()):
            if share.has(block.id):
                yield block


def in_groups(files: Sequence[FileApart], tasks: int) -> Iterator[tuple[FileApart, ...]]:
    """Yield ``files``, neighbours together, in about as many groups of one size as there are ``tasks``, or fewer."""
    size = sum(len(file.data) for file in files) / tasks
    group: list[FileApart] = []
    for file in files:
        group.append(file)
        if sum(len(one.data) for one in group) >= size:
            yield tuple(group)
            group = []
    if group:
        yield tuple(group)
