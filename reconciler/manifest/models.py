"""The blocks of a manifest: the one description behind checking, the JSON Schema and editors' completion.

Values arrive as the text that is written; a field says what the text may be.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from reconciler.arrow_types import check_column_name, parse
from reconciler.model.desired import Evolve, ExtraColumns, Prune

ValueT = TypeVar("ValueT")


class Nothing(str):
    """YAML's nothing, as written: an empty block where a block is expected, its text where text is."""

    __slots__ = ()


def _block(value: object) -> object:
    return {} if isinstance(value, Nothing) else value


def _boolean(value: object) -> object:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError("true or false")


def _whole(value: object) -> object:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    raise ValueError("a whole number")


def _one(value: object) -> object:
    if value == "1":
        return 1
    raise ValueError("version: 1, the one this lancens reads")


_PLACEHOLDER = {"type": "string", "pattern": r"\$\{"}
TEXT_SCHEMA = {"type": ["string", "number", "boolean", "null"]}


def or_placeholder(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a value that ``schema`` describes, or of a placeholder for one."""
    return {"anyOf": [schema, _PLACEHOLDER]}


OrNothing: TypeAlias = Annotated[ValueT, BeforeValidator(_block)]
"""A value that may be written as YAML's nothing."""
Text: TypeAlias = Annotated[str, WithJsonSchema(TEXT_SCHEMA)]
Texts: TypeAlias = Annotated[
    OrNothing[dict[str, Text]], WithJsonSchema({"type": ["object", "null"], "additionalProperties": TEXT_SCHEMA})
]
_UNSET = {
    "type": "object",
    "properties": {"unset": {"const": True, "description": "True: the key that `defaults` say is not set here."}},
    "required": ["unset"],
    "additionalProperties": False,
}
Properties: TypeAlias = Annotated[
    OrNothing[dict[str, Text]],
    WithJsonSchema({"type": ["object", "null"], "additionalProperties": {"anyOf": [TEXT_SCHEMA, _UNSET]}}),
]
Boolean: TypeAlias = Annotated[bool, BeforeValidator(_boolean), WithJsonSchema(or_placeholder({"type": "boolean"}))]
Whole: TypeAlias = Annotated[int, BeforeValidator(_whole), WithJsonSchema(or_placeholder({"type": "integer"}))]


class Block(BaseModel):
    """A block of keys; one that is not listed is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)


class ColumnBlock(Block):
    """One column of a table."""

    name: Annotated[Text, AfterValidator(check_column_name)] = Field(examples=["user_id"])
    """The column's name; a top-level name cannot contain a dot."""
    type: Annotated[Text, AfterValidator(parse)] = Field(
        examples=["int64", "string", "timestamp[us, tz=UTC]", "fixed_size_list<float32>[768]", "decimal128(10, 2)"]
    )
    """An Arrow type that Lance stores, such as int64, string, fixed_size_list<float32>[768] or
    struct<x: float64, y: float64>."""
    nullable: Boolean = True
    """Whether the column may hold nulls."""
    metadata: Texts = Field(default={}, examples=[{"lance-encoding:compression": "zstd"}])
    """Field metadata, as Lance keeps it beside the column."""


Columns: TypeAlias = Annotated[OrNothing[list[ColumnBlock]], Field(min_length=1)]


class _OrName:
    """Lets an editor accept a name where a block is written; the name is resolved apart."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(core), {"type": "string"}]}


class ExpectBlock(Block):
    """What `lancens audit` expects of a table's data; no plan makes it so."""

    indices: OrNothing[tuple[Text, ...]] = Field(default=(), examples=[["embedding"]])
    """Columns that an index is to be on."""
    max_fragments: Whole | None = Field(default=None, ge=1, examples=[1000])
    """How many fragments the table may have."""
    max_versions: Whole | None = Field(default=None, ge=1, examples=[500])
    """How many versions the table may have."""
    max_age_days: Whole | None = Field(default=None, ge=1, examples=[7])
    """How many days ago the table may have been written last."""


class TableDefaults(Block):
    """Defaults for all tables below; tables that are absent take none."""

    properties: Properties = Field(default={}, examples=[{"owner": "ml-platform", "tier": "gold"}])
    """Properties to keep on the table; those that are not named here are left alone. `{unset: true}` in the place of a
    value takes away what `defaults` say."""
    evolve: Annotated[Evolve, WithJsonSchema(or_placeholder({"enum": ["never", "additive"]}))] = Evolve.NEVER
    """Whether the dataset follows the schema: never, or additive, which adds nullable columns and lets columns be
    nullable that were not."""
    extra_columns: Annotated[ExtraColumns, WithJsonSchema(or_placeholder({"enum": ["keep", "conflict"]}))] = (
        ExtraColumns.KEEP
    )
    """What to make of columns that the dataset has and the schema lacks: keep them, or plan nothing for the table
    until that is settled (conflict)."""
    probe: Boolean = True
    """Whether the location must be opened before planning; false where the planner has no access to storage."""
    expect: OrNothing[ExpectBlock] = ExpectBlock()
    """What `lancens audit` expects of the data; it changes no plan."""
    protect: Boolean | None = None
    """True forbids every plan that would remove the table, and stays in force after the block is gone;
    false lifts it."""


class TableBlock(TableDefaults):
    """A table. An empty block names it and leaves location and schema to what is there."""

    schema_: Annotated[Columns, _OrName()] | None = Field(default=None, alias="schema")
    """The columns, or the name of a list of them in `schemas`. Where no dataset exists yet, an empty one with these
    columns is written."""
    location: Text | None = Field(default=None, examples=["s3://lake/features/users.lance", "./users.lance"])
    """Where the dataset is. Left out: the catalog's default for a new table, the live one otherwise."""
    absent: Boolean = False
    """True asks for the entry's removal from the catalog. The data stays."""


class NamespaceDefaults(Block):
    """What every namespace below says that claims something and does not say it itself; paths stay paths."""

    properties: Properties = Field(default={}, examples=[{"owner": "ml-platform"}])
    """Properties, merged key by key with those of the namespace."""
    protect: Boolean | None = None
    """As in a namespace."""


class DefaultsBlock(Block):
    """What holds for all blocks below, unless a block or nearer defaults say otherwise."""

    tables: OrNothing[TableDefaults] = TableDefaults()
    """For tables."""
    namespaces: OrNothing[NamespaceDefaults] = NamespaceDefaults()
    """For namespaces."""


class NamespaceBlock(Block):
    """A namespace. With only tables and namespaces it is a path: created where missing, otherwise left alone."""

    properties: Properties | None = Field(default=None, examples=[{"owner": "ml-platform"}])
    """Properties to keep on the namespace; those that are not named here are left alone. `{unset: true}` in the place
    of a value takes away what `defaults` say."""
    absent: Boolean | None = None
    """True asks for the namespace's removal, once it is empty."""
    protect: Boolean | None = None
    """True forbids every plan that would remove the namespace, and stays in force after the block is gone; false
    lifts it."""
    kind: Text | None = Field(default=None, examples=["database"])
    """For catalogs that have two kinds of namespaces (Glue: catalog and database), which one this is."""
    defaults: OrNothing[DefaultsBlock] = DefaultsBlock()
    """What holds for all below this namespace."""
    tables: OrNothing[dict[str, TableBlock]] = {}
    """The tables directly in this namespace, by name."""
    namespaces: OrNothing[dict[str, NamespaceBlock]] = {}
    """The namespaces directly in this one, by name."""


class MovedBlock(Block):
    """One object that has another name now."""

    origin: Text = Field(alias="from", examples=["features/users"])
    """The name that a table or namespace had, with the namespaces above it, joined by slashes."""
    to: Text = Field(examples=["features/customers"])
    """The name it has in this manifest."""


class MirrorBlock(Block):
    """A catalog that this one follows: its Lance tables are entered here, at the same locations."""

    model_config = ConfigDict(json_schema_extra={"required": ["from"]})

    origin: Annotated[Text | None, WithJsonSchema({"type": "string"})] = Field(
        default=None, alias="from", examples=["lake"]
    )
    """The catalog to follow, by its name in this manifest."""
    select: OrNothing[list[Text]] | None = Field(default=None, min_length=1, examples=[["features/**"]])
    """The tables to follow, as globs over names joined by a slash; all of them, unless given."""
    into: OrNothing[list[Text]] = Field(default=[], examples=[["analytics"]])
    """The namespace they are entered in, from the outermost name on, below which they keep their names."""
    names: Texts = Field(default={}, examples=[{"features/eu": "features_eu"}])
    """Tables and namespaces that have another name here, both without `into`."""


class CatalogBlock(Block):
    """A catalog: the name this manifest gives to one root namespace."""

    impl: Annotated[str | None, WithJsonSchema({"type": "string"})] = Field(
        default=None, examples=["dir", "rest", "glue", "unity", "hive2", "hive3", "iceberg", "memory"]
    )
    """What serves the catalog: dir, rest, glue, unity, hive2, hive3, iceberg, memory, or a backend of your own."""
    config: Texts = Field(default={}, examples=[{"root": "./lake"}, {"region": "eu-west-1"}])
    """How the catalog is reached, in the property names of its Lance namespace specification, and storage.* options
    for opening datasets. Secrets belong into ${env:NAME} or ${file:path}."""
    prune: Annotated[Prune, WithJsonSchema(or_placeholder({"enum": ["never", "owned", "all"]}))] = Prune.OWNED
    """What to do with live objects that the manifest does not name: never remove them, remove those lancens made or
    adopted (owned), or remove all."""
    scope: OrNothing[list[Text]] | None = Field(default=None, min_length=1, examples=[["analytics/**"]])
    """The only part of the catalog that is read, planned and pruned, as globs over names joined by a slash."""
    defaults: OrNothing[DefaultsBlock] = DefaultsBlock()
    """What holds for everything in this catalog."""
    moved: OrNothing[list[MovedBlock]] = Field(
        default=[], examples=[[{"from": "features/users", "to": "features/customers"}]]
    )
    """Tables, and namespaces with what is below them, that had another name: they are renamed, and keep their data."""
    mirror: MirrorBlock | None = None
    """Another catalog that this one follows. Blocks of its own win."""
    namespaces: OrNothing[dict[str, NamespaceBlock]] = {}
    """The namespaces directly under the root, by name."""
    tables: OrNothing[dict[str, TableBlock]] = {}
    """The tables directly under the root, by name, where the catalog allows them."""


class SafetyBlock(Block):
    """When a plan removes too much to be run without --allow-mass-removal."""

    max_removal_percent: Whole = Field(default=30, ge=0, le=100)
    """The largest part of the tables that a plan may remove, in percent."""
    min_tables: Whole = Field(default=10, ge=0)
    """From how many tables on the percentage counts."""


class ManifestFile(Block):
    """A lancens manifest, or a part of one that another file includes."""

    version: Annotated[int, BeforeValidator(_one), WithJsonSchema({"const": 1})] = 1
    """The version of the manifest format. Included files need not repeat it."""
    name: Annotated[str | None, WithJsonSchema({"type": "string"})] = Field(default=None, examples=["feature-store"])
    """The manifest's name: it marks what is made from this manifest as owned by it. Included files need not repeat
    it."""
    include: Annotated[list[str], WithJsonSchema({"type": ["array", "null"], "items": {"type": "string"}})] = Field(
        default=[], examples=[["teams/*.yaml"]]
    )
    """Files to merge into this one, as paths or globs relative to this file."""
    safety: OrNothing[SafetyBlock] = SafetyBlock()
    """When removing is too much."""
    schemas: OrNothing[dict[str, Columns]] = Field(
        default={}, examples=[{"users": [{"name": "user_id", "type": "int64", "nullable": False}]}]
    )
    """Lists of columns by name, for the tables that say `schema: NAME`."""
    defaults: OrNothing[DefaultsBlock] = DefaultsBlock()
    """What holds for everything in all catalogs."""
    catalogs: OrNothing[dict[str, CatalogBlock]] = {}
    """The catalogs, by the name this manifest gives them."""
