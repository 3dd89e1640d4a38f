"""Keys and files of other tools that people write in manifests, and what lancens has instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from itertools import islice

from reconciler.model.display import did_you_mean

_NAMESPACES = "write `namespaces`, which may be nested"
_PROPERTIES = "write `properties`"
_PROTECT = "write `protect: true`, which forbids every plan that would remove it"
_CONFIG = "write it in `config`: `config: {{key}: …}`"
_INDICES = "write `maintain: {indices: {COLUMN: {type: BTREE}}}`"
_COMPACT = "write `maintain: {compact: {}}`"
_ABSENT = "write `absent: true` for a table that shall have no entry"
_EXPECT = "leave it out: lancens checks no rows; `expect` states what an audit checks"
_PRIMARY_KEY = "write `nullable: false, metadata: {'lance-schema:unenforced-primary-key': 'true'}`"
_UNSORTED = "leave it out: Lance keeps rows in the order of their writes; `maintain` makes indices"
_VERSIONS = "leave it out: lancens deletes no data; `lance.auto_cleanup.*` of the dataset removes old versions"
_SIZE = "write it in `type`, such as `fixed_size_list<float32>[768]`"
_LOOPS = "lancens has no loops; `policies` of a catalog give settings to all tables that match a glob"
_PLACEHOLDERS = (
    "`${var:NAME}` in a value takes it from `--var NAME=VALUE` or a file of variables, without a declaration"
)
_CATALOG = "write a catalog with `impl` and `config` in `catalogs`"
_NO_STATE = "leave it out: lancens keeps no state; the live catalog is read each time"
_COLUMNS = "write `schema: [{name: id, type: int64}]`"
_MOVED = "write `moved: [{from: OLD, to: NEW}]` in its catalog"
_LANCE_ONLY = "leave it out: every table is a Lance table"
_NO_PARTITIONS = "leave it out: Lance tables have no partitions"
_NO_ROWS = "leave it out: lancens fills no tables; it keeps the entry and the schema of a table"
_SCHEDULE = "leave it out: lancens runs when it is called"
_UNMANAGED = (
    "leave its block out: a table without a block is left alone, unless this manifest owns it or `prune` is `all`"
)
_KEY_IS_NAME = "leave it out: the key above is the name"

_FOLLOWING = {
    **dict.fromkeys(("source", "of", "catalog"), "write `from`"),
    **dict.fromkeys(("tables", "include", "match"), "write `select`"),
    **dict.fromkeys(("prefix", "namespace", "to"), "write `into`"),
}

KEYS: Mapping[str, Mapping[str, str]] = {
    "ManifestFile": {
        **dict.fromkeys(
            ("moved", "prune", "policies", "scope", "mirror", "clone"), "write `{key}` in a catalog of `catalogs`"
        ),
        "tables": "write `tables` in a catalog or a namespace of `catalogs`",
        **dict.fromkeys(("namespaces", "databases"), "write `namespaces` in a catalog of `catalogs`"),
        "catalog": "write `catalogs`, with a block for each by its name",
        **dict.fromkeys(("includes", "imports"), "write `include`, a list of paths"),
        **dict.fromkeys(("variables", "variable", "vars", "locals"), _PLACEHOLDERS),
        **dict.fromkeys(("provider", "providers", "impl", "config"), _CATALOG),
        **dict.fromkeys(("backend", "state"), _NO_STATE),
        **dict.fromkeys(
            ("environments", "environment", "env"),
            "write a file of variables for each: `lancens plan --var-file prod.vars.yaml`",
        ),
    },
    "CatalogBlock": {
        **dict.fromkeys(("databases", "schemas", "database"), _NAMESPACES),
        **dict.fromkeys(("type", "provider", "driver", "kind"), "write `impl`"),
        **dict.fromkeys(("options", "settings", "connection", "params"), "write `config`"),
        "properties": "write `config` for the service, or `defaults: {tables: {properties: …}}` for all tables",
        **dict.fromkeys(("exclude", "ignore", "include"), "write `scope` with the globs of what is managed"),
        **dict.fromkeys(("protect", "prevent_destroy", "lifecycle"), "write `defaults: {tables: {protect: true}}`"),
        **dict.fromkeys(
            ("root", "path", "uri", "url", "region", "endpoint", "warehouse", "token", "profile", "catalog", "storage"),
            _CONFIG,
        ),
    },
    "NamespaceBlock": {
        **dict.fromkeys(("databases", "schemas"), _NAMESPACES),
        "location": "leave it out: the catalog chooses it; a table may have a `location`",
    },
    "TableBlock": {
        **dict.fromkeys(("columns", "fields"), _COLUMNS),
        **dict.fromkeys(("path", "uri"), "write `location`"),
        **dict.fromkeys(("indexes", "indices", "index"), _INDICES),
        **dict.fromkeys(("compact", "compaction", "optimize"), _COMPACT),
        **dict.fromkeys(("state", "ensure", "enabled"), _ABSENT),
        **dict.fromkeys(("primary_key", "unique_key", "grain"), f"{_PRIMARY_KEY} on its column"),
        **dict.fromkeys(("partition_by", "partitioned_by", "partitions"), _NO_PARTITIONS),
        **dict.fromkeys(("format", "file_format", "provider", "using"), _LANCE_ONLY),
        **dict.fromkeys(("renamed_from", "moved"), _MOVED),
        "name": _KEY_IS_NAME,
        **dict.fromkeys(("unmanaged", "managed", "external", "ignore", "skip"), _UNMANAGED),
        **dict.fromkeys(("materialized", "kind", "mode", "query", "sql"), _NO_ROWS),
        **dict.fromkeys(("cron", "schedule"), _SCHEDULE),
        **dict.fromkeys(("tests", "audits", "constraints"), _EXPECT),
        **dict.fromkeys(("cluster_by", "clustered_by", "sort_by", "order_by"), _UNSORTED),
        **dict.fromkeys(("meta", "metadata"), _PROPERTIES),
        **dict.fromkeys(("vacuum", "retention", "ttl"), _VERSIONS),
        "if_not_exists": "leave it out: a table that exists is updated, never created again",
        "ignore_changes": "leave out the keys whose changes are to be ignored",
        "schema_file": "write the columns in `schema`, or their name in `schemas` of the manifest",
    },
    "ColumnBlock": {
        **dict.fromkeys(("data_type", "dtype"), "write `type`"),
        **dict.fromkeys(("field", "column", "key"), "write `name`"),
        **dict.fromkeys(("not_null", "required"), "write `nullable: false`, or nothing for a column that may be null"),
        "optional": "write `nullable: true`",
        "null": "write `nullable`",
        "default": "leave it out: Lance columns have no default values",
        **dict.fromkeys(("primary_key", "pk"), _PRIMARY_KEY),
        **dict.fromkeys(("doc", "description"), "write `comment`"),
        **dict.fromkeys(("old_name", "previous_name"), "write `renamed_from`"),
        "mode": "write `nullable: false` for REQUIRED, and `type: list<…>` for REPEATED",
        **dict.fromkeys(("meta", "tags", "labels", "annotations"), "write `metadata`"),
        "tests": "leave it out: lancens checks no rows",
        "unique": "leave it out: Lance enforces no uniqueness",
        "references": "leave it out: Lance has no foreign keys",
        **dict.fromkeys(("dim", "dims", "dimension", "dimensions", "length", "size"), _SIZE),
        **dict.fromkeys(("fields", "items", "element"), "write it in `type`: `struct<x: float64>`, `list<string>`"),
        **dict.fromkeys(("index", "indexed"), f"{_INDICES} in its table"),
        **dict.fromkeys(("drop", "absent"), "leave the column out of `schema`"),
    },
    "MaintainBlock": {
        **dict.fromkeys(("retention", "vacuum", "cleanup", "ttl", "older_than", "keep_versions"), _VERSIONS),
        **dict.fromkeys(("compaction", "optimize"), "write `compact: {}`"),
        **dict.fromkeys(("index", "indexes"), "write `indices: {COLUMN: {type: BTREE}}`"),
        **dict.fromkeys(("cron", "schedule"), _SCHEDULE),
    },
    "CompactBlock": {
        "enabled": "leave it out: `compact: {}` is enough",
        **dict.fromkeys(("target_rows_per_fragment", "max_rows", "max_rows_per_file"), "write `target_rows`"),
    },
    "IndexBlock": {
        **dict.fromkeys(("index_type", "kind"), "write `type`"),
        **dict.fromkeys(("column", "name", "columns"), "leave it out: the key above is the column"),
        **dict.fromkeys(("distance", "distance_type", "metric_type"), "write `metric`"),
        **dict.fromkeys(("nlist", "partitions"), "write `num_partitions`"),
    },
    "ExpectBlock": {
        **dict.fromkeys(("freshness", "max_age"), "write `max_age_days`"),
        **dict.fromkeys(("min_rows", "row_count", "not_null", "unique"), "leave it out: an audit counts no values"),
    },
    "PolicyBlock": {
        **dict.fromkeys(("select", "pattern", "glob", "tables", "path", "for", "name"), "write `match`"),
        "protect": "write it in `defaults`, or in a block: a policy is for tables without one",
    },
    "SuppressBlock": {
        **dict.fromkeys(("table", "path", "pattern", "select", "address"), "write `match`"),
        **dict.fromkeys(("expires", "expiry", "expire"), "write `until`"),
        **dict.fromkeys(("comment", "why"), "write `reason`"),
    },
    "MirrorBlock": _FOLLOWING,
    "CloneBlock": {
        **_FOLLOWING,
        **dict.fromkeys(("tag", "version", "latest"), "write `at: {tag: NAME}` or `at: {version: N}`"),
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
    **dict.fromkeys(("lifecycle", "prevent_destroy", "deletion_protection"), _PROTECT),
    **dict.fromkeys(("labels", "annotations", "options", "parameters", "tblproperties", "dbproperties"), _PROPERTIES),
    **dict.fromkeys(("for_each", "count"), _LOOPS),
    "depends_on": "leave it out: lancens finds the order itself",
    "owner": "write `properties: {owner: …}`; who manages an object is recorded by apply",
}

_FILES: tuple[tuple[frozenset[str], str], ...] = tuple(
    (frozenset(keys.split()), kind)
    for keys, kind in (
        ("apiVersion kind", "a Kubernetes resource"),
        ("services", "a file of Docker Compose"),
        ("on jobs", "a workflow of GitHub"),
        ("runs", "an action of GitHub"),
        ("repos", "a configuration of pre-commit"),
        ("models", "a file of dbt"),
        ("sources", "a file of dbt"),
        ("tests", "a file of tests, which `lancens test FILE` runs"),
        ("resource", "a file of Terraform"),
        ("resources", "a template of CloudFormation or of Databricks"),
        ("format_version", "a saved plan, which `lancens apply FILE` takes"),
        ("config-version", "a project of dbt"),
        ("gateways", "a configuration of sqlmesh"),
        ("model_defaults", "a configuration of sqlmesh"),
        ("bundle", "a bundle of Databricks"),
        ("apiVersion", "a file of Kubernetes or Helm"),
        ("Resources", "a template of CloudFormation"),
        ("site_name", "a configuration of MkDocs"),
        ("stages", "a pipeline of GitLab or Azure"),
        ("dependencies", "an environment of conda or a chart of Helm"),
        ("openapi", "a description of an API"),
    )
)

_MOST_COMPARED = 100
"""The most keys of a block that are compared with others: a hostile file has a million."""


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


def is_meant(wanted: str, block: str, keys: Collection[str]) -> bool:
    """Return whether one of the unknown ``keys`` of a block stands for the key ``wanted``, which it lacks."""
    habits = KEYS.get(block, {})
    first = islice(keys, _MOST_COMPARED)
    return any(
        habits.get(key) == f"write `{wanted}`" or key.startswith(f"{wanted}:") or _is_near(key, [wanted])
        for key in first
    )


def foreign_file(keys: Collection[str], known: Collection[str]) -> str | None:
    """Return what a file with these ``keys`` at its top is; None if it may be a manifest, with the keys ``known``."""
    if {"catalogs", "impl"} & set(keys):
        return None
    kind = next((name for marks, name in _FILES if marks <= set(keys)), None)
    if kind is None and not any(
        key in KEYS["ManifestFile"] or _is_near(key, known) for key in islice(keys, _MOST_COMPARED)
    ):
        return "a file of variables, which `--var-file` takes, or of another tool"
    return kind


def _is_near(key: str, known: Collection[str]) -> bool:
    return bool(get_close_matches(key.lower(), known, n=1, cutoff=0.75))
