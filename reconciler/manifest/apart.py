"""Files of a manifest that are read elsewhere: those that only say what is in namespaces of their own.

A fleet's manifest is many files, most of which hold nothing but the namespaces of one team. What such a file says of
its tables matters to nobody but whoever plans these namespaces. So here only its outline is read: the lines down to the
names of the namespaces, which a look at how lines are indented tells from what is below. That look can err. Whoever
reads the file checks the outline, and if anything is amiss the manifest is loaded as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.limits import folded
from reconciler.manifest.blocks import BlockReader, entries_of
from reconciler.manifest.catalogs import CatalogReader
from reconciler.manifest.columns import NamedSchemas
from reconciler.manifest.defaults import Defaults
from reconciler.manifest.digests import table_digests
from reconciler.manifest.faults import Faults, SourceFile
from reconciler.manifest.nodes import Mapping as Block
from reconciler.manifest.nodes import Node, Scalar
from reconciler.manifest.policy import Policy
from reconciler.manifest.reader import read_document
from reconciler.manifest.variables import Resolver
from reconciler.names import Identifier, Scope
from reconciler.state import Capabilities, DesiredNamespace, DesiredTable

__all__ = ["ApartContent", "ApartReader", "CatalogContext", "FileApart", "not_apart", "outline"]

_TOP = re.compile(rb"catalogs:[ ]*(?:#.*)?|(?:version|name):[ ].*")
_CATALOG = re.compile(rb"[A-Za-z0-9_][A-Za-z0-9_.-]*:[ ]*(?:#.*)?")
_NAMESPACES = re.compile(rb"namespaces:[ ]*(?:#.*)?")
_NAME = re.compile(rb"([A-Za-z0-9_][A-Za-z0-9_.-]*:)(?:[ ].*)?")
_INDENTED = re.compile(rb"^( +)[^ #\n]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FileApart:
    """A file of which only the outline has been read: ``names`` are the outermost namespaces in it, by catalog."""

    number: int
    file: SourceFile
    data: bytes
    names: Mapping[str, tuple[str, ...]]


def outline(data: bytes, number: int, faults: Faults) -> tuple[Block, FileApart] | None:
    """Return what a file says to all the others, and the file; None where it has to be read with them.

    That is where it says anything but what is in namespaces, has placeholders, or is not plainly laid out.
    """
    text = None if b"${" in data else _outlined(data)
    if text is None:
        return None
    own = Faults([*faults.files])
    document = read_document(text, number, own)
    names = _names_of(document) if document is not None and not own else None
    if document is None or not names:
        return None
    for catalog in entries_of(document.entries["catalogs"]).values():
        entries_of(catalog).clear()
    return document, FileApart(number, faults.files[number], data, names)


def _outlined(data: bytes) -> bytes | None:
    """Return the lines down to the names of namespaces, where they are; None where the layout is another one."""
    depths: list[int] = []
    for found in _INDENTED.finditer(data):
        depths.append(len(found[1]))
        if len(depths) == 3:
            break
    if len(depths) < 3 or not depths[0] < depths[1] < depths[2]:
        return None
    patterns = dict(zip((0, *depths), (_TOP, _CATALOG, _NAMESPACES, _NAME), strict=True))
    kept: list[bytes] = []
    end = 0
    for found in re.finditer(rb"^( {0,%d})([^ #\n].*)$" % depths[2], data, re.MULTILINE):
        depth = len(found[1])
        line = patterns[depth].fullmatch(found[2]) if depth in patterns else None
        if line is None:
            return None
        kept += [b"\n" * data.count(b"\n", end, found.start()), found[1], line[1] if depth == depths[2] else found[2]]
        end = found.end()
    return b"".join(kept)


def _names_of(document: Block) -> dict[str, tuple[str, ...]] | None:
    """Return the names of the namespaces in each catalog of a file; None for a file that says anything else."""
    catalogs = document.entries.get("catalogs")
    if not document.entries.keys() <= {"version", "name", "catalogs"} or not isinstance(catalogs, Block):
        return None
    found: dict[str, tuple[str, ...]] = {}
    for name, catalog in catalogs.entries.items():
        spaces = entries_of(catalog).get("namespaces")
        if not isinstance(spaces, Block) or len(entries_of(catalog)) != 1:
            return None
        found[name] = tuple(spaces.entries)
    return found


def not_apart(root: Block, apart: Iterable[FileApart]) -> set[str]:
    """Return the paths of the files among ``apart`` that have to be read with the others after all.

    ``root`` is what these say. A name that several files have is one whose blocks have to be merged; of a catalog that
    moves tables, mirrors another one or is mirrored, everything has to be known in one place.
    """
    files = list(apart)
    catalogs = entries_of(root.entries.get("catalogs"))
    mirrors = [entries_of(entries_of(node).get("mirror")).get("from") for node in catalogs.values()]
    followed = {origin.text for origin in mirrors if isinstance(origin, Scalar)}
    owners: dict[tuple[str, str], set[str]] = {}
    for name, node in catalogs.items():
        for kind in ("namespaces", "tables"):
            for child in entries_of(entries_of(node).get(kind)):
                owners.setdefault((name, child.lower()), set()).add("")
    found: set[str] = set()
    for file in files:
        for name, children in file.names.items():
            entries = entries_of(catalogs.get(name))
            if "impl" not in entries or name in followed or not entries.keys().isdisjoint(("mirror", "moved")):
                found.add(file.file.path)
            if any(map(_has_placeholders, (entries.get("defaults"), root.entries.get("defaults")))):
                found.add(file.file.path)
            lowered = [child.lower() for child in children]
            if len(set(lowered)) < len(lowered):
                found.add(file.file.path)
            for child in lowered:
                owners.setdefault((name, child), set()).add(file.file.path)
    return found | {path for paths in owners.values() if len(paths) > 1 for path in paths if path}


def _has_placeholders(node: Node | None) -> bool:
    if isinstance(node, Scalar):
        return "${" in node.text
    inside = entries_of(node).values() if isinstance(node, Block) else getattr(node, "items", ())
    return any(map(_has_placeholders, inside))


@dataclass(frozen=True, slots=True)
class CatalogContext:
    """What the manifest says of a catalog that holds for every file: what a ``CatalogReader`` is made with."""

    impl: str
    capabilities: Capabilities
    scope: Scope
    root: str | None
    schemas: NamedSchemas
    defaults: Defaults


@dataclass(frozen=True, slots=True)
class ApartContent:
    """What a file says of one catalog, and the digests of its tables (see ``table_digests``)."""

    namespaces: Mapping[Identifier, DesiredNamespace]
    tables: Mapping[Identifier, DesiredTable]
    digests: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ApartReader:
    """Reads files apart, in whatever process: nothing of the environment and no other file is looked at.

    ``files`` are those of the manifest, ``folder`` is that of the first one.
    """

    files: tuple[SourceFile, ...]
    folder: str
    policy: Policy
    catalogs: Mapping[str, CatalogContext]

    def outermost(self, file: FileApart, catalog: str) -> Iterator[str]:
        """Yield the outermost names of ``file`` in a catalog, as the catalog has them."""
        for name in file.names.get(catalog, ()):
            yield folded(self.catalogs[catalog].capabilities, name)

    def read(self, file: FileApart, catalog: str) -> ApartContent | None:
        """Return what a file says of a catalog; None where the manifest has to be loaded as a whole.

        That is where something is wrong with the file, which is told with all that is wrong with the manifest, and
        where it is not what its outline made it look like.
        """
        faults = Faults([*self.files])
        document = read_document(file.data, file.number, faults)
        if document is None or _names_of(document) != dict(file.names):
            return None
        context = self.catalogs[catalog]
        reader = CatalogReader(
            BlockReader(faults, Resolver(self.policy)),
            catalog,
            context.impl,
            context.capabilities,
            context.scope,
            context.root,
            schemas=context.schemas,
        )
        reader.read(entries_of(document.entries["catalogs"])[catalog], context.defaults)
        if faults:
            return None
        digests = table_digests(catalog, reader.tables, reader.relative, self.folder)
        return ApartContent(reader.namespaces, reader.tables, digests)
