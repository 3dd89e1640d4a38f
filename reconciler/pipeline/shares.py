"""What one task of the Spark engine compares: a unit of a catalog, with the blocks of the tables that are in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.names import Identifier
from reconciler.operations.connections import CatalogSpec
from reconciler.pipeline.units import Unit
from reconciler.state import DesiredTable

__all__ = ["Share", "shares_of"]


@dataclass(frozen=True, slots=True)
class Share:
    """A unit and the blocks of what is directly in its namespaces. Its ``spec`` names the catalog, and no more."""

    unit: Unit
    blocks: tuple[DesiredTable, ...]

    def read_with(self, spec: CatalogSpec) -> Unit:
        """Return the unit as it is read, with what it takes to reach the catalog."""
        return replace(self.unit, spec=spec)


def shares_of(
    units: Iterable[Unit], tables: Mapping[Identifier, DesiredTable]
) -> tuple[list[Share], dict[Identifier, DesiredTable]]:
    """Return each unit of one catalog with its blocks among ``tables``, and the blocks that are in none of them."""
    homes: defaultdict[Identifier, list[DesiredTable]] = defaultdict(list)
    for identifier, block in tables.items():
        homes[identifier[:-1]].append(block)
    taken: set[Identifier] = set()
    shares: list[Share] = []
    for unit in units:
        taken.update(unit.namespaces)
        blocks = tuple(_blocks(unit, homes))
        shares.append(Share(replace(unit, spec=CatalogSpec(unit.spec.name, unit.spec.impl)), blocks))
    return shares, {block.id: block for home, blocks in homes.items() if home not in taken for block in blocks}


def _blocks(unit: Unit, homes: Mapping[Identifier, Sequence[DesiredTable]]) -> Iterator[DesiredTable]:
    for namespace in unit.namespaces:
        for block in homes.get(namespace, ()):
            name = block.id[-1]
            if name not in unit.without and (unit.only is None or name in unit.only):
                yield block
