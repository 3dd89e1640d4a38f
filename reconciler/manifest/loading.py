"""Load a manifest: files, blocks, and the desired state of each catalog, with all errors in one report."""

from __future__ import annotations

import os
from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.manifest.blocks import BlockReader
from reconciler.manifest.catalogs import CatalogBlockReader
from reconciler.manifest.config import ConfigEntry, ConfigText, Implementation, Implementations
from reconciler.manifest.defaults import Defaults
from reconciler.manifest.files import Content, folders_of, read_files, read_variables_beside
from reconciler.manifest.habits import foreign_file, is_config_key
from reconciler.manifest.lookalikes import lookalikes
from reconciler.manifest.manifest import Manifest, ManifestCatalog, digest_of, service_problems
from reconciler.manifest.mirrors import check_cycles, check_mirrors, cloned_catalogs, read_mirror
from reconciler.manifest.models import CatalogBlock, ManifestFile, SuppressBlock
from reconciler.manifest.moves import read_moves
from reconciler.manifest.nodes import Mapping, Node, ScalarNode, Sequence, entries_of, is_block
from reconciler.manifest.policy import OPEN, Policy
from reconciler.manifest.problems import Problems
from reconciler.manifest.table_policies import read_policies
from reconciler.manifest.variables import (
    FileValue,
    Placeholder,
    Resolver,
    Template,
    TemplateError,
    environment_values,
    is_literal,
    is_unresolved,
)
from reconciler.model.capabilities import Capabilities
from reconciler.model.collector import collector_paused
from reconciler.model.desired import DesiredCatalog, Source, Suppression, Thresholds
from reconciler.model.display import did_you_mean
from reconciler.model.errors import ConfigError, MissingExtraError, Problem
from reconciler.model.names import address, check_name
from reconciler.model.ownership import owner_name
from reconciler.model.redaction import is_sensitive_key, redact_value, scrub
from reconciler.model.secret_forms import REDACTED

_BELOW_CATALOG = ("clone", "config", "defaults", "mirror", "namespaces", "policies", "tables")


def load(
    paths: SequenceOf[str | os.PathLike[str]],
    implementations: Implementations,
    *,
    variables: MappingOf[str, str] | None = None,
    policy: Policy = OPEN,
    traced: str | None = None,
) -> Manifest:
    """Return the manifest in the given files and folders, with their includes merged.

    Placeholders in a catalog's ``config`` are checked for their form and left unresolved. All others are resolved from
    the environment, variables and files, as far as ``policy`` allows. The value of a variable is in ``variables``, in
    the environment (``LANCENS_VAR_name``) or in ``lancens.vars.yaml`` beside the manifest; the first wins.
    ``traced`` is the address of an object: ``origins`` of the manifest says what writes its values.

    Raises:
        ManifestError: with every error of every file.
    """
    problems = Problems()
    with collector_paused():
        folders, variables = folders_of(paths), variables or {}
        beside = read_variables_beside(folders, policy)
        resolver = Resolver(policy, {**beside, **environment_values(), **variables}, folders)
        content = read_files(paths, problems, resolver)
        if not problems.files:
            problems.raise_if_any()
        blocks = BlockReader(problems, resolver, traced)
        return _Loader(problems, resolver, blocks, content, implementations).manifest(beside, variables)


def manifest_of_service(impl: str, implementation: Implementation, properties: MappingOf[str, str]) -> Manifest:
    """Return a manifest of one catalog, ``impl`` with ``properties``, in which nothing is desired.

    Raises:
        ConfigError: ``properties`` cannot be used.
    """
    catalog, file, folder = "main", "--config", str(Path.cwd())
    source, thresholds = Source(file, 0, 0), Thresholds()
    entries = tuple(ConfigEntry(key, (text,), folder, source) for key, text in properties.items())
    config = ConfigText(impl, implementation, source, entries)
    problems = [problem.message.removeprefix("config: ") for problem in config.problems()]
    known = config.known_config()
    if problems or known is None:
        raise ConfigError(f"{file} of {impl}: {'; '.join(problems)}")
    name = f"{impl}: {known.identity()}"  # by which audits find the earlier ones of the same service
    desired = DesiredCatalog(name=catalog, owner=f"no manifest/{catalog}", source=source)
    catalogs = {catalog: ManifestCatalog(catalog, impl, desired, config, Resolver(Policy(outside=True)))}
    return Manifest(name, digest_of(name, thresholds, [], folder), (), folder, thresholds, catalogs)


