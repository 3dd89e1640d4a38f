"""The clients that nobody here wrote, on every catalog; in `make test` a part of it, in `make soak` all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import reconciler
from tests.clients.catalogs import CATALOGS, Catalog, running_catalog
from tests.clients.in_python import LanceDb
from tests.clients.older import RELEASES, ended
from tests.clients.spark import SparkSession, SparkSql, spark_session
from tests.clients.trials import ALL, SAMPLE, SPARK, Trial, outcome, serving, tried
from tests.soak import count
from tests.writing import blocks_of, load_manifest

_ORDER = list(CATALOGS)
TRIALS = sorted(ALL if os.environ.get("LANCENS_SOAK") else SAMPLE, key=lambda trial: _ORDER.index(trial.catalog))


@dataclass(frozen=True, slots=True)
class Running:
    """A catalog and ``lancens serve`` over it."""

    name: str
    catalog: Catalog
    url: str


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("catalog")
    with running_catalog(request.param, directory) as catalog, serving(catalog, directory) as url:
        yield Running(request.param, catalog, url)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.mark.soak
@pytest.mark.parametrize(
    ("running", "trial"),
    [(trial.catalog, trial) for trial in TRIALS],
    indirect=["running"],
    scope="module",  # or each test would start a catalog of its own
    ids=[str(trial) for trial in TRIALS],
)
def test_a_client_on_a_catalog(running: Running, trial: Trial, request: pytest.FixtureRequest) -> None:
    spark = request.getfixturevalue("spark") if trial.client == SPARK else None
    assert outcome(trial, tried(trial, running.catalog, running.url, spark)) == []


@pytest.mark.soak
@pytest.mark.parametrize("running", ["dir", "Glue", "Hive 3.1"][: count(1, 3)], indirect=True, scope="module")
def test_clients_see_the_comments_of_columns(running: Running, spark: SparkSession, tmp_path: Path) -> None:
    catalog, comments = running.catalog, {"id": "the user's number", "vector": "of two numbers"}
    table = (*catalog.new_namespace(), "users")
    block: dict[str, Any] = {"schema": [{"name": "id", "type": "int64"}, {"name": "vector", "type": "list<float32>"}]}

    def applied() -> None:
        config = {"impl": catalog.impl, "config": dict(catalog.config), "scope": [f"{'/'.join(table[:-1])}/**"]}
        manifest = load_manifest(tmp_path, {"lake": {**config, **blocks_of({table: block})}})
        assert reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journal").ok

    applied()
    block["evolve"] = "additive"
    block["schema"] = [{**column, "comment": comments[column["name"]]} for column in block["schema"]]
    applied()
    reconciler.register_impls()
    assert LanceDb(f"lancens.{catalog.impl}", catalog.config).comments(table) == comments
    assert LanceDb("rest", {"uri": running.url}).comments(table) == comments
    assert SparkSql(spark, running.url).comments(table) == comments


@pytest.mark.soak
@pytest.mark.parametrize("client", ["LanceDB", "pylance"])
@pytest.mark.parametrize("release", RELEASES if os.environ.get("LANCENS_SOAK") else RELEASES[:1])
def test_a_client_of_an_older_release(release: str, client: str, tmp_path: Path) -> None:
    """The same walk as today's; they rename no table through a namespace, or say so."""
    with running_catalog("dir", tmp_path) as catalog, serving(catalog, tmp_path) as url:
        found = ended(release, client, url, "older")
    refused = {operation: refusal for operation, refusal in found.items() if refusal is not None}
    assert set(refused) - {"rename"} == {"drop"}
    assert "use deregister_table" in str(refused["drop"])
    assert "upported" in refused.get("rename", "not supported")
