"""Read one catalog's blocks into its desired state; check names, depth, scope, locations and contradictions."""

from __future__ import annotations

import os
from collections.abc import Collection
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, fields
from operator import attrgetter

from reconciler.manifest.blocks import BlockReader
from reconciler.manifest.defaults import BlockText, Defaults
from reconciler.manifest.models import CloneBlock, NamespaceBlock, TableBlock, TableCloneBlock
from reconciler.manifest.nodes import Mapping, Node, Position, ScalarNode, entries_of
from reconciler.manifest.variables import is_from_outside, is_unresolved, parse_template, rebase
from reconciler.model import locations, ownership
from reconciler.model.capabilities import Capabilities, LocationPolicy
from reconciler.model.desired import CloneAt, DesiredClone, DesiredNamespace, DesiredTable, Expectations, Origin
from reconciler.model.display import count
from reconciler.model.hosts import hosts_in
from reconciler.model.maintenance import Maintain
from reconciler.model.names import EVERYTHING, Identifier, Scope, address
from reconciler.model.redaction import is_sensitive, is_stand_in
from reconciler.model.tags import TagTarget, branch_name_problem, tag_name_problem

_BELOW_NAMESPACE = ("defaults", "tables", "namespaces")
_NO_PROPERTIES: MappingOf[str, str] = {}
_REUSABLE_KEYS = frozenset({"properties", "evolve", "extra_columns", "probe", "protect"})
_MAX_REUSED = 2**12
_REUSED_FIELDS = attrgetter(*(each.name for each in fields(DesiredTable) if each.name not in ("id", "source")))
_FORBIDDEN_IF_ABSENT = (
    "schema",
    "location",
    "properties",
    "evolve",
    "extra_columns",
    "expect",
    "maintain",
    "tags",
    "clone",
)


