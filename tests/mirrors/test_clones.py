"""Clones over real servers: Hive, Glue with moto's S3, and `lancens serve`; ``make soak`` takes 200 tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pytest

import reconciler
from reconciler.backends import registry
from reconciler.backends.dir import DirBackend
from reconciler.model.ownership import CLONE
from reconciler.planner.plan import Plan
from reconciler.server.catalogs import OneCatalog
from reconciler.server.guard import Settings, Tokens
from tests.servers.glue import GlueServer, glue_server
from tests.servers.hive import Metastore, metastore
from tests.servers.lance_rest import served
from tests.servers.s3 import BUCKET, guarded_s3
from tests.soak import count
from tests.unit.test_cloning import answers, rows, write
from tests.writing import load_manifest

TABLES, _MOST_BYTES = count(3, 200), 20_000
TOKEN = "tests-token-5f0c7b1e22"


@dataclass
class Preview:
    """The block of a catalog of clones, with what reads and writes the data of both catalogs."""

    block: Mapping[str, Any]
    root: str
    options: Mapping[str, str]
    s3: Any = None

    def files(self, root: str) -> Mapping[str, bytes]:
        """Return the content of each file below a root."""
        if self.s3 is None:
            folder = Path(root)
            return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        pages = self.s3.get_paginator("list_objects_v2").paginate(
            Bucket=BUCKET, Prefix=root.removeprefix(f"s3://{BUCKET}/")
        )
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return {key: self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}

    def dataset(self, location: str) -> Any:
        return lance.dataset(location.removeprefix("file:"), storage_options=dict(self.options) or None)


@pytest.fixture(scope="module", params=["hive3", "glue", "serve"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Hive or a Glue; `serve` starts at once, so that it needs none that is shared."""
    folder = tmp_path_factory.mktemp("server")
    match request.param:
        case "hive3":
            with metastore("3.1", folder) as hive:
                yield hive
        case "glue":
            with glue_server(folder) as glue:
                yield glue
        case _:
            yield None


@pytest.fixture
def preview(service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Preview]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    root = tmp_path / "preview"
    root.mkdir()
    match service:
        case Metastore():
            config = {"uri": service.uri, "root": str(root)}
            yield Preview({"impl": service.impl, "config": config, "clone": {"into": ["hive", "pr"]}}, str(root), {})
        case GlueServer():
            with guarded_s3() as s3:
                options = {**s3.where, **s3.vended}
                stored = {f"storage.{key}": value for key, value in options.items()}
                config = {**service.config(), "root": f"s3://{BUCKET}/preview", **stored}
                yield Preview(
                    {"impl": "glue", "config": config, "clone": {"into": ["pr"]}}, config["root"], options, s3.client
                )
        case _:
            settings = Settings(tokens=Tokens(read_write=[TOKEN]))
            with served(OneCatalog(DirBackend(root=str(root))), settings) as url:
                config = {"uri": url, "root": str(root), "auth_token": TOKEN}
                yield Preview({"impl": "rest", "config": config, "clone": {"into": ["pr"]}}, str(root), {})


def seed(preview: Preview, tmp_path: Path) -> Mapping[str, Any]:
    """Write the tables of the source, one with indices, rows outside of them and deleted ones; return its block."""
    if preview.s3 is None:
        root = tmp_path / "prod"
        write(root / "t000.lance")
        for number in range(1, TABLES):
            shutil.copytree(root / "t000.lance", root / f"t{number:03}.lance")
        return {"impl": "dir", "config": {"root": str(root)}, "prune": "never"}
    root_of_s3 = f"s3://{BUCKET}/prod"
    write(f"{root_of_s3}/t000.lance", storage_options=dict(preview.options))
    for key, content in preview.files(root_of_s3).items():
        for number in range(1, TABLES):
            preview.s3.put_object(Bucket=BUCKET, Key=key.replace("t000", f"t{number:03}"), Body=content)
    stored = {f"storage.{key}": value for key, value in preview.options.items()}
    return {"impl": "dir", "config": {"root": root_of_s3, **stored}, "prune": "never"}


