"""What sections share: servers, and the folder in which a manifest was applied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from reconciler.backends import registry
from reconciler.spark import spark_session
from tests.forked import forking
from tests.pages.blocks import ROOT, first_yaml
from tests.pages.running import Place
from tests.pages.runs import ANSWERS
from tests.servers.glue import GlueServer, glue_server
from tests.servers.hive import Metastore, metastore


@pytest.fixture(scope="session")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    """Give a metastore with a Lance table of three rows."""
    folder = tmp_path_factory.mktemp("hive")
    with metastore("3.1", folder) as running:
        backend = registry.connect("hive3", {"uri": running.uri})
        backend.insert_namespace(("hive", "features"), {})
        lance.write_dataset(pa.table({"id": [1, 2, 3]}), str(folder / "users.lance"))
        backend.insert_table(("hive", "features", "users"), str(folder / "users.lance"), {})
        backend.close()
        yield running


@pytest.fixture(scope="session")
def glue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GlueServer]:
    with glue_server(tmp_path_factory.mktemp("glue")) as running:
        yield running


@pytest.fixture(scope="session")
def forking_lancens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a folder with a `lancens` that has imported all it needs."""
    with forking(tmp_path_factory.mktemp("forking")) as folder:
        yield folder


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Give the session of a notebook."""
    with spark_session() as session:
        yield session


@pytest.fixture(scope="session")
def applied(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Give a folder in which the manifest of the page of answers was applied."""
    place = Place(tmp_path_factory.mktemp("applied"), request)
    place.write("lancens.yaml", first_yaml(ROOT / ANSWERS))
    place.type("lancens", "apply", "--auto-approve")
    return place.folder