@dataclass
class CatalogBlockReader:
    """Reads the namespaces and tables of one catalog; errors go to the problems of ``blocks``.

    Args:
        root: the catalog's root, if known.
        namespaces, tables: filled by :meth:`read`.
        relative: absolute locations of tables whose blocks have relative ones.
        hidden_locations: templates of locations that the environment or a file decides, by directory.
        has_mirror: whether the catalog mirrors another one.
        mirror_defaults: with a mirror, the defaults of tables without a block, by namespace.
        clones: the ``clone`` of each table that has one, with the subject of its errors and the table that it names.
    """

    blocks: BlockReader
    catalog: str
    impl: str
    capabilities: Capabilities
    scope: Scope = EVERYTHING
    root: str | None = None
    namespaces: dict[Identifier, DesiredNamespace] = field(default_factory=dict)
    tables: dict[Identifier, DesiredTable] = field(default_factory=dict)
    relative: dict[Identifier, str] = field(default_factory=dict)
    hidden_locations: dict[str, str] = field(default_factory=dict)
    has_mirror: bool = False
    mirror_defaults: dict[Identifier, DesiredTable] = field(default_factory=dict)
    clones: list[tuple[Node, str, Origin]] = field(default_factory=list)
    _first_positions: dict[tuple[str, Identifier], tuple[Position, str]] = field(default_factory=dict)

    def read(self, node: Node, defaults: Defaults) -> None:
        """Read everything below the catalog's block; ``defaults`` are those of the manifest."""
        self._read_children(node, (), f"catalog {self.catalog}", defaults, absent=False)

    def _read_children(self, node: Node, parent: Identifier, subject: str, above: Defaults, *, absent: bool) -> None:
        defaults = above.below(self.blocks, node, subject, self.property_problem)
        if self.has_mirror and (defaults is not above or not parent):
            self._add_mirror_defaults(parent, node, subject, defaults)
        tables = self.blocks.children(node, "tables", subject)
        problem = self.capabilities.table_depth_problem(len(parent)) if tables else None
        if problem is not None:
            parent_label = f"{address(self.catalog, parent)} ({self.impl})"
            self.problem(entries_of(node)["tables"], f"tables in {parent_label} are {problem}")
        for name in list(tables):
            child = tables.pop(name)  # holding a million tables twice takes too much memory
            identifier = self._identifier(parent, name, child, "table")
            if identifier is not None:
                self._read_table(identifier, child, absent, defaults)
        namespaces, most = self.blocks.children(node, "namespaces", subject), self.capabilities.max_depth
        if namespaces and most is not None and len(parent) == most:
            self.problem(
                entries_of(node)["namespaces"],
                f"namespaces in {address(self.catalog, parent)} are {most + 1} levels deep; "
                f"{self.impl} has at most {count(most, 'level')}",
            )
        for name, child in namespaces.items():
            identifier = self._identifier(parent, name, child, "namespace")
            if identifier is not None:
                self._read_namespace(identifier, child, absent, defaults)

    def problem(self, node: Node, message: str) -> None:
        """Add an error at the key of ``node``."""
        self.blocks.problems.add_at(node.key_position, message)

    def _identifier(self, parent: Identifier, name: str, node: Node, kind: str) -> Identifier | None:
        reason = self.capabilities.name_problem(name)
        if reason is not None and not is_unresolved(name):
            self.problem(node, f"{kind} `{name}` in {address(self.catalog, parent)} ({self.impl}): {reason}")
            return None
        identifier = (*parent, self.capabilities.folded(name))
        if self.capabilities.folds_case:
            position, first = self._first_positions.setdefault((kind, identifier), (node.key_position, name))
            if position != node.key_position:
                other = f"{self.blocks.problems.locate(position)} `{first}`"
                self.problem(
                    node, f"{kind} `{name}` and {other} are one name in {self.catalog} ({self.impl} folds case)"
                )
                return None
        return identifier

    def _check_scope(self, identifier: Identifier, node: Node, subject: str, *, is_path: bool = False) -> None:
        is_inside = self.scope.contains(identifier) or (is_path and self.scope.reaches(identifier))
        if not (is_inside or any(map(is_unresolved, identifier))):
            self.problem(node, f"{subject} is outside of the catalog's scope: {', '.join(self.scope.patterns)}")

    def _check_absent(self, node: Node, block: NamespaceBlock | TableBlock, subject: str, parent_absent: bool) -> None:
        keys = entries_of(node)
        for key in _FORBIDDEN_IF_ABSENT if block.absent else ():
            if key in keys:
                self.problem(keys[key], f"`{key}` in {subject} contradicts `absent: true`")
        if block.absent and block.protect:
            self.problem(keys["protect"], f"`protect: true` in {subject} contradicts `absent: true`")
        if parent_absent and not block.absent:
            self.problem(node, f"{subject} is in a namespace that is absent; expected `absent: true` here too")

    # ---- namespaces

    def _read_namespace(self, identifier: Identifier, node: Node, parent_absent: bool, defaults: Defaults) -> None:
        subject = f"namespace {address(self.catalog, identifier)}"
        own_node, node = node, defaults.namespace(self.blocks, node, subject)
        if self.blocks.traced_address == address(self.catalog, identifier):
            self.blocks.record_origins(own_node, node)
        block = self.blocks.read(NamespaceBlock, node, subject, _BELOW_NAMESPACE)
        if block is not None:
            managed_keys = [key for key in ("properties", "absent", "protect") if getattr(block, key) is not None]
            self._check_namespace(identifier, node, block, subject, managed_keys)
            self._check_absent(node, block, subject, parent_absent)
            self.namespaces[identifier] = DesiredNamespace(
                id=identifier,
                source=self.blocks.problems.source(node.key_position),
                properties=self.properties(block.properties, node, subject, self.capabilities.namespace_places),
                is_claimed=bool(managed_keys),
                absent=bool(block.absent),
                protect=block.protect,
                kind=block.kind,
                secret_keys=self.secret_keys(node, block.properties),
            )
        self._read_children(node, identifier, subject, defaults, absent=block is not None and bool(block.absent))

    def _check_namespace(
        self, identifier: Identifier, node: Node, block: NamespaceBlock, subject: str, managed_keys: list[str]
    ) -> None:
        keys, capabilities = entries_of(node), self.capabilities
        if managed_keys and len(identifier) <= capabilities.fixed_levels:
            reason = f"{self.impl} has this level already; it is never created, marked or dropped"
            self.problem(keys[managed_keys[0]], f"`{managed_keys[0]}` in {subject}: {reason}")
        kinds = capabilities.namespace_kinds
        if block.kind is not None and kinds is None:
            self.problem(keys["kind"], f"`kind` in {subject}: {self.impl} has one kind of namespace only")
        elif block.kind is not None and kinds is not None and block.kind not in kinds:
            self.problem(keys["kind"], f"`kind` in {subject} is `{block.kind}`, expected `{kinds[0]}` or `{kinds[1]}`")
        table = self.tables.get(identifier)
        if capabilities.one_name_space and table is not None and not (table.absent or block.absent):
            self.problem(
                node,
                f"{subject} has the name of the table at {table.source.exact}; {self.impl} has one object of a name",
            )
        self._check_scope(identifier, node, subject, is_path=not managed_keys)

    # ---- tables

    def _read_table(self, identifier: Identifier, node: Node, parent_absent: bool, defaults: Defaults) -> None:
        subject = f"table {address(self.catalog, identifier)}"
        self._check_scope(identifier, node, subject)
        is_traced = self.blocks.traced_address == address(self.catalog, identifier)
        text = None if parent_absent or is_traced else _reusable_text(node)
        reused_fields = defaults.tables_by_text.get(text)
        if reused_fields is not None:
            source = self.blocks.problems.source(node.key_position)
            self.tables[identifier] = DesiredTable(identifier, source, *reused_fields)
            return
        before = len(self.blocks.problems)
        own_node, node = node, defaults.table(self.blocks, node, subject)
        if is_traced:
            self.blocks.record_origins(own_node, node)
        table = self._desired_table(identifier, node, subject, parent_absent)
        if table is None:
            return
        self.tables[identifier] = table
        is_reusable = text is not None and _reusable_text(node) is not None and len(self.blocks.problems) == before
        if is_reusable and len(defaults.tables_by_text) < _MAX_REUSED:
            defaults.tables_by_text[text] = _REUSED_FIELDS(table)

    def _desired_table(
        self, identifier: Identifier, node: Node, subject: str, parent_absent: bool = False
    ) -> DesiredTable | None:
        schema_node = entries_of(node).get("schema")
        name_node = schema_node if isinstance(schema_node, ScalarNode) and not schema_node.is_null else None
        block = self.blocks.read(TableBlock, node, subject, () if name_node is None else ("schema",))
        if block is None:
            return None
        self._check_absent(node, block, subject, parent_absent)
        schema = None
        if name_node is not None:
            schema = self.blocks.named_schema(name_node, subject)
        elif block.schema_ is not None:
            schema = self.blocks.columns(block.schema_, entries_of(node)["schema"], subject)
        return DesiredTable(
            id=identifier,
            source=self.blocks.problems.source(node.key_position),
            properties=self.properties(block.properties, node, subject),
            location=self._absolute_location(identifier, block, node, subject),
            schema=schema,
            evolve=block.evolve,
            extra_columns=block.extra_columns,
            probe=block.probe,
            expect=Expectations(**block.maintain.expect_fields(block.expect)),
            maintain=Maintain(**block.maintain.maintain_fields()),
            absent=block.absent,
            protect=block.protect,
            secret_keys=self.secret_keys(node, block.properties),
            tags=self._tags(block, node, subject),
            clones=self._clone(block, node, subject),
        )

    def _clone(self, block: TableBlock, node: Node, subject: str) -> DesiredClone | None:
        """Return what a table is a clone of; :func:`check_clones` checks it once all catalogs are read."""
        if block.clone is None:
            return None
        clone_node = entries_of(node)["clone"]
        if not block.probe:
            self.problem(clone_node, f"`clone` in {subject} contradicts `probe: false`: the version is looked up")
        catalog, *names = block.clone.of.split("/")
        origin = Origin(catalog, tuple(names))
        self.clones.append((clone_node, subject, origin))
        at = self.clone_at(block.clone, clone_node, f"the clone of {subject}")
        if at.follow and block.location is not None:
            reason = "each new clone gets a location of its own"
            self.problem(clone_node, f"`follow` in the clone of {subject} contradicts `location`: {reason}")
        return DesiredClone(origin, at)

    def clone_at(self, block: CloneBlock | TableCloneBlock, node: Node, subject: str) -> CloneAt:
        """Return the version that ``at`` of a clone names; an error for a tag that cannot be one, or cannot move."""
        at, tag = block.at, entries_of(entries_of(node).get("at")).get("tag")
        problem = tag_name_problem(at.tag) if at.tag is not None else None
        if problem and tag is not None and self.blocks.is_known(tag):
            self.blocks.problems.add_at(tag.position, f"`at.tag` in {subject} is `{at.tag}`: {problem}")
        if block.follow and at.tag is None:
            expected = "expected a tag to follow: `at: {tag: NAME}`"
            self.problem(entries_of(node)["follow"], f"`follow` in {subject} has no tag; {expected}")
        return CloneAt(at.tag, at.version, block.pin, block.follow)

    def _tags(self, block: TableBlock, node: Node, subject: str) -> MappingOf[str, str]:
        tag_nodes = entries_of(entries_of(node).get("tags"))
        for name, tag in block.tags.items():
            if problem := tag_name_problem(name):
                self.problem(tag_nodes[name], f"tag `{name}` in {subject}: {problem}")
            if not is_unresolved(tag.branch) and (problem := branch_name_problem(tag.branch)):
                branch_node = entries_of(tag_nodes[name])["branch"]
                self.problem(branch_node, f"branch `{tag.branch}` of tag `{name}` in {subject}: {problem}")
        if block.tags and not block.probe:
            self.problem(
                entries_of(node)["tags"], f"`tags` in {subject} contradicts `probe: false`: versions are looked up"
            )
        return {name: str(TagTarget(tag.version, tag.branch)) for name, tag in sorted(block.tags.items())}

    def _add_mirror_defaults(self, namespace: Identifier, node: Node, subject: str, defaults: Defaults) -> None:
        """Add the defaults of tables without a block in ``namespace`` to ``mirror_defaults``."""
        empty = ScalarNode(node.position, node.key_position, "", is_null=True)
        subject = f"the defaults of {subject}"
        table = self._desired_table(namespace, defaults.table(self.blocks, empty, subject), subject)
        if table is not None:
            self.mirror_defaults[namespace] = table

    def _absolute_location(self, identifier: Identifier, block: TableBlock, node: Node, subject: str) -> str | None:
        if block.location is None:
            return None
        value = entries_of(node)["location"]
        if not self.blocks.is_known(value):
            return block.location
        template = value.text if isinstance(value, ScalarNode) else ""
        is_secret = is_from_outside(template)
        reason = self._location_problem(block.location, is_secret)
        if reason is not None:
            self.blocks.problems.add_at(value.position, f"`location` in {subject}: {reason}")
            return None
        folder, top = self.blocks.problems.folder(value.position), self.blocks.problems.files[0].folder
        location = locations.absolute(block.location, folder)
        if location != block.location:
            self.relative[identifier] = location
        if is_secret:
            # The template is shown relative to the first file, and this file may be in another folder.
            prefix, is_relative = (
                os.path.relpath(folder, top) if folder != top else ".",
                location != block.location,
            )
            seen = template if prefix == "." else rebase(parse_template(template), prefix, is_relative=is_relative)
            directory, text = _hidden_part(location, seen)
            self.hidden_locations[directory] = text
        under_root = self.capabilities.location_policy is LocationPolicy.UNDER_ROOT
        if under_root and self.root is not None and not locations.is_under(self.root, location):
            shown = template if is_secret else locations.redact(location)
            expected = (
                f"expected a location under {self.catalog}'s root; other data needs a catalog with another `root`"
            )
            self.blocks.problems.add_at(value.position, f"`location` in {subject} is {shown}, {expected}")
        return location

    def _location_problem(self, location: str, is_secret: bool) -> str | None:
        policy = self.blocks.policy
        reason = locations.table_problem(location)
        if reason is None and not all(map(policy.admits, hosts_in("location", location))):
            return "it names a host that is not allowed; --allow-host names those that are"
        if reason is None and is_secret and (refusal := policy.bucket_refusal(location)) is not None:
            return f"it {refusal}"
        return reason or locations.foreign_text(location)

    # ---- properties

    def secret_keys(self, node: Node, properties: MappingOf[str, str] | None) -> frozenset[str]:
        """Return the properties with values from the environment or a file that do not look like secrets."""
        value_nodes = entries_of(entries_of(node).get("properties"))
        return frozenset(
            key
            for key, value in (properties or {}).items()
            if _is_from_outside(value_nodes.get(key)) and not is_sensitive(key, value)
        )

    def properties(
        self, properties: MappingOf[str, str] | None, node: Node, subject: str, location_keys: Collection[str] = ()
    ) -> MappingOf[str, str]:
        """Return the properties of the block at ``node``; errors in them go to the problems.

        ``location_keys`` are those that hold the location of its tables.
        """
        if not properties:
            return _NO_PROPERTIES
        value_nodes = entries_of(entries_of(node)["properties"])
        for key, value in properties.items():
            problem, entry = self.property_problem(key, value, subject), value_nodes[key]
            reason = None
            if problem is None and key in location_keys and self.blocks.is_known(entry):
                reason = self._location_problem(value, _is_from_outside(entry))
            elif problem is None and _is_from_outside(entry):
                # Another service may take any property of a namespace as the location of its tables.
                reason = self.blocks.policy.bucket_refusal(value)
            if reason is not None:
                problem = f"property `{key}` in {subject}: {reason}"
            if problem is not None:
                self.problem(entry, problem)
        return properties

    def property_problem(self, key: str, value: str, subject: str) -> str | None:
        """Return why ``subject`` cannot have this property, None when it can."""
        if ownership.is_reserved_key(key):
            return f"property `{key}` in {subject} is reserved for catalogs and lancens"
        if not key:
            return f"a property of {subject} has no name"
        if is_stand_in(value):
            # A saved plan holds no secrets, so that apply could not tell this text from one.
            return (
                f"property `{key}` in {subject} is `{value}`, which lancens shows instead of a secret; "
                "expected the value itself, such as `${env:NAME}`"
            )
        problem = self.capabilities.property_problem(key, value)
        return None if problem is None else f"property `{key}` in {subject} ({self.impl}): {problem}"