def test_clones_answer_as_their_sources_and_leave_no_trace_there(preview: Preview, tmp_path: Path) -> None:
    prod = seed(preview, tmp_path)
    columns = [{"name": "id", "type": "int64"}, {"name": "note", "type": "string"}]
    on_top: dict[str, Any] = {"tables": {"t002": {"schema": columns, "evolve": "additive"}}}
    for name in reversed(preview.block["clone"]["into"]):
        on_top = {"namespaces": {name: on_top}}
    cloned = {**preview.block["clone"], "from": "prod", "at": {"tag": "prod"}}
    block = {**preview.block, "clone": cloned, **on_top}
    manifest = load_manifest(tmp_path, {"prod": prod, "preview": block})
    prod_root = prod["config"]["root"]
    before, empty = preview.files(prod_root), preview.files(preview.root)
    plan = reconciler.plan(manifest)
    assert not plan.blocked
    saved = Plan.from_json(plan.to_json())
    report = reconciler.apply(saved, manifest, journal=tmp_path / "journal")
    assert report.ok, [result.message for result in report.results if result.message][:3]
    assert reconciler.plan(manifest).is_empty
    assert preview.files(prod_root) == before
    written = {name: content for name, content in preview.files(preview.root).items() if name not in empty}
    assert sum(map(len, written.values())) < (TABLES + 2) * _MOST_BYTES

    with closing(registry.connect(block["impl"], block["config"])) as backend:
        tables = backend.scan().tables
    assert sorted(name[-1] for name in tables) == [f"t{number:03}" for number in range(TABLES)]
    expected = answers(preview.dataset(f"{prod_root}/t000.lance"))
    for name in sorted(tables)[:2]:
        assert tables[name].properties[CLONE].startswith(f"prod/{name[-1]}@")
        assert answers(preview.dataset(tables[name].location)) == expected
    altered = preview.dataset(tables[(*min(tables)[:-1], "t002")].location)
    assert altered.count_rows(filter="note IS NULL") == preview.dataset(f"{prod_root}/t002.lance").count_rows() > 0
    first = tables[min(tables)].location.removeprefix("file:")
    lance.write_dataset(rows(5000, 5), first, mode="append", storage_options=dict(preview.options) or None)
    assert preview.files(prod_root) == before
    assert answers(preview.dataset(f"{prod_root}/t000.lance")) == expected

    without = {key: value for key, value in preview.block.items() if key != "clone"}
    gone = load_manifest(tmp_path, {"prod": prod, "preview": without})
    data = preview.files(preview.root)
    plan = reconciler.plan(gone, allow_mass_removal=True)
    assert len(plan.changes) >= TABLES
    assert reconciler.apply(plan, gone, journal=tmp_path / "journal", allow_mass_removal=True).ok
    after = preview.files(preview.root)
    assert {name: after.get(name) for name in data if "__manifest" not in name} == {
        name: content for name, content in data.items() if "__manifest" not in name
    }


def test_a_pinned_clone_follows_its_tag_and_leaves_no_tag_behind(preview: Preview, tmp_path: Path) -> None:
    prod = seed(preview, tmp_path)
    source, journal = f"{prod['config']['root']}/t000.lance", tmp_path / "journal"

    def pins() -> list[int]:
        return [tag["version"] for name, tag in preview.dataset(source).tags.list().items() if name != "prod"]

    clone = {"from": "prod", "select": ["t000"], "at": {"tag": "prod"}, "pin": True, "follow": True}
    block = {**preview.block, "clone": {**preview.block["clone"], **clone}}
    manifest = load_manifest(tmp_path, {"prod": prod, "preview": block})
    assert reconciler.apply(reconciler.plan(manifest), manifest, journal=journal).ok
    assert reconciler.plan(manifest).is_empty
    released = preview.dataset(source).tags.list()["prod"]["version"]
    assert pins() == [released]
    lance.write_dataset(rows(5000, 5), source, mode="append", storage_options=dict(preview.options) or None)
    moved = preview.dataset(source)
    moved.tags.update("prod", moved.version)
    plan = reconciler.plan(manifest)
    assert [str(change.action) for change in plan.changes] == ["relocate-table"]
    old = plan.changes[0].before.location if plan.changes[0].before else None
    data = {name: content for name, content in preview.files(preview.root).items() if "__manifest" not in name}
    report = reconciler.apply(Plan.from_json(plan.to_json()), manifest, journal=journal)
    assert report.ok, [result.message for result in report.results]
    assert list(report.unreferenced) == [old]
    assert reconciler.plan(manifest).is_empty
    assert pins() == [moved.version]
    assert data.items() <= preview.files(preview.root).items()
    with closing(registry.connect(block["impl"], block["config"])) as backend:
        [table] = backend.scan().tables.values()
    assert answers(preview.dataset(table.location)) == answers(moved)

    gone = load_manifest(tmp_path, {"prod": prod, "preview": {k: v for k, v in block.items() if k != "clone"}})
    plan = reconciler.plan(gone, allow_mass_removal=True)
    assert reconciler.apply(plan, gone, journal=journal, allow_mass_removal=True).ok
    assert pins() == []
