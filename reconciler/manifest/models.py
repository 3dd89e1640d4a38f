"""Define the blocks of a manifest, for its checks, its JSON Schema and completion in editors.

Values arrive as the text written in YAML; validators turn it into booleans, numbers and dates.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Self, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from reconciler.arrow_types import TYPE_PATTERN, check_column_name, parse
from reconciler.model.desired import Evolve, ExtraColumns, Prune
from reconciler.model.figures import parse_size
from reconciler.model.maintenance import MOST_FILE_BYTES, IndexType, Metric, WantedCompaction, WantedIndex
from reconciler.model.tags import MAIN_BRANCH

ValueT = TypeVar("ValueT")


class NullText(str):
    """YAML's null as written: an empty block where a block is expected, otherwise text."""

    __slots__ = ()


def _null_as_block(value: object) -> object:
    return {} if isinstance(value, NullText) else value


def _parse_bool(value: object) -> object:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError("true or false")


def _parse_integer(value: object) -> object:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    raise ValueError("a whole number")


def _parse_size(value: object) -> object:
    return parse_size(str(value))


def _parse_day(value: object) -> object:
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise ValueError("a day such as 2027-06-30") from None


def _parse_version(value: object) -> object:
    if value == "1":
        return 1
    raise ValueError("version: 1, the one this lancens reads")


_PLACEHOLDER_SCHEMA = {"type": "string", "pattern": r"\$\{"}
TEXT_SCHEMA = {"type": ["string", "number", "boolean", "null"]}