def _hidden_part(location: str, template: str) -> tuple[str, str]:
    """Return the directory of ``location`` up to the last placeholder in ``template``, and its text there.

    A million tables may share that directory, and each entry costs time. Without such a directory, return both whole.
    """
    start, end, tail = template.rpartition("}")
    name, slash, below = tail.partition("/")
    directory = location.removesuffix(slash + below)
    if any(locations.names_in(directory)) and locations.is_under(directory, location):
        return directory, start + end + name
    return location, template


def _is_from_outside(node: Node | None) -> bool:
    return isinstance(node, ScalarNode) and is_from_outside(node.text)


def _reusable_text(node: Node) -> BlockText | None:
    """Return the text of a block that gives the same table everywhere, as a key to check equal blocks once.

    None if its meaning depends on the table, its file or the environment, or if it is invalid.
    """
    if not isinstance(node, Mapping):
        return () if isinstance(node, ScalarNode) and node.is_null else None
    entries: list[tuple[str, str | BlockText]] = []
    for key, value in node.items():
        if key not in _REUSABLE_KEYS:
            return None
        if isinstance(value, Mapping) and key == "properties":
            texts = []
            for name, text in value.items():
                if not isinstance(text, ScalarNode) or text.is_null or "${" in text.text:
                    return None
                texts.append((name, text.text))
            entries.append((key, tuple(texts)))
        elif isinstance(value, ScalarNode) and not value.is_null and "${" not in value.text:
            entries.append((key, value.text))
        else:
            return None
    return tuple(entries)
