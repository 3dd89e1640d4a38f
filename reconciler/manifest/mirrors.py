"""The ``mirror`` or ``clone`` of each catalog, read after all catalogs, as it concerns two of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from reconciler.manifest.catalogs import CatalogBlockReader
from reconciler.manifest.models import CloneBlock, MirrorBlock
from reconciler.manifest.nodes import Node, Position, Sequence, entries_of
from reconciler.manifest.problems import Problems, expected_keys
from reconciler.manifest.variables import is_unresolved
from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import DesiredCatalog, DesiredMirror
from reconciler.model.names import Identifier


def read_mirror(
    reader: CatalogBlockReader, node: Node, readers: Mapping[str, CatalogBlockReader]
) -> DesiredMirror | None:
    """Return the mirror or clone of the catalog whose block is ``node``, None without one.

    Errors go to the reader's problems.

    Args:
        reader: of the catalog, after it has read everything else.
        node: the catalog's block.
        readers: those of all catalogs of the manifest.
    """
    entries = entries_of(node)
    if "mirror" in entries and "clone" in entries:
        reader.problem(
            entries["clone"], f"`clone` in catalog {reader.catalog} contradicts `mirror`: it has one of them"
        )
        return None
    model, key = (CloneBlock, "clone") if "clone" in entries else (MirrorBlock, "mirror")
    if key not in entries:
        return None
    block = reader.blocks.read(model, entries[key], f"the {key} of {reader.catalog}")
    return None if block is None else _MirrorReader(reader, entries[key], block, readers).mirror()


@dataclass(frozen=True, slots=True)
class _MirrorReader:
    """Reads one ``mirror`` or ``clone`` block, and checks it against both catalogs."""

    reader: CatalogBlockReader
    node: Node
    block: MirrorBlock
    readers: Mapping[str, CatalogBlockReader]

    def mirror(self) -> DesiredMirror | None:
        origin = self._read_origin()
        if origin is None:
            return None
        blocks, source_capabilities = self.reader.blocks, self.readers[origin].capabilities
        select = entries_of(self.node).get("select")
        return DesiredMirror(
            origin,
            blocks.problems.source(self.node.key_position),
            blocks.scope(self.block.select, select, f"`select` in {self._subject}", source_capabilities),
            self._read_into(),
            dict(self._read_names(source_capabilities)),
            self.reader.mirror_defaults,
            self.reader.clone_at(self.block, self.node, self._subject) if isinstance(self.block, CloneBlock) else None,
        )

    @property
    def _subject(self) -> str:
        key = "clone" if isinstance(self.block, CloneBlock) else "mirror"
        return f"the {key} of {self.reader.catalog}"

    def _problem(self, position: Position, message: str) -> None:
        self.reader.blocks.problems.add_at(position, message)

    def _read_origin(self) -> str | None:
        """Return the catalog to follow, None for an unknown name."""
        name, node = self.block.origin, entries_of(self.node).get("from")
        catalogs = [other for other in self.readers if other != self.reader.catalog]
        if node is None or name is None:
            known = ", ".join(f"`{other}`" for other in catalogs)
            if self.reader.blocks.lacks("from", type(self.block), self.node):
                self._problem(
                    self.node.position, f"{self._subject} has no `from`; expected the catalog to follow: {known}"
                )
        elif self.reader.blocks.is_known(node):
            if name in self.readers:
                return name
            known = f"which is not a catalog of this manifest; {expected_keys(name, catalogs)}"
            self._problem(node.position, f"`from` in {self._subject} is `{name}`, {known}")
        return None

    def _read_into(self) -> Identifier:
        reader, capabilities = self.reader, self.reader.capabilities
        node = entries_of(self.node).get("into")
        if node is None:
            return ()
        subject = f"`into` in {self._subject}"
        for name, item in zip(self.block.into, node if isinstance(node, Sequence) else [], strict=False):
            reason = capabilities.name_problem(name) if reader.blocks.is_known(item) else None
            if reason is not None:
                self._problem(item.position, f"{subject} ({reader.impl}): `{name}`: {reason}")
        into = tuple(capabilities.folded(name) for name in self.block.into)
        most = capabilities.table_depths[1]
        if most is not None and len(into) > most:
            problem = capabilities.table_depth_problem(len(into))
            self._problem(node.position, f"{subject} ({reader.impl}): tables below it are {problem}")
        elif into and not reader.scope.reaches(into):
            scope = ", ".join(reader.scope.patterns)
            self._problem(node.position, f"{subject} is outside of the catalog's scope: {scope}")
        return into

    def _read_names(self, source_capabilities: Capabilities) -> Iterator[tuple[Identifier, Identifier]]:
        """Yield each renamed table: its name in the source, and in this catalog."""
        blocks, subject = self.reader.blocks, f"`names` in {self._subject}"
        first_positions: dict[Identifier, Position] = {}
        for key, node in entries_of(entries_of(self.node).get("names")).items():
            value = self.block.names.get(key)
            if value is None or is_unresolved(key) or not blocks.is_known(node):
                continue
            origin = blocks.path(key, node.key_position, subject, source_capabilities)
            to = blocks.path(value, node.position, subject, self.reader.capabilities)
            if origin is None or to is None:
                continue
            first_position = first_positions.setdefault(to, node.position)
            if first_position != node.position:
                self._problem(
                    node.position,
                    f"{subject}: `{value}` is a duplicate, first at {blocks.problems.locate(first_position)}",
                )
            yield origin, to


def check_mirrors(mirrors: Mapping[str, DesiredMirror], problems: Problems) -> None:
    """Add an error for each cycle of catalogs that mirror or clone each other, at the block of the first of them.

    Args:
        mirrors: those of a manifest, by the name of their catalog.
        problems: takes the errors.
    """
    done: set[str] = set()
    for name, first in mirrors.items():
        chain = [name]
        while (mirror := mirrors.get(chain[-1])) is not None and mirror.origin not in chain:
            chain.append(mirror.origin)
        if mirror is None or mirror.origin != name or done.intersection(chain):
            continue
        done.update(chain)
        cycle = "".join(f"{each} {mirrors[each].key}s " for each in chain)
        problems.add(first.source.problem(f"the mirrors have a dependency cycle: {cycle}{name}"))


def cloned_catalogs(reader: CatalogBlockReader, readers: Mapping[str, CatalogBlockReader]) -> frozenset[str]:
    """Return the catalogs of whose tables those of ``reader`` are clones; fold the names as these catalogs do.

    Errors go to the reader's problems.
    """
    others = [name for name in readers if name != reader.catalog]
    for node, subject, origin in reader.clones:
        catalog, of = origin.catalog, entries_of(node).get("of")
        if of is None or not reader.blocks.is_known(of):
            continue
        label = f"`of` in the clone of {subject}"
        if catalog == reader.catalog:
            known = "which is of this catalog; expected a table of another catalog"
        elif catalog not in readers:
            known = f"which begins with no catalog of this manifest; {expected_keys(catalog, others)}"
        elif not origin.identifier:
            known = "and names no table; expected such as prod/features/users"
        else:
            reader.blocks.path("/".join(origin.identifier), of.position, label, readers[catalog].capabilities)
            continue
        reader.blocks.problems.add_at(of.position, f"{label} is in `{catalog}`, {known}")
    cloned = {name: table for name, table in reader.tables.items() if table.clones is not None} if reader.clones else {}
    for name, table in cloned.items():
        if table.clones is not None and (source := readers.get(table.clones.origin.catalog)) is not None:
            identifier = tuple(map(source.capabilities.folded, table.clones.origin.identifier))
            origin = replace(table.clones.origin, identifier=identifier)
            reader.tables[name] = replace(table, clones=replace(table.clones, origin=origin))
    return frozenset(origin.catalog for _, _, origin in reader.clones if origin.catalog in others)


def check_cycles(desired: Mapping[str, DesiredCatalog], problems: Problems) -> None:
    """Add an error for a cycle of catalogs that clone each other's tables; those of mirrors are found before."""
    try:
        TopologicalSorter({name: each.sources & desired.keys() for name, each in desired.items()}).prepare()
    except CycleError as error:
        names = [*reversed(error.args[1])]
        cycle = " needs ".join(names)
        problems.add(desired[names[0]].source.problem(f"clones of tables have a dependency cycle: {cycle}"))
