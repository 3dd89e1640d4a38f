"""One catalog's blocks to desired state: names, depth, scope, locations and what a block may say together."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field

from reconciler.manifest.blocks import BlockReader, entries_of
from reconciler.manifest.columns import NamedSchemas, read_columns
from reconciler.manifest.defaults import Defaults, Said
from reconciler.manifest.models import NamespaceBlock, TableBlock
from reconciler.manifest.nodes import Mapping, Node, Place, ScalarNode
from reconciler.manifest.reach import bucket_refusal
from reconciler.manifest.variables import is_from_outside
from reconciler.model import locations, ownership
from reconciler.model.capabilities import Capabilities, LocationPolicy
from reconciler.model.columns import Schema
from reconciler.model.desired import DesiredNamespace, DesiredTable, Expectations
from reconciler.model.hosts import hosts_in
from reconciler.model.limits import folded, name_problem, property_problem, table_depth_problem
from reconciler.model.names import EVERYTHING, Identifier, Scope, address
from reconciler.model.redaction import is_sensitive, is_stand_in

_BELOW_NAMESPACE = ("defaults", "tables", "namespaces")
_NO_PROPERTIES: MappingOf[str, str] = {}
_MEAN_THE_SAME = frozenset({"properties", "evolve", "extra_columns", "probe", "protect"})
_MOST_ALIKE = 2**12


@dataclass
class CatalogReader:
    """Collects the namespaces and tables of one catalog.

    ``root`` is the catalog's root where it is known. ``relative`` holds the locations that were written relative.
    ``schemas`` are those that tables may name. Where there is a mirror, ``mirror_defaults`` gets what a table without a
    block says, by the namespace in which it does.
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
    places: dict[str, str] = field(default_factory=dict)
    schemas: NamedSchemas = field(default_factory=NamedSchemas)
    has_mirror: bool = False
    mirror_defaults: dict[Identifier, DesiredTable] = field(default_factory=dict)
    _places: dict[tuple[str, Identifier], tuple[Place, str]] = field(default_factory=dict)

    def read(self, node: Node, defaults: Defaults) -> None:
        """Read everything below the catalog's block; ``defaults`` are what the manifest says for all catalogs."""
        self._below(node, (), f"catalog {self.catalog}", defaults, absent=False)

    def _below(self, node: Node, parent: Identifier, what: str, above: Defaults, *, absent: bool) -> None:
        defaults = above.below(self.blocks, node, what, self.property_fault)
        if self.has_mirror and (defaults is not above or not parent):
            self._note_defaults(parent, node, what, defaults)
        tables = self.blocks.children(node, "tables", what)
        if tables:
            self._check_table_depth(node, parent)
        for name in list(tables):
            child = tables.pop(name)  # a million tables need not be held as nodes and as desired state
            identifier = self._identifier(parent, name, child, "table")
            if identifier is not None:
                self._table(identifier, child, absent, defaults)
        namespaces = self.blocks.children(node, "namespaces", what)
        if namespaces:
            self._check_depth(node, parent)
        for name, child in namespaces.items():
            identifier = self._identifier(parent, name, child, "namespace")
            if identifier is not None:
                self._namespace(identifier, child, absent, defaults)

    def fault(self, place: Place, message: str) -> None:
        """Add a fault at ``place``."""
        self.blocks.faults.at(place, message)

    def _at(self, node: Node | Place, message: str) -> None:
        self.fault(node if isinstance(node, int) else node.key_place, message)

    # ---- names

    def _identifier(self, parent: Identifier, name: str, node: Node, kind: str) -> Identifier | None:
        reason = name_problem(self.capabilities, name)
        if reason is not None:
            self._at(node, f"{kind} `{name}` in {address(self.catalog, parent)} ({self.impl}): {reason}")
            return None
        identifier = (*parent, folded(self.capabilities, name))
        if self.capabilities.folds_case:
            first = self._places.setdefault((kind, identifier), (node.key_place, name))
            if first[0] != node.key_place:
                shown = self.blocks.faults.shown(first[0])
                self._at(
                    node,
                    f"{kind} `{name}` and {shown} `{first[1]}` are one name in {self.catalog} ({self.impl} folds case)",
                )
                return None
        return identifier

    def _check_depth(self, node: Node, parent: Identifier) -> None:
        most = self.capabilities.max_depth
        if most is not None and len(parent) == most:
            here = address(self.catalog, parent)
            self._at(
                entries_of(node)["namespaces"],
                f"namespaces in {here} are {most + 1} levels deep; {self.impl} has at most {_levels(most)}",
            )

    def _check_table_depth(self, node: Node, parent: Identifier) -> None:
        problem = table_depth_problem(self.capabilities, len(parent))
        if problem is not None:
            here = address(self.catalog, parent)
            self._at(entries_of(node)["tables"], f"tables in {here} ({self.impl}) are {problem}")

    # ---- namespaces

    def _namespace(self, identifier: Identifier, node: Node, parent_absent: bool, defaults: Defaults) -> None:
        what = f"namespace {address(self.catalog, identifier)}"
        node = defaults.namespace(self.blocks, node, what)
        block = self.blocks.read(NamespaceBlock, node, what, _BELOW_NAMESPACE)
        absent = False
        if block is not None:
            absent = bool(block.absent)
            claimed = block.properties is not None or block.absent is not None or block.protect is not None
            self._check_namespace(identifier, node, block, what, claimed)
            if parent_absent and not absent:
                self._at(node, f"{what} stands in a namespace that is absent; expected `absent: true` here too")
            self.namespaces[identifier] = DesiredNamespace(
                id=identifier,
                source=self.blocks.faults.source(node.key_place),
                properties=self._properties(block.properties, node, what),
                claimed=claimed,
                absent=absent,
                protect=block.protect,
                kind=block.kind,
                secret_keys=self._secret_keys(node, block.properties),
            )
        self._below(node, identifier, what, defaults, absent=absent)

    def _check_namespace(
        self, identifier: Identifier, node: Node, block: NamespaceBlock, what: str, claimed: bool
    ) -> None:
        keys = entries_of(node)
        if claimed and len(identifier) <= self.capabilities.fixed_levels:
            said = next(key for key in ("properties", "absent", "protect") if key in keys)
            self._at(
                keys[said],
                f"`{said}` in {what}: {self.impl} has this level already; it is never made, marked or dropped",
            )
        if block.absent and block.properties is not None:
            self._at(keys["properties"], f"`properties` in {what} contradicts `absent: true`")
        if block.absent and block.protect:
            self._at(keys["protect"], f"`protect: true` in {what} contradicts `absent: true`")
        kinds = self.capabilities.namespace_kinds
        if block.kind is not None and kinds is None:
            self._at(keys["kind"], f"`kind` in {what}: {self.impl} has one kind of namespace only")
        elif block.kind is not None and kinds is not None and block.kind not in kinds:
            self._at(keys["kind"], f"`kind` in {what} is `{block.kind}`, expected `{kinds[0]}` or `{kinds[1]}`")
        table = self.tables.get(identifier)
        if self.capabilities.one_name_space and table is not None and not (table.absent or block.absent):
            there = f"{table.source}:{table.source.column}"
            self._at(
                node,
                f"{what} has the name of the table at {there}; {self.impl} has one object of a name",
            )
        if not self.scope.contains(identifier) and (claimed or not self.scope.reaches(identifier)):
            self._outside(node, what)

    def _outside(self, node: Node, what: str) -> None:
        self._at(node, f"{what} is outside of the catalog's scope: {', '.join(self.scope.patterns)}")

    # ---- tables

    def _table(self, identifier: Identifier, node: Node, parent_absent: bool, defaults: Defaults) -> None:
        what = f"table {address(self.catalog, identifier)}"
        if not self.scope.contains(identifier):
            self._outside(node, what)
        source = self.blocks.faults.source(node.key_place)
        said = None if parent_absent else _said_alone(node)
        alike = defaults.alike.get(said)
        if alike is not None:
            self.tables[identifier] = DesiredTable(
                identifier,
                source,
                alike.properties,
                evolve=alike.evolve,
                probe=alike.probe,
                protect=alike.protect,
                extra_columns=alike.extra_columns,
            )
            return
        faults = len(self.blocks.faults)
        node = defaults.table(self.blocks, node, what)
        written = entries_of(node).get("schema")
        named = written if isinstance(written, ScalarNode) and not written.is_null else None
        block = self.blocks.read(TableBlock, node, what, () if named is None else ("schema",))
        if block is None:
            return
        if parent_absent and not block.absent:
            self._at(node, f"{what} stands in a namespace that is absent; expected `absent: true` here too")
        if block.absent:
            self._check_absent(node, block, what)
        self.tables[identifier] = DesiredTable(
            id=identifier,
            source=source,
            properties=self._properties(block.properties, node, what),
            location=self._location(identifier, block, node, what),
            schema=self._schema(block, node, what) if named is None else self.schemas.find(self.blocks, named, what),
            evolve=block.evolve,
            extra_columns=block.extra_columns,
            probe=block.probe,
            expect=_expectations(block),
            absent=block.absent,
            protect=block.protect,
            secret_keys=self._secret_keys(node, block.properties),
        )
        is_alike = said is not None and _said_alone(node) is not None and len(self.blocks.faults) == faults
        if is_alike and len(defaults.alike) < _MOST_ALIKE:
            defaults.alike[said] = self.tables[identifier]

    def _note_defaults(self, namespace: Identifier, node: Node, what: str, defaults: Defaults) -> None:
        """Keep what a table in ``namespace`` says that has no block."""
        empty = ScalarNode(node.place, node.key_place, "", is_null=True)
        said = defaults.table(self.blocks, empty, what)
        block = TableBlock() if said is empty else self.blocks.read(TableBlock, said, f"the defaults of {what}")
        if block is not None:
            self.mirror_defaults[namespace] = DesiredTable(
                id=namespace,
                source=self.blocks.faults.source(node.key_place),
                properties=block.properties,
                evolve=block.evolve,
                extra_columns=block.extra_columns,
                probe=block.probe,
                expect=_expectations(block),
                protect=block.protect,
                secret_keys=self._secret_keys(said, block.properties),
            )

    def _check_absent(self, node: Node, block: TableBlock, what: str) -> None:
        keys = entries_of(node)
        for key in ("schema", "location", "properties", "evolve", "extra_columns", "expect"):
            if key in keys:
                self._at(keys[key], f"`{key}` in {what} contradicts `absent: true`")
        if block.protect:
            self._at(keys["protect"], f"`protect: true` in {what} contradicts `absent: true`")

    def _location(self, identifier: Identifier, block: TableBlock, node: Node, what: str) -> str | None:
        if block.location is None:
            return None
        value = entries_of(node)["location"]
        if not self.blocks.is_known(value):
            return block.location
        reason = locations.check(block.location)
        if reason is not None:
            self._at(value.place, f"`location` in {what}: {reason}")
            return None
        written = value.text if isinstance(value, ScalarNode) else ""
        from_outside = is_from_outside(written)
        policy = self.blocks.policy
        reason = bucket_refusal(block.location, policy) if from_outside else None
        if not all(map(policy.admits, hosts_in("location", block.location))):
            reason = "names a host that is not allowed; --allow-host names those that are"
        if reason is not None:
            self._at(value.place, f"`location` in {what} {reason}")
            return None
        location = locations.absolute(block.location, self.blocks.faults.folder(value.place))
        if location != block.location:
            self.relative[identifier] = location
        if from_outside:
            self.places[location] = written
        under_root = self.capabilities.location_policy is LocationPolicy.UNDER_ROOT
        if under_root and self.root is not None and not locations.is_under(self.root, location):
            shown = written if from_outside else locations.redact(location)
            self._at(value.place, f"`location` in {what} is {shown}, expected a place under {self.catalog}'s root")
        return location

    def _schema(self, block: TableBlock, node: Node, what: str) -> Schema | None:
        if block.schema_ is None:
            return None
        return read_columns(self.blocks.faults, block.schema_, entries_of(node)["schema"], what)

    # ---- properties

    def _secret_keys(self, node: Node, properties: MappingOf[str, str] | None) -> frozenset[str]:
        """Return the properties whose values come from the environment or a file, unless they show to be secrets."""
        written = entries_of(entries_of(node).get("properties"))
        return frozenset(
            key
            for key, value in (properties or {}).items()
            if isinstance(there := written.get(key), ScalarNode)
            and is_from_outside(there.text)
            and not is_sensitive(key, value)
        )

    def _properties(self, properties: MappingOf[str, str] | None, node: Node, what: str) -> MappingOf[str, str]:
        if not properties:
            return _NO_PROPERTIES
        written = entries_of(entries_of(node)["properties"])
        for key, value in properties.items():
            fault, there = self.property_fault(key, value, what), written[key]
            if fault is None and isinstance(there, ScalarNode) and is_from_outside(there.text):
                # A namespace's may say where its tables go.
                reason = bucket_refusal(value, self.blocks.policy)
                fault = None if reason is None else f"property `{key}` in {what} {reason}"
            if fault is not None:
                self._at(there, fault)
        return properties

    def property_fault(self, key: str, value: str, what: str) -> str | None:
        """Return why ``what`` cannot have this property, None when it can."""
        if ownership.is_reserved_key(key):
            return f"property `{key}` in {what} is reserved: catalogs or lancens write it themselves"
        if not key:
            return f"a property of {what} has no name"
        if is_stand_in(value):
            # A saved plan holds no secret, so that apply could not tell this from one that is left out.
            return (
                f"property `{key}` in {what} is `{value}`, which lancens shows in the place of a secret; "
                "expected the value itself, such as `${env:NAME}`"
            )
        problem = property_problem(self.capabilities, key, value)
        return None if problem is None else f"property `{key}` in {what} ({self.impl}): {problem}"


def _said_alone(node: Node) -> Said | None:
    """Return what a table's block says where that means the same in every table, as a key to find it again by.

    Many tables say the same, and it is checked and kept once. None where it depends on the table, on its file or on the
    environment, and where it is not right at first sight.
    """
    if isinstance(node, ScalarNode):
        return () if node.is_null else None
    if not isinstance(node, Mapping):
        return None
    said: list[tuple[str, str | Said]] = []
    for key, value in node.items():
        if key not in _MEAN_THE_SAME:
            return None
        if isinstance(value, Mapping) and key == "properties":
            texts = []
            for name, text in value.items():
                if not isinstance(text, ScalarNode) or text.is_null or "${" in text.text:
                    return None
                texts.append((name, text.text))
            said.append((key, tuple(texts)))
        elif isinstance(value, ScalarNode) and not value.is_null and "${" not in value.text:
            said.append((key, value.text))
        else:
            return None
    return tuple(said)


def _levels(number: int) -> str:
    return f"{number} level{'' if number == 1 else 's'}"


def _expectations(block: TableBlock) -> Expectations:
    said = block.expect
    return Expectations(tuple(said.indices), said.max_fragments, said.max_versions, said.max_age_days)