def or_placeholder(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a value of ``schema``, or of a placeholder."""
    return {"anyOf": [schema, _PLACEHOLDER_SCHEMA]}


OrNull: TypeAlias = Annotated[ValueT, BeforeValidator(_null_as_block)]
"""A block or list; null, as YAML writes an empty one, is an empty block."""
_SCALARS = ["string", "number", "boolean"]
Text: TypeAlias = Annotated[str, WithJsonSchema({"type": _SCALARS})]
"""A scalar as written; editors also accept numbers and booleans, which are read as text."""
Names: TypeAlias = Annotated[str, WithJsonSchema({"type": _SCALARS, "pattern": "^[^/]+(?:/[^/]+)*$"})]
"""Names, or globs, joined by a slash."""
TextMapping: TypeAlias = Annotated[
    OrNull[dict[str, Text]], WithJsonSchema({"type": ["object", "null"], "additionalProperties": TEXT_SCHEMA})
]
_UNSET_SCHEMA = {
    "type": "object",
    "properties": {"unset": {"const": True, "description": "True removes the key that `defaults` set."}},
    "required": ["unset"],
    "additionalProperties": False,
}
Properties: TypeAlias = Annotated[
    OrNull[dict[str, Text]],
    WithJsonSchema({"type": ["object", "null"], "additionalProperties": {"anyOf": [TEXT_SCHEMA, _UNSET_SCHEMA]}}),
]
Boolean: TypeAlias = Annotated[bool, BeforeValidator(_parse_bool), WithJsonSchema(or_placeholder({"type": "boolean"}))]
Integer: TypeAlias = Annotated[
    int, BeforeValidator(_parse_integer), WithJsonSchema(or_placeholder({"type": "integer"}))
]
Size: TypeAlias = Annotated[
    int, BeforeValidator(_parse_size), WithJsonSchema({"type": ["integer", "string"], "examples": ["4GiB"]})
]


class Block(BaseModel):
    """A block of keys; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def _check_old_name(name: str | None) -> str | None:
    return None if name is None else check_column_name(name)


class ColumnBlock(Block):
    """One column of a table."""

    name: Annotated[Text, AfterValidator(check_column_name)] = Field(examples=["user_id"])
    """The column's name; a top-level name cannot contain a dot."""
    type: Annotated[
        Text, AfterValidator(parse), WithJsonSchema(or_placeholder({"type": "string", "pattern": TYPE_PATTERN}))
    ] = Field(
        examples=["int64", "string", "timestamp[us, tz=UTC]", "fixed_size_list<float32>[768]", "decimal128(10, 2)"]
    )
    """An Arrow type that Lance stores, such as int64, string, fixed_size_list<float32>[768] or
    struct<x: float64, y: float64>."""
    nullable: Boolean = True
    """Whether the column may hold nulls."""
    metadata: TextMapping = Field(default={}, examples=[{"lance-encoding:compression": "zstd"}])
    """Field metadata, as Lance keeps it beside the column."""
    comment: Text | None = Field(default=None, examples=["the user's id in the shop"])
    """What the column holds: the field metadata `comment`, which catalogs show."""
    renamed_from: Annotated[Text | None, AfterValidator(_check_old_name)] = Field(default=None, examples=["uid"])
    """The name of the column in datasets where it still has to be renamed, which `evolve: additive` does in place."""


Columns: TypeAlias = Annotated[OrNull[list[ColumnBlock]], Field(min_length=1)]


class _OrSchemaName:
    """Lets an editor accept a name instead of the block."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(core), {"type": "string"}]}


class ExpectBlock(Block):
    """What `lancens audit` expects of a table's data; plans never enforce it."""

    indices: OrNull[tuple[Text, ...]] = Field(default=(), examples=[["embedding"]])
    """Columns that must have an index."""
    max_fragments: Integer | None = Field(default=None, ge=1, examples=[1000])
    """The most fragments that the table may have."""
    max_versions: Integer | None = Field(default=None, ge=1, examples=[500])
    """The most versions that the table may have."""
    max_age_days: Integer | None = Field(default=None, ge=1, examples=[7])
    """The most days since the table was last written."""


class CompactBlock(Block):
    """When to merge small fragments."""

    max_small_fragments: Integer = Field(default=20, ge=1)
    """The most fragments that a compaction would merge or rewrite before it is worth one."""
    target_rows: Integer = Field(default=1_048_576, ge=1)
    """The rows of a merged fragment; fewer if they are so wide that they have `target_bytes`."""
    target_bytes: Size = Field(default=4 << 30, ge=1, le=MOST_FILE_BYTES)
    """About the most bytes of a merged fragment; one of more than half is not merged again."""


class IndexBlock(Block):
    """An index on one column. All keys but `type` are for vectors."""

    type: Annotated[IndexType, WithJsonSchema(or_placeholder({"enum": [*IndexType]}))]
    """The type of the index, as pylance names it."""
    metric: Annotated[Metric | None, WithJsonSchema(or_placeholder({"enum": [*Metric]}))] = None
    """The distance; default: l2."""
    num_partitions: Integer | None = Field(default=None, ge=1, examples=[256])
    """The partitions to train; default: the square root of the rows. An index with another number is kept: Lance
    trains fewer on few rows, and splits those that grow."""
    num_sub_vectors: Integer | None = Field(default=None, ge=1, examples=[48])
    """The sub-vectors of a PQ index; default: one for 16 dimensions."""

    @model_validator(mode="after")
    def _check_vector_keys(self) -> Self:
        if not self.type.is_vector and (self.metric or self.num_partitions or self.num_sub_vectors):
            raise ValueError(f"`type: {self.type}` alone: metric, num_partitions and num_sub_vectors are for vectors")
        return self


class OptimizeIndicesBlock(Block):
    """When to add new rows to the indices."""

    max_unindexed_rows: Integer = Field(default=100_000, ge=0)
    """The most rows that an index may lack before it is brought up to date."""


class MaintainBlock(Block):
    """The upkeep of a table's data, which `lancens maintain` carries out and `apply` never does."""

    compact: OrNull[CompactBlock] | None = None
    """When to merge small fragments; default: never."""
    indices: OrNull[dict[str, IndexBlock]] = Field(
        default={}, examples=[{"embedding": {"type": "IVF_PQ", "metric": "cosine", "num_partitions": 256}}]
    )
    """The indices to build where they are missing, by column. `expect.indices` is these columns by default."""
    optimize_indices: OrNull[OptimizeIndicesBlock] | None = None
    """When to add new rows to all indices; default: never."""
    copy_elsewhere: Boolean = False
    """Whether these jobs may copy rows of places outside the dataset's directory into it, as of a shallow clone."""

    @model_validator(mode="after")
    def _check_index_columns(self) -> Self:
        if "" in self.indices:
            raise ValueError("`indices` names no column")
        return self

    def maintain_fields(self) -> dict[str, Any]:
        """Return the fields of :class:`Maintain` that the block sets."""
        values: dict[str, Any] = {}
        if self.compact is not None:
            values["compact"] = WantedCompaction(**dict(self.compact))
        if "indices" in self.model_fields_set:  # a policy without any overrides the ones before it
            values["indices"] = tuple(
                WantedIndex(column, **dict(index)) for column, index in sorted(self.indices.items())
            )
        if self.optimize_indices is not None:
            values["max_unindexed_rows"] = self.optimize_indices.max_unindexed_rows
        if "copy_elsewhere" in self.model_fields_set:
            values["copy_elsewhere"] = self.copy_elsewhere
        return values

    def expect_fields(self, expect: ExpectBlock) -> dict[str, Any]:
        """Return the fields of ``expect`` that are set; by default, the indices are those to build."""
        indices = {"indices": tuple(sorted(self.indices))} if "indices" in self.model_fields_set else {}
        return {**indices, **expect.model_dump(exclude_unset=True)}


class TableDefaults(Block):
    """Defaults for all tables below; absent tables take none."""

    properties: Properties = Field(default={}, examples=[{"owner": "ml-platform", "tier": "gold"}])
    """Properties to keep on the table; other properties are left alone. `{unset: true}` instead of a value removes what
    `defaults` set."""
    evolve: Annotated[Evolve, WithJsonSchema(or_placeholder({"enum": ["never", "additive"]}))] = Evolve.NEVER
    """Whether the dataset follows the schema: never, or additive, which adds nullable columns, and renames
    columns, sets their metadata and makes them nullable."""
    extra_columns: Annotated[ExtraColumns, WithJsonSchema(or_placeholder({"enum": ["keep", "conflict"]}))] = (
        ExtraColumns.KEEP
    )
    """How to treat columns that the dataset has and the schema lacks: keep them, or block the table (conflict)."""
    probe: Boolean = True
    """Whether planning must open the location; false where the planner has no access to storage."""
    expect: OrNull[ExpectBlock] = ExpectBlock()
    """What `lancens audit` expects of the data; it changes no plan."""
    maintain: OrNull[MaintainBlock] = MaintainBlock()
    """The upkeep of the data, for `lancens maintain`; it changes no plan."""
    protect: Boolean | None = None
    """True forbids every plan that would remove the table, also after its block is deleted; false lifts this."""


def _version_as_tag(value: object) -> object:
    return {"version": value} if isinstance(value, str) else value


class TagBlock(Block):
    """A tag: the version of the data that its name stands for."""

    version: Integer = Field(ge=1, examples=[42])
    """The version."""
    branch: Text = Field(default=MAIN_BRANCH, examples=["main"])
    """The branch that the version is on."""


class _OrVersion:
    """Lets an editor accept a version instead of the block."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "integer", "minimum": 1}, handler(core), _PLACEHOLDER_SCHEMA]}


class CloneAtBlock(Block):
    """The version to clone: that of a tag, one by its number, or the latest when the plan is made."""

    tag: Text | None = Field(default=None, examples=["prod"])
    """A tag of the source table."""
    version: Integer | None = Field(default=None, ge=1, examples=[42])
    """A version of the source table."""
    latest: Boolean = False
    """True for the latest version, which is the default."""

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if sum((self.tag is not None, self.version is not None, self.latest)) > 1:
            raise ValueError("only one of `tag`, `version` and `latest`")
        return self


class TableCloneBlock(Block):
    """A table of another catalog whose data this one begins with."""

    of: Names = Field(examples=["prod/features/users"])
    """The table to clone, by its address: catalog, namespaces and name."""
    at: OrNull[CloneAtBlock] = Field(default=CloneAtBlock(), examples=[{"tag": "prod"}])
    """The version to clone, `{tag: NAME}` or `{version: N}`; default: the latest when the plan is made."""
    pin: Boolean = False
    """Whether a tag of lancens keeps the version in the source until the clone's entry is removed."""
    follow: Boolean = False
    """Whether a new clone, at a new location, takes the place of this one once the tag is at another version."""


class TableBlock(TableDefaults):
    """A table. An empty block names it and leaves location and schema to the catalog and the data."""

    schema_: Annotated[Columns, _OrSchemaName()] | None = Field(default=None, alias="schema")
    """The columns, or the name of a list of columns in `schemas`. Where no dataset exists, an empty one with these
    columns is written."""
    location: Text | None = Field(default=None, examples=["s3://lake/features/users.lance", "./users.lance"])
    """The location of the dataset. Default: the catalog's own for a new table, otherwise the live one."""
    tags: OrNull[dict[str, Annotated[TagBlock, BeforeValidator(_version_as_tag), _OrVersion()]]] = Field(
        default={}, examples=[{"prod": 42}]
    )
    """Tags of the data, by name: a version, or `{branch: NAME, version: N}`. A tag that lancens set and that leaves the
    block is removed."""
    clone: TableCloneBlock | None = None
    """What a new table is a shallow clone of: its data begins with the files of one version of another table."""
    absent: Boolean = False
    """True asks for the entry's removal from the catalog. The data stays."""


class NamespaceDefaults(Block):
    """Defaults for all claimed namespaces below; paths take none."""

    properties: Properties = Field(default={}, examples=[{"owner": "ml-platform"}])
    """Properties, merged by key with those of the namespace."""
    protect: Boolean | None = None
    """Whether plans may not remove the namespace, as in its block."""


class DefaultsBlock(Block):
    """Defaults for all blocks below; a block and nearer defaults win."""

    tables: OrNull[TableDefaults] = TableDefaults()
    """For tables."""
    namespaces: OrNull[NamespaceDefaults] = NamespaceDefaults()
    """For namespaces."""


class NamespaceBlock(Block):
    """A namespace. With only tables and namespaces it is a path: created where missing, otherwise left alone."""

    properties: Properties | None = Field(default=None, examples=[{"owner": "ml-platform"}])
    """Properties to keep on the namespace; other properties are left alone. `{unset: true}` instead of a value removes
    what `defaults` set."""
    absent: Boolean | None = None
    """True asks for the namespace's removal, once it is empty."""
    protect: Boolean | None = None
    """True forbids every plan that would remove the namespace, also after its block is deleted; false lifts this."""
    kind: Text | None = Field(default=None, examples=["database"])
    """The kind of the namespace, where a catalog has two (Glue: catalog and database)."""
    defaults: OrNull[DefaultsBlock] = DefaultsBlock()
    """Defaults for all blocks below this namespace."""
    tables: OrNull[dict[str, TableBlock]] = {}
    """The tables directly in this namespace, by name."""
    namespaces: OrNull[dict[str, NamespaceBlock]] = {}
    """The namespaces directly in this one, by name."""


class MovedBlock(Block):
    """A renamed table or namespace."""

    origin: Names = Field(alias="from", examples=["features/users"])
    """The former name, with the namespaces above it, joined by slashes. `*` stands for a part of a name."""
    to: Names = Field(examples=["features/customers"])
    """The name in this manifest."""


class MirrorBlock(Block):
    """A mirror of another catalog: registers its Lance tables here, at the same locations."""

    model_config = ConfigDict(json_schema_extra={"required": ["from"]})

    origin: Annotated[Text | None, WithJsonSchema({"type": "string"})] = Field(
        default=None, alias="from", examples=["lake"]
    )
    """The catalog to mirror, by its name in this manifest."""
    select: OrNull[list[Names]] | None = Field(default=None, min_length=1, examples=[["features/**"]])
    """The tables to mirror, as globs over names joined by a slash; default: all."""
    into: OrNull[list[Text]] = Field(default=[], examples=[["analytics"]])
    """The namespace to register them in, outermost name first; below it they keep their names."""
    names: TextMapping = Field(default={}, examples=[{"features/eu": "features_eu"}])
    """Tables and namespaces with another name here: the name in the source, and the one here, without `into`."""


class CloneBlock(MirrorBlock):
    """Clones of another catalog's tables: writable copies that share the files of one version, at locations here."""

    origin: Annotated[Text | None, WithJsonSchema({"type": "string"})] = Field(
        default=None, alias="from", examples=["prod"]
    )
    """The catalog to clone, by its name in this manifest."""
    select: OrNull[list[Names]] | None = Field(default=None, min_length=1, examples=[["features/**"]])
    """The tables to clone, as globs over names joined by a slash; default: all."""
    at: OrNull[CloneAtBlock] = Field(default=CloneAtBlock(), examples=[{"tag": "prod"}])
    """The version to clone, `{tag: NAME}` or `{version: N}`; default: the latest when the plan is made."""
    pin: Boolean = False
    """Whether a tag of lancens keeps the version in the source until the clone's entry is removed."""
    follow: Boolean = False
    """Whether a new clone, at a new location, takes the place of this one once the tag is at another version."""


class SuppressBlock(Block):
    """Findings of `lancens audit` that are accepted for some time."""

    rule: Text = Field(examples=["orphan"])
    """The rule, by the name in the report."""
    match: Text = Field(examples=["legacy/**"])
    """The tables and namespaces, as a glob over names joined by a slash, as in the report."""
    until: Annotated[
        date,
        BeforeValidator(_parse_day),
        WithJsonSchema(or_placeholder({"format": "date", "type": "string", "pattern": r"^\d{4}-\d\d-\d\d$"})),
    ]
    """The last day. Later the findings count again, and the entry is a finding itself."""
    reason: Text = Field(min_length=1, examples=["the team moves these datasets in June"])
    """Why they are accepted, for the report."""


class PolicyBlock(Block):
    """A policy: what holds for live tables of a pattern that have no block."""

    model_config = ConfigDict(json_schema_extra={"required": ["match"]})

    match: Annotated[Text | None, WithJsonSchema({"type": "string"})] = Field(default=None, examples=["ads/**"])
    """The tables, as a glob over names joined by a slash."""
    properties: TextMapping = Field(default={}, examples=[{"owner": "ads"}])
    """Properties to keep on these tables; other properties are left alone."""
    expect: OrNull[ExpectBlock] = ExpectBlock()
    """What `lancens audit` expects of their data; it changes no plan."""
    maintain: OrNull[MaintainBlock] = MaintainBlock()
    """The upkeep of their data, for `lancens maintain`; it changes no plan."""


class CatalogBlock(Block):
    """A catalog: the name this manifest gives to one root namespace."""

    impl: Annotated[str | None, WithJsonSchema({"type": "string"})] = Field(
        default=None, examples=["dir", "rest", "glue", "unity", "hive2", "hive3", "iceberg", "memory"]
    )
    """The implementation: dir, rest, glue, unity, hive2, hive3, iceberg, memory, or a backend of your own."""
    config: TextMapping = Field(default={}, examples=[{"root": "./lake"}, {"region": "eu-west-1"}])
    """The connection, in the property names of the catalog's Lance namespace specification, and storage.* options
    for opening datasets. Put secrets into ${env:NAME} or ${file:path}."""
    prune: Annotated[Prune, WithJsonSchema(or_placeholder({"enum": ["never", "owned", "all"]}))] = Prune.OWNED
    """Which live objects outside of the manifest are removed: never any, those that lancens created or adopted (owned),
    or all."""
    scope: OrNull[list[Names]] | None = Field(default=None, min_length=1, examples=[["analytics/**"]])
    """The part of the catalog to read, plan and prune, as globs over names joined by a slash."""
    defaults: OrNull[DefaultsBlock] = DefaultsBlock()
    """Defaults for all blocks in this catalog."""
    moved: OrNull[list[MovedBlock]] = Field(
        default=[], examples=[[{"from": "features/users", "to": "features/customers"}]]
    )
    """Renamed tables, and namespaces with their content; the data stays."""
    suppress: OrNull[list[SuppressBlock]] = []
    """Findings of `lancens audit` in this catalog that are accepted for some time."""
    policies: Annotated[list[PolicyBlock], Field(examples=[[{"match": "ads/**", "properties": {"owner": "ads"}}]])] = []
    """What holds for live tables without a block; later ones win key by key. No policy ever removes a table."""
    mirror: MirrorBlock | None = None
    """Another catalog that this one mirrors. Its own blocks win."""
    clone: CloneBlock | None = None
    """Another catalog whose tables are cloned here. Its own blocks win."""
    namespaces: OrNull[dict[str, NamespaceBlock]] = {}
    """The namespaces directly under the root, by name."""
    tables: OrNull[dict[str, TableBlock]] = {}
    """The tables directly under the root, by name, where the catalog allows them."""


class SafetyBlock(Block):
    """The limit on removals; a plan beyond it needs --allow-mass-removal."""

    max_removal_percent: Integer = Field(default=30, ge=0, le=100)
    """The most tables that a plan may remove, in percent."""
    min_tables: Integer = Field(default=10, ge=0)
    """The fewest tables for which the percentage counts."""


class ManifestFile(Block):
    """A lancens manifest, or a part of one that another file includes."""

    version: Annotated[int, BeforeValidator(_parse_version), WithJsonSchema({"const": 1})] = 1
    """The version of the manifest format. Included files need not repeat it."""
    name: Annotated[str | None, WithJsonSchema({"type": "string"})] = Field(default=None, examples=["feature-store"])
    """The manifest's name, which marks objects as owned by it. Included files need not repeat it."""
    id: Annotated[str | None, WithJsonSchema({"type": "string"})] = Field(default=None, examples=["7c1f0a92e3b4"])
    """Tells this manifest from others of the same name; written once by `init` or `import`, and never changed."""
    include: Annotated[list[str], WithJsonSchema({"type": ["array", "null"], "items": {"type": "string"}})] = Field(
        default=[], examples=[["teams/*.yaml"]]
    )
    """Files to merge into this one, as paths or globs relative to this file."""
    safety: OrNull[SafetyBlock] = SafetyBlock()
    """The limit on removals."""
    schemas: OrNull[dict[str, Columns]] = Field(
        default={}, examples=[{"users": [{"name": "user_id", "type": "int64", "nullable": False}]}]
    )
    """Lists of columns by name, for tables with `schema: NAME`."""
    defaults: OrNull[DefaultsBlock] = DefaultsBlock()
    """Defaults for all blocks in all catalogs."""
    catalogs: OrNull[dict[str, CatalogBlock]] = {}
    """The catalogs, by the name this manifest gives them."""
