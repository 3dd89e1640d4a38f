"""A fleet in three catalogs and two environments: its manifest, its writers, and what must hold every month."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import lance
import pyarrow as pa

import reconciler
from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.manifest import Manifest
from reconciler.model import locations
from reconciler.model.names import Identifier
from reconciler.planner.plan import Plan

ENVIRONMENTS = ("dev", "prod")
SPACES = ("ads", "web", "eu")

Name: TypeAlias = tuple[str, str, str]
"""Catalog, namespace without the environment, table."""

_OF_DATA = {"data", "_deletions", "_indices", "_transactions", "_versions"}
_REWRITTEN = "latest_version_hint.json"


@dataclass
class Fleet:
    """The manifest as its author edits it, and the rows that each table has to show.

    ``catalogs`` are the implementation and configuration of each catalog, and ``above`` the namespaces around those of
    the fleet. ``rows`` are keyed by environment and name.
    """

    folder: Path
    catalogs: Mapping[str, tuple[str, Mapping[str, str]]]
    above: Mapping[str, Identifier]
    blocks: dict[Name, dict[str, Any]] = field(default_factory=dict)
    columns: list[dict[str, Any]] = field(default_factory=lambda: [{"name": "id", "type": "int64", "nullable": False}])
    defaults: dict[str, Any] = field(default_factory=dict)
    policies: list[dict[str, Any]] = field(default_factory=list)
    moved: list[tuple[str, str]] = field(default_factory=list)
    rows: dict[tuple[str, Name], int] = field(default_factory=dict)
    _files: dict[Path, str] = field(default_factory=dict)

    # ---- the manifest ------------------------------------------------------------------------------------------------

    def manifest(self, environment: str) -> Manifest:
        """Write the manifest, which is the same for every environment, and load it for one."""
        catalogs = {}
        for catalog, (impl, config) in self.catalogs.items():
            spaces: dict[str, dict[str, Any]] = {f"${{var:env}}_{space}": {"tables": {}} for space in SPACES}
            for (home, space, table), block in self.blocks.items():
                if home == catalog:
                    spaces.setdefault(f"${{var:env}}_{space}", {"tables": {}})["tables"][table] = block
            tree: dict[str, Any] = {name: block for name, block in spaces.items() if self._is_used(name)}
            for name in reversed(self.above[catalog]):
                tree = {name: {"namespaces": tree}}
            around = "".join(f"{name}/" for name in self.above[catalog])
            moved = [{"from": f"{around}{old}", "to": f"{around}{new}"} for old, new in self.moved]
            policies = [{**policy, "match": f"{around}{policy['match']}"} for policy in self.policies]
            parts = {"namespaces": tree, "moved": moved, "policies": policies}
            catalogs[catalog] = {"impl": impl, "config": dict(config), **parts}
        document = {
            "version": 1,
            "name": "${var:env}-fleet",
            "schemas": {"events": self.columns},
            "defaults": {"tables": {"evolve": "additive", **self.defaults}},
            "catalogs": catalogs,
        }
        path = self.folder / "lancens.yaml"
        path.write_text(json.dumps(document, indent=1), "utf-8")
        return reconciler.load(path, variables={"env": environment})

    def _is_used(self, name: str) -> bool:
        return any(space == name.partition("_")[2] for _, space, _ in self.blocks)

    def rename(self, names: Mapping[Name, Name]) -> None:
        """Give blocks other names, and their rows with them."""
        self.blocks = {names.get(name, name): block for name, block in self.blocks.items()}
        self.rows = {(environment, names.get(name, name)): rows for (environment, name), rows in self.rows.items()}

    # ---- applying ----------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Apply to one environment after the other, each from a saved plan."""
        for environment in ENVIRONMENTS:
            manifest = self.manifest(environment)
            plan = Plan.from_json(reconciler.plan(manifest).to_json())
            assert not plan.blocked, [(one.address, one.reason) for one in plan.blocked][:5]
            report = reconciler.apply(plan, manifest, journal=self.folder / "journal")
            assert report.ok, [(one.change.address, one.message) for one in report.results if one.message][:5]

    # ---- writing -----------------------------------------------------------------------------------------------------

    @contextmanager
    def connected(self, catalog: str) -> Iterator[Backend]:
        impl, config = self.catalogs[catalog]
        backend = registry.connect(impl, dict(config))
        try:
            yield backend
        finally:
            backend.close()

    def identifier(self, environment: str, name: Name) -> Identifier:
        catalog, space, table = name
        return (*self.above[catalog], f"{environment}_{space}", table)

    def write(self, number: int) -> None:
        """Append rows to every table."""
        for catalog in self.catalogs:
            with self.connected(catalog) as backend:
                live = backend.scan().tables
            for environment, name in [key for key in self.rows if key[1][0] == catalog]:
                location = live[self.identifier(environment, name)].location
                schema = lance.dataset(location).schema
                rows = {one.name: list(range(number)) if one.name == "id" else [None] * number for one in schema}
                lance.write_dataset(pa.table(rows, schema=schema), location, mode="append")
                self.rows[environment, name] += number

    def make_without_block(self, name: Name) -> None:
        """Have a job make a table in every environment."""
        with self.connected(name[0]) as backend:
            for environment in ENVIRONMENTS:
                table = self.identifier(environment, name)
                location = backend.default_location(table)
                assert location is not None
                lance.write_dataset(pa.table({"id": [1, 2]}), location)
                backend.insert_table(table, location, {})
                self.rows[environment, name] = 2

    def locations(self, name: Name) -> Mapping[str, str]:
        """Return where a table is in each environment."""
        with self.connected(name[0]) as backend:
            found = {one: backend.load_table(self.identifier(one, name)).location for one in ENVIRONMENTS}
        return {environment: locations.normalise(location) for environment, location in found.items()}

    def drop(self, name: Name) -> None:
        """Have another tool drop a table's entry in every environment; its data stays."""
        with self.connected(name[0]) as backend:
            for environment in ENVIRONMENTS:
                backend.remove_table(self.identifier(environment, name))

    def properties(self, environment: str, name: Name) -> Mapping[str, str]:
        with self.connected(name[0]) as backend:
            return backend.load_table(self.identifier(environment, name)).properties

    # ---- what must hold ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check that nothing is left to do, no data file is gone, and every table opens by its name."""
        for environment in ENVIRONMENTS:
            plan = reconciler.plan(self.manifest(environment))
            assert plan.is_empty, [(one.address, one.reason) for one in plan.changes][:5]
            assert not plan.blocked, [(one.address, one.code, one.reason) for one in plan.blocked][:5]
        files = self._data_files()
        changed = [path for path, digest in self._files.items() if files.get(path) != digest]
        assert not changed, changed[:5]
        self._files = files
        for catalog, (impl, config) in self.catalogs.items():
            client = reconciler.connect(impl, dict(config))
            expected = {key: rows for key, rows in self.rows.items() if key[1][0] == catalog}
            found = {
                key: lance.dataset(namespace_client=client, table_id=[*self.identifier(*key)]).count_rows()
                for key in expected
            }
            assert found == expected

    def _data_files(self) -> dict[Path, str]:
        return {
            path: hashlib.sha256(path.read_bytes()).hexdigest()
            for catalog in self.catalogs
            for path in (self.folder / catalog).rglob("*")
            if path.is_file()
            and _OF_DATA.intersection(path.parts)
            and "__manifest" not in path.parts
            and path.name != _REWRITTEN
        }
