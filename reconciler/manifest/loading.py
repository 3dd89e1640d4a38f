"""Load a manifest: files, then blocks, then the desired state of each catalog, with every fault in one report."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence as SequenceOf
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches

from reconciler.manifest.blocks import BlockReader, entries_of
from reconciler.manifest.catalogs import CatalogReader
from reconciler.manifest.columns import NamedSchemas
from reconciler.manifest.config import ConfigEntry, ConfigText
from reconciler.manifest.defaults import Defaults
from reconciler.manifest.digests import digest_of
from reconciler.manifest.faults import Faults
from reconciler.manifest.files import Content, read_files
from reconciler.manifest.implementations import Implementations
from reconciler.manifest.manifest import Manifest, ManifestCatalog, service_problems
from reconciler.manifest.mirrors import check_mirrors, read_mirror
from reconciler.manifest.models import CatalogBlock, ManifestFile
from reconciler.manifest.moves import read_moves
from reconciler.manifest.nodes import Mapping, Node, ScalarNode
from reconciler.manifest.policy import OPEN, Policy
from reconciler.manifest.variables import Resolver, TemplateError
from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import DesiredCatalog, Thresholds
from reconciler.model.errors import ConfigError, MissingExtraError
from reconciler.model.names import check_name

_BELOW_CATALOG = ("config", "defaults", "mirror", "namespaces", "tables")


def load(
    paths: SequenceOf[str | os.PathLike[str]],
    implementations: Implementations,
    *,
    variables: MappingOf[str, str] | None = None,
    policy: Policy = OPEN,
) -> Manifest:
    """Return the manifest in the given files and folders, all that they include merged in.

    Placeholders in a catalog's ``config`` are checked for their form and left unresolved; all others are resolved
    with the environment, ``variables`` and files of now, as far as ``policy`` lets them.

    Raises:
        ManifestError: with every fault of every file.
    """
    faults = Faults()
    with collector_paused():
        content = read_files(paths, faults, policy)
        if not faults.files:
            faults.raise_if_any()
        resolver = Resolver(policy, dict(variables or {}), content.folders)
        manifest = _Loading(faults, resolver, content, implementations).manifest()
    faults.raise_if_any()
    if manifest is None:
        raise AssertionError("a manifest without faults has everything")
    return manifest


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from walking through millions of new objects, of which none is in a cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Loading:
    def __init__(self, faults: Faults, resolver: Resolver, content: Content, implementations: Implementations) -> None:
        self._faults = faults
        self._resolver = resolver
        self._content = content
        self._implementations = implementations
        self._folder = content.folders[0]
        self._blocks = BlockReader(faults, resolver)
        self._schemas = NamedSchemas()

    def manifest(self) -> Manifest | None:
        root = self._content.root
        top = self._blocks.read(ManifestFile, root, "the manifest", ("catalogs", "defaults"))
        name = self._name(root)
        self._require(root, "version", "the manifest", "expected `version: 1`")
        self._schemas = NamedSchemas.read(self._faults, top.schemas if top else {}, root.get("schemas"))
        catalogs: dict[str, ManifestCatalog] = {}
        children = self._blocks.children(root, "catalogs", "the manifest")
        self._require(root, "catalogs", "the manifest", "expected a block with a name for each catalog")
        readers: dict[str, CatalogReader] = {}
        for catalog_name, node in children.items():
            read = self._catalog(name or "", catalog_name, node)
            if read is not None:
                catalogs[catalog_name], readers[catalog_name] = read
        catalogs = self._with_mirrors(catalogs, readers, children)
        digests = [(catalog, readers[catalog_name].relative) for catalog_name, catalog in catalogs.items()]
        for problem in service_problems(catalogs.values()):
            self._faults.add(problem)
        if not self._faults:  # what could not be read may be what uses them
            self._check_variables()
        if top is None or name is None or self._faults:
            return None
        thresholds = Thresholds(top.safety.max_removal_percent, top.safety.min_tables)
        return Manifest(
            name=name,
            digest=digest_of(name, thresholds, digests, self._folder),
            files=tuple(file.name for file in self._faults.files),
            folder=self._folder,
            thresholds=thresholds,
            catalogs=catalogs,
        )

    def _with_mirrors(
        self,
        catalogs: MappingOf[str, ManifestCatalog],
        readers: MappingOf[str, CatalogReader],
        nodes: MappingOf[str, Node],
    ) -> dict[str, ManifestCatalog]:
        """Return the catalogs with what each follows, which is known when all of them are read."""
        found = {name: read_mirror(reader, nodes[name], readers) for name, reader in readers.items()}
        mirrors = {name: mirror for name, mirror in found.items() if mirror is not None}
        check_mirrors(mirrors, {name: entries_of(nodes[name])["mirror"].key_place for name in mirrors}, self._faults)
        return {
            name: replace(catalog, desired=replace(catalog.desired, mirror=mirrors.get(name)))
            for name, catalog in catalogs.items()
        }

    def _check_variables(self) -> None:
        """A variable that nothing uses is a slip of the pen, and what was meant has another value."""
        used = sorted(self._blocks.used)
        for name in sorted(set(self._resolver.variables).difference(used)):
            nearest = get_close_matches(name, used, n=1)
            hint = f"; did you mean `{nearest[0]}`?" if nearest else ""
            self._faults.in_file(self._faults.files[0].name, f"variable `{name}` is given, but nothing uses it{hint}")

    def _require(self, node: Node, key: str, what: str, expected: str) -> None:
        if key not in entries_of(node) and self._content.complete:
            self._faults.at(node.key_place, f"{what} has no `{key}`; {expected}")

    def _name(self, root: Mapping) -> str | None:
        self._require(root, "name", "the manifest", "expected a name, such as `name: feature-store`")
        return self._verbatim(root, "name", "the manifest")

    def _verbatim(self, node: Mapping, key: str, what: str) -> str | None:
        """Return the text of a key that names something; other shapes are reported where the block is read."""
        value = node.get(key)
        if not isinstance(value, ScalarNode):
            return None
        if "${" in value.text:
            self._faults.at(value.place, f"`{key}` in {what} is `{value.text}`: placeholders do not work in `{key}`")
            return None
        reason = check_name(value.text)
        if reason is not None:
            self._faults.at(value.place, f"`{key}` in {what}: {reason}")
            return None
        return value.text

    def _catalog(self, owner: str, name: str, node: Node) -> tuple[ManifestCatalog, CatalogReader] | None:
        what = f"catalog {name}"
        reason = check_name(name)
        if reason is not None:
            self._faults.at(node.key_place, f"catalog `{name}`: {reason}")
        block = self._blocks.read(CatalogBlock, node, what, _BELOW_CATALOG)
        if block is not None:
            names = ", ".join(f"`{name}`" for name in self._implementations.names())
            self._require(node, "impl", what, f"expected one of {names}")
        if not isinstance(node, Mapping):
            return None
        config = self._config(name, node)
        capabilities = config.implementation.capabilities if config is not None else Capabilities()
        known = config.known_config() if config is not None else None
        reader = CatalogReader(
            self._blocks,
            name,
            config.impl if config is not None else "this impl",
            capabilities,
            self._blocks.scope(block.scope if block else None, node.get("scope"), f"`scope` in {what}", capabilities),
            getattr(known, "root", None),
            schemas=self._schemas,
            has_mirror="mirror" in node,
        )
        above = Defaults().below(self._blocks, self._content.root, "the manifest", reader.property_fault)
        reader.read(node, above)
        if block is None or config is None:
            return None
        desired = DesiredCatalog(
            name=name,
            owner=f"{owner}/{name}",
            source=self._faults.source(node.key_place),
            prune=block.prune,
            scope=reader.scope,
            namespaces=reader.namespaces,
            tables=reader.tables,
            moves=read_moves(reader, block.moved, node),
        )
        return ManifestCatalog(name, config.impl, desired, config, self._resolver, reader.places), reader

    def _config(self, name: str, node: Mapping) -> ConfigText | None:
        what = f"catalog {name}"
        entries = tuple(self._config_entries(node, what))
        impl = self._verbatim(node, "impl", what)
        if impl is None:
            return None
        try:
            implementation = self._implementations.find(impl)
        except (ConfigError, MissingExtraError) as error:
            self._faults.at(node["impl"].place, str(error))
            return None
        source = self._faults.source(node["config"].key_place if "config" in node else node.key_place)
        config = ConfigText(impl, implementation, source, entries)
        for problem in config.problems():
            self._faults.add(problem)
        return config

    def _config_entries(self, node: Mapping, what: str) -> list[ConfigEntry]:
        entries: list[ConfigEntry] = []
        for key, value in self._config_texts(node, what):
            if any(entry.key == key for entry in entries):
                self._faults.at(value.key_place, f"`{key}` in the config of {what} is given twice")
                continue
            try:
                template = self._blocks.template(value.text)
            except TemplateError as error:
                self._faults.at(value.place, str(error))
                continue
            source = self._faults.source(value.key_place)
            entries.append(ConfigEntry(key, template, self._faults.folder(value.place), source))
        return entries

    def _config_texts(self, node: Mapping, what: str) -> Iterator[tuple[str, ScalarNode]]:
        """Yield the keys and values of a ``config``; what is in a block below a key begins with its name."""
        for key, value in self._blocks.children(node, "config", what).items():
            inner = value if isinstance(value, Mapping) else {"": value}
            for name, text in inner.items():
                full = f"{key}.{name}" if name else key
                if isinstance(text, ScalarNode):
                    yield full, text
                else:
                    self._faults.at(text.place, f"`{full}` in the config of {what} is not text; dots join nested names")
