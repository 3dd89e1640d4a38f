"""Keys and files of other tools that people write in manifests, and what lancens has instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from reconciler.model.display import did_you_mean

_NAMESPACES = "write `namespaces`, which may be nested"
_PROPERTIES = "write `properties`"
_PROTECT = "write `protect: true`, which forbids every plan that would remove it"
_CONFIG = "write it in `config`: `config: {{key}: …}`"
_INDICES = "write `maintain: {indices: {COLUMN: {type: BTREE}}}`"
_ABSENT = "write `absent: true` for a table that shall have no entry"
_EXPECT = "leave it out: lancens checks no rows; `expect` states what an audit checks"
_KEY = "write `metadata: {'lance-schema:unenforced-primary-key': 'true'}` on its column"
_UNSORTED = "leave it out: Lance keeps rows in the order of their writes; `maintain` makes indices"
_VERSIONS = "leave it out: lancens deletes no data; `lance.auto_cleanup.*` of the dataset removes old versions"
_SIZE = "write it in `type`, such as `fixed_size_list<float32>[768]`"
_LOOPS = "lancens has no loops; `policies` of a catalog give settings to all tables that match a glob"
_PLACEHOLDERS = (
    "`${var:NAME}` in a value takes it from `--var NAME=VALUE` or a file of variables, without a declaration"
)

KEYS: Mapping[str, Mapping[str, str]] = {
    "ManifestFile": {
        "moved": "write `moved` in its catalog",
        "prune": "write `prune` in a catalog",
        "policies": "write `policies` in a catalog",
        "tables": "write `tables` in a catalog or a namespace of `catalogs`",
        "namespaces": "write `namespaces` in a catalog of `catalogs`",
        "catalog": "write `catalogs`, with a block for each by its name",
        "includes": "write `include`, a list of paths",
        "imports": "write `include`, a list of paths",
        "variables": _PLACEHOLDERS,
        "variable": _PLACEHOLDERS,
        "vars": _PLACEHOLDERS,
        "locals": _PLACEHOLDERS,
        "provider": "write a catalog with `impl` and `config` in `catalogs`",
        "providers": "write a catalog with `impl` and `config` in `catalogs`",
        "backend": "leave it out: lancens keeps no state; the live catalog is read each time",
        "state": "leave it out: lancens keeps no state; the live catalog is read each time",
        "environments": "write a file of variables for each: `lancens plan --var-file prod.vars.yaml`",
    },
    "CatalogBlock": {
        "databases": _NAMESPACES,
        "schemas": _NAMESPACES,
        "database": _NAMESPACES,
        "type": "write `impl`",
        "provider": "write `impl`",
        "driver": "write `impl`",
        "options": "write `config`",
        "settings": "write `config`",
        "properties": "write `config` for the service, or `defaults: {tables: {properties: …}}` for all tables",
        "exclude": "write `scope` with the globs of what is managed",
        "ignore": "write `scope` with the globs of what is managed",
        "protect": "write `defaults: {tables: {protect: true}}`",
        "prevent_destroy": "write `defaults: {tables: {protect: true}}`",
        "lifecycle": "write `defaults: {tables: {protect: true}}`",
        **dict.fromkeys(
            ("root", "path", "uri", "url", "region", "endpoint", "warehouse", "token", "profile", "catalog", "storage"),
            _CONFIG,
        ),
    },
    "NamespaceBlock": {
        "databases": _NAMESPACES,
        "schemas": _NAMESPACES,
        "location": "leave it out: the catalog chooses it; a table may have a `location`",
    },
    "TableBlock": {
        "columns": "write `schema: [{name: id, type: int64}]`",
        "fields": "write `schema: [{name: id, type: int64}]`",
        "path": "write `location`",
        "uri": "write `location`",
        "indexes": _INDICES,
        "indices": _INDICES,
        "index": _INDICES,
        "compact": "write `maintain: {compact: {}}`",
        "compaction": "write `maintain: {compact: {}}`",
        "optimize": "write `maintain: {compact: {}}`",
        "state": "write `absent: true` for a table that shall have no entry",
        "primary_key": "write `metadata: {'lance-schema:unenforced-primary-key': 'true'}` on its column",
        "partition_by": "leave it out: Lance tables have no partitions",
        "partitioned_by": "leave it out: Lance tables have no partitions",
        "partitions": "leave it out: Lance tables have no partitions",
        "format": "leave it out: every table is a Lance table",
        "file_format": "leave it out: every table is a Lance table",
        "renamed_from": "write `moved: [{from: OLD, to: NEW}]` in its catalog",
        "moved": "write `moved: [{from: OLD, to: NEW}]` in its catalog",
        "name": "leave it out: the key above is the name",
        "ensure": _ABSENT,
        "enabled": _ABSENT,
        "provider": "leave it out: every table is a Lance table",
        "using": "leave it out: every table is a Lance table",
        "materialized": "leave it out: lancens fills no tables; it keeps the entry and the schema of a table",
        "kind": "leave it out: lancens fills no tables; it keeps the entry and the schema of a table",
        "mode": "leave it out: lancens fills no tables; it keeps the entry and the schema of a table",
        "cron": "leave it out: lancens runs when it is called",
        "tests": _EXPECT,
        "audits": _EXPECT,
        "constraints": _EXPECT,
        "unique_key": _KEY,
        "grain": _KEY,
        "cluster_by": _UNSORTED,
        "clustered_by": _UNSORTED,
        "sort_by": _UNSORTED,
        "order_by": _UNSORTED,
        "meta": _PROPERTIES,
        "metadata": _PROPERTIES,
        "vacuum": _VERSIONS,
        "retention": _VERSIONS,
        "ttl": _VERSIONS,
        "if_not_exists": "leave it out: a table that exists is updated, never created again",
        "ignore_changes": "leave out the keys whose changes are to be ignored",
        "schema_file": "write the columns in `schema`, or their name in `schemas` of the manifest",
    },
    "ColumnBlock": {
        "data_type": "write `type`",
        "dtype": "write `type`",
        "not_null": "write `nullable: false`",
        "required": "write `nullable: false`",
        "optional": "write `nullable: true`",
        "null": "write `nullable`",
        "default": "leave it out: Lance columns have no default values",
        "primary_key": "write `metadata: {'lance-schema:unenforced-primary-key': 'true'}`",
        "pk": "write `metadata: {'lance-schema:unenforced-primary-key': 'true'}`",
        "doc": "write `comment`",
        "description": "write `comment`",
        "old_name": "write `renamed_from`",
        "previous_name": "write `renamed_from`",
        "mode": "write `nullable: false` for REQUIRED, and `type: list<…>` for REPEATED",
        "meta": "write `metadata`",
        "tags": "write `metadata`",
        "tests": "leave it out: lancens checks no rows",
        "unique": "leave it out: Lance enforces no uniqueness",
        "references": "leave it out: Lance has no foreign keys",
        **dict.fromkeys(("dim", "dims", "dimension", "dimensions", "length", "size"), _SIZE),
        **dict.fromkeys(("fields", "items", "element"), "write it in `type`: `struct<x: float64>`, `list<string>`"),
        **dict.fromkeys(("index", "indexed"), "write `maintain: {indices: {COLUMN: {type: BTREE}}}` in its table"),
        **dict.fromkeys(("drop", "absent"), "leave the column out of `schema`"),
    },
    "PolicyBlock": {
        **dict.fromkeys(("select", "pattern", "glob", "tables", "path", "for", "name"), "write `match`"),
    },
    "MovedBlock": {
        **dict.fromkeys(("old", "source", "before", "rename"), "write `from`"),
        **dict.fromkeys(("new", "target", "destination", "after"), "write `to`"),
    },
    "DefaultsBlock": dict.fromkeys(
        ("properties", "protect", "evolve", "maintain", "expect", "probe"),
        "write it below `tables` or `namespaces`: `defaults: {tables: {{key}: …}}`",
    ),
}
"""What to write instead, by the model of the block and the key."""

_EVERYWHERE = {
    "lifecycle": _PROTECT,
    "prevent_destroy": _PROTECT,
    "deletion_protection": _PROTECT,
    "labels": _PROPERTIES,
    "annotations": _PROPERTIES,
    "options": _PROPERTIES,
    "parameters": _PROPERTIES,
    "tblproperties": _PROPERTIES,
    "dbproperties": _PROPERTIES,
    "for_each": _LOOPS,
    "count": _LOOPS,
    "depends_on": "leave it out: lancens finds the order itself",
    "owner": "write `properties: {owner: …}`; who manages an object is recorded by apply",
}

_FILES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"apiVersion", "kind"}), "a Kubernetes resource"),
    (frozenset({"services"}), "a file of Docker Compose"),
    (frozenset({"on", "jobs"}), "a workflow of GitHub"),
    (frozenset({"runs"}), "an action of GitHub"),
    (frozenset({"repos"}), "a configuration of pre-commit"),
    (frozenset({"models"}), "a file of dbt"),
    (frozenset({"sources"}), "a file of dbt"),
    (frozenset({"resource"}), "a file of Terraform"),
    (frozenset({"resources"}), "a template of CloudFormation or of Databricks"),
    (frozenset({"format_version"}), "a saved plan, which `lancens apply FILE` takes"),
    (frozenset({"config-version"}), "a project of dbt"),
    (frozenset({"gateways"}), "a configuration of sqlmesh"),
    (frozenset({"model_defaults"}), "a configuration of sqlmesh"),
    (frozenset({"bundle"}), "a bundle of Databricks"),
    (frozenset({"apiVersion"}), "a file of Kubernetes or Helm"),
    (frozenset({"Resources"}), "a template of CloudFormation"),
)


def key_hint(block: str, key: str, known: Collection[str]) -> str:
    """Return what to write instead of the unknown ``key`` in a block with the keys ``known``.

    Args:
        block: the name of the block's model.
        key: as written.
        known: the keys that the block may have.
    """
    habit = KEYS.get(block, {}).get(key) or _EVERYWHERE.get(key)
    if habit is not None:
        return habit.replace("{key}", key)
    name, colon, value = key.partition(":")
    if colon and name in known:
        return f"a space after the colon is missing: `{name}: {value}`"
    name, equals, value = key.partition("=")
    if equals and name.strip() in known:
        return f"write `{name.strip()}: {value.strip()}`"
    if any(key.count(closing) > key.count(opening) for opening, closing in ("()", "<>", "[]")):
        return "it is the end of the value before it; quote a value that has a comma"
    return did_you_mean(key, known, "expected " + ", ".join(f"`{name}`" for name in known))


def is_config_key(key: str) -> bool:
    """Return whether ``key`` of a catalog belongs in its ``config``."""
    return KEYS["CatalogBlock"].get(key) == _CONFIG


def foreign_file(keys: Collection[str]) -> str | None:
    """Return what a file with these ``keys`` at its top is; None if it may be a manifest."""
    if {"catalogs", "impl"} & set(keys):
        return None
    return next((name for marks, name in _FILES if marks <= set(keys)), None)
