"""What one task of the Spark engine compares: a unit of a catalog, with the blocks of the tables that are in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.model.desired import DesiredTable
from reconciler.model.names import Identifier
from reconciler.operations.connections import CatalogSpec
from reconciler.spark.units import Listing, Unit, grouped


@dataclass(frozen=True, slots=True)
class Share:
    """A unit, and the blocks of what is directly in its namespaces. Its ``spec`` names the catalog, and no more.

    Args:
        unit: what is read.
        blocks: the tables of the manifest among those that the unit is about.
    """

    unit: Unit
    blocks: tuple[DesiredTable, ...] = ()

    def read_with(self, spec: CatalogSpec) -> Unit:
        """Return the unit as it is read, with what it takes to reach the catalog."""
        return replace(self.unit, spec=spec)

    def has(self, table: Identifier) -> bool:
        """Return whether a table is one of those that the unit is about."""
        only, name = self.unit.only, table[-1]
        return table[:-1] in self.unit.namespaces and name not in self.unit.without and (only is None or name in only)


def shares_of(
    listing: Listing, size: int, tables: Mapping[Identifier, DesiredTable]
) -> tuple[list[Share], dict[Identifier, DesiredTable]]:
    """Return the shares of one catalog, and the ``tables`` that are in no listed namespace.

    Args:
        listing: its namespaces.
        size: how many of them a task reads.
        tables: the desired tables.
    """
    spec = CatalogSpec(listing.spec.name, listing.spec.impl)
    homes: defaultdict[Identifier, list[DesiredTable]] = defaultdict(list)
    for identifier, block in tables.items():
        homes[identifier[:-1]].append(block)
    shares = []
    for unit in grouped(listing, size):
        share = Share(replace(unit, spec=spec))
        shares.append(replace(share, blocks=tuple(_blocks(share, homes))))
    homeless = homes.keys() - listing.children.keys()
    return shares, {block.id: block for home in homeless for block in homes[home]}


def _blocks(share: Share, homes: Mapping[Identifier, Sequence[DesiredTable]]) -> Iterator[DesiredTable]:
    for namespace in share.unit.namespaces:
        for block in homes.get(namespace, ()):
            if share.has(block.id):
                yield block