@dataclass(frozen=True, slots=True)
class _Loader:
    """Reads the merged content of all files as a manifest."""

    _problems: Problems
    _resolver: Resolver
    _blocks: BlockReader
    _content: Content
    _implementations: Implementations

    def manifest(self, beside: MappingOf[str, str], variables: MappingOf[str, str]) -> Manifest:
        """Return the manifest.

        A name in ``beside``, the variables of ``lancens.vars.yaml``, or in ``variables`` that it does not use is a
        warning or an error.
        """
        root, subject, folder = self._content.root, "the manifest", self._resolver.folders[0]
        self._refuse_foreign_file(root)
        top = self._blocks.read(ManifestFile, root, subject, ("catalogs", "defaults")) or ManifestFile()
        is_part = root and not {"name", "version"} & root.keys()
        included = "; if another manifest includes this file, give that one" if is_part else ""
        self._require(root, "name", subject, f"expected a name, such as `name: feature-store`{included}")
        name, identity = (
            self._manifest_name(root, subject),
            self._verbatim(root, "id", subject) if "id" in root else None,
        )
        self._require(root, "version", subject, "expected `version: 1`")
        if "schemas" in root:
            self._blocks.read_schemas(top.schemas, root["schemas"])
        nodes = self._blocks.children(root, "catalogs", subject)
        self._require(root, "catalogs", subject, "expected a block with a name for each catalog")
        owners = {each: owner_name(name, each, identity) for each in nodes}
        read = {each: pair for each, node in nodes.items() if (pair := self._read_catalog(owners[each], each, node))}
        catalogs = self._add_mirrors(read, nodes)
        for problem in service_problems((catalog, catalog.config.known_config()) for catalog in catalogs.values()):
            self._problems.add(problem)
        # An unreadable part may use them.
        warnings = () if self._problems else tuple(self._warnings({**beside, **variables}, catalogs))
        self._raise_problems(catalogs)
        thresholds = Thresholds(top.safety.max_removal_percent, top.safety.min_tables)
        used = {key: value for key, value in self._resolver.variables.items() if key in self._resolver.used}
        digests = [(catalog, read[each][1].relative) for each, catalog in catalogs.items()]
        return Manifest(
            name=name,
            digest=digest_of("/".join(filter(None, (name, identity))), thresholds, digests, folder),
            files=tuple(file.name for file in self._problems.files),
            folder=folder,
            thresholds=thresholds,
            catalogs=catalogs,
            origins=self._blocks.origins,
            variables=used,
            given={
                key: REDACTED if key in self._resolver.secret else scrub(redact_value(key, value), ())
                for key, value in sorted(used.items())
                if beside.get(key) != value
            },
            warnings=warnings,
            identity=identity,
        )

    def _raise_problems(self, catalogs: MappingOf[str, ManifestCatalog]) -> None:
        """Raise all errors if there are any; where a variable has no value, with those of every ``config``.

        Otherwise, a ``config`` is resolved when its catalog is read.

        Raises:
            ManifestError: there are errors.
        """
        for catalog in catalogs.values() if self._resolver.missing else ():
            for entry in catalog.config.entries:
                try:
                    if self._resolver.knows(entry.template):
                        self._resolver.text(entry.template, entry.folder)
                except TemplateError as error:
                    self._problems.add(entry.source.problem(f"config `{entry.key}`: {error}"))
        self._problems.raise_if_any()

    def _refuse_foreign_file(self, root: Mapping) -> None:
        """Raise one error for a file of another tool, which has an error in every line.

        Raises:
            ManifestError: naming what the file is.
        """
        if not root and not self._problems:
            self._problems.add_in_file(
                self._problems.files[0].name,
                "the manifest has no keys; delete the file, and `lancens init -o FILE` writes one",
            )
            self._problems.raise_if_any()
        kind = foreign_file(root, ManifestFile.model_fields) if root else None
        if kind is not None:
            position = next(iter(root.values())).key_position
            self._problems.add_at(position, f"{kind}, not a manifest of lancens; `lancens init -o NEW.yaml` writes one")
            self._problems.raise_if_any()

    def _add_mirrors(
        self, read: MappingOf[str, tuple[ManifestCatalog, CatalogBlockReader]], nodes: MappingOf[str, Node]
    ) -> dict[str, ManifestCatalog]:
        """Return the catalogs with their mirrors, which can be read once all catalogs are."""
        readers = {name: reader for name, (_, reader) in read.items()}
        optional_mirrors = {name: read_mirror(reader, nodes[name], readers) for name, reader in readers.items()}
        mirrors = {name: mirror for name, mirror in optional_mirrors.items() if mirror is not None}
        check_mirrors(mirrors, self._problems)
        cloned = {name: cloned_catalogs(reader, readers) for name, reader in readers.items()}
        followed = {mirror.origin for mirror in mirrors.values()}.union(*cloned.values())
        desired = {
            name: replace(
                catalog.desired,
                mirror=optional_mirrors[name],
                cloned=cloned[name],
                is_followed=name in followed,
                varies=bool(self._resolver.used),
            )
            for name, (catalog, _) in read.items()
        }
        if not self._problems:
            check_cycles(desired, self._problems)
        return {name: replace(catalog, desired=desired[name]) for name, (catalog, _) in read.items()}

    def _check_unused(self, variables: MappingOf[str, str]) -> Iterator[Problem]:
        """Yield the unused variables of files, which several manifests may share; reject others as typos."""
        used = self._resolver.used
        for name in sorted(variables.keys() - used):
            hint, value = did_you_mean(name, sorted(used)), variables[name]
            message = (
                f"variable `{name}` is defined, but nothing uses it; {hint or f'the manifest has no `${{var:{name}}}`'}"
            )
            if isinstance(value, FileValue):
                yield value.source.problem(message)
            else:
                self._problems.add_in_file(self._problems.files[0].name, message)

    def _warnings(self, variables: MappingOf[str, str], catalogs: MappingOf[str, ManifestCatalog]) -> Iterator[Problem]:
        """Yield what the manifest may hold, and mostly holds by mistake."""
        yield from self._check_unused(variables)
        yield from self._blocks.warnings.values()
        if not catalogs:
            yield self._problems.source(entries_of(self._content.root)["catalogs"].key_position).problem(
                "`catalogs` is empty, so there is nothing to plan; name one, such as "
                "`lake: {impl: dir, config: {root: ./lake}}`"
            )
        for catalog in catalogs.values():
            tables, namespaces = catalog.desired.tables, catalog.desired.namespaces
            for name, other, characters in lookalikes((*namespaces, *tables)):
                yield (tables.get(name) or namespaces[name]).source.problem(
                    f"{address(catalog.name, name)} looks like {address(catalog.name, other)}, and has {characters}"
                )
            for entry in catalog.config.entries:
                if entry.template and is_literal(entry.template) and is_sensitive_key(entry.key):
                    yield entry.source.problem(
                        f"config: `{entry.key}` is written out for every reader of this file; write `${{env:NAME}}` or "
                        "`${file:PATH}`"
                    )

    def _require(self, node: Node, key: str, subject: str, expected: str) -> None:
        model = ManifestFile if node is self._content.root else CatalogBlock
        if self._content.complete and self._blocks.lacks(key, model, node):
            self._problems.add_at(node.key_position, f"{subject} has no `{key}`; {expected}")

    def _manifest_name(self, root: Mapping, subject: str) -> str:
        name = root.get("name")
        if isinstance(name, ScalarNode) and is_unresolved(name.text):
            return name.text
        return self._verbatim(root, "name", subject) or ""

    def _verbatim(self, node: Mapping, key: str, subject: str) -> str | None:
        """Return the text of a key that holds a name; reading the block reports other shapes."""
        value = node.get(key)
        if not isinstance(value, ScalarNode):
            return None
        if "${" in value.text:
            self._problems.add_at(
                value.position, f"`{key}` in {subject} is `{value.text}`: placeholders do not work in `{key}`"
            )
            return None
        reason = check_name(value.text)
        if reason is not None:
            self._problems.add_at(value.position, f"`{key}` in {subject}: {reason}")
            return None
        return value.text

    def _read_catalog(self, owner: str, name: str, node: Node) -> tuple[ManifestCatalog, CatalogBlockReader] | None:
        subject = f"catalog {name}"
        reason = check_name(name)
        if reason is not None and not is_unresolved(name):
            self._problems.add_at(node.key_position, f"catalog `{name}`: {reason}")
        block = self._blocks.read(CatalogBlock, node, subject, _BELOW_CATALOG)
        if block is not None:
            names = ", ".join(f"`{name}`" for name in self._implementations.names())
            self._require(node, "impl", subject, f"expected one of {names}")
        if block is None or not isinstance(node, Mapping):
            return None
        config = self._read_config(name, node)
        capabilities = config.implementation.capabilities if config is not None else Capabilities()
        reader = CatalogBlockReader(
            self._blocks,
            name,
            config.impl if config is not None else "this impl",
            capabilities,
            self._blocks.scope(block.scope, node.get("scope"), f"`scope` in {subject}", capabilities),
            getattr(config.known_config() if config is not None else None, "root", None),
            has_mirror="mirror" in node or "clone" in node,
        )
        above = Defaults().below(self._blocks, self._content.root, "the manifest", reader.property_problem)
        reader.read(node, above)
        if config is None:
            return None
        desired = DesiredCatalog(
            name=name,
            owner=owner,
            source=self._problems.source(node.key_position),
            prune=block.prune,
            scope=reader.scope,
            namespaces=reader.namespaces,
            tables=reader.tables,
            moves=read_moves(reader, block.moved, node),
            suppress=self._suppressions(name, block.suppress, node.get("suppress")),
            policies=tuple(read_policies(reader, node)),
            written_names=self._resolver.written_names,
        )
        return ManifestCatalog(name, config.impl, desired, config, self._resolver, reader.hidden_locations), reader

    def _suppressions(self, catalog: str, blocks: list[SuppressBlock], node: Node | None) -> tuple[Suppression, ...]:
        items = node if blocks and isinstance(node, Sequence) else []  # a list with an error is read as empty
        return tuple(
            Suppression(catalog, **dict(block), source=self._problems.source(item.position))
            for block, item in zip(blocks, items, strict=True)
        )

    def _read_config(self, name: str, node: Mapping) -> ConfigText | None:
        subject = f"catalog {name}"
        entries = tuple(self._config_entries(node, subject))
        impl = self._verbatim(node, "impl", subject)
        if impl is None:
            return None
        try:
            implementation = self._implementations.find(impl)
        except (ConfigError, MissingExtraError) as error:
            self._problems.add_at(node["impl"].position, str(error))
            return None
        source = self._problems.source(node["config"].key_position if "config" in node else node.key_position)
        config = ConfigText(impl, implementation, source, entries)
        config.hide_variables(self._resolver)
        is_readable = is_block(node["config"]) if "config" in node else not any(map(is_config_key, node))
        if is_readable:
            for problem in config.problems():
                self._problems.add(problem)
        return config

    def _config_entries(self, node: Mapping, subject: str) -> Iterator[ConfigEntry]:
        """Yield the entries of a ``config``; the keys of a nested block are prefixed with its name."""
        seen: set[str] = set()
        for key, value in self._blocks.children(node, "config", subject).items():
            for name, text in (value if isinstance(value, Mapping) else {"": value}).items():
                full = f"{key}.{name}" if name else key
                label = f"`{full}` in the config of {subject}"
                if full in seen:
                    self._problems.add_at(text.key_position, f"{label} is a duplicate key")
                    continue
                seen.add(full)
                template: Template = (Placeholder("env", ""),)  # after an error: the key is there, its value unknown
                try:
                    if isinstance(text, ScalarNode):
                        template = self._resolver.template(text.text)
                    else:
                        is_list = isinstance(text, Sequence)
                        shape = "a list" if is_list else "a block of keys; dots join nested names"
                        self._problems.add_at(text.position, f"{label}: expected one text but found {shape}")
                except TemplateError as error:
                    self._problems.add_at(text.position, str(error))
                source = self._problems.source(text.key_position)
                yield ConfigEntry(
                    key=full, template=template, folder=self._problems.folder(text.position), source=source
                )
