"""pyiceberg's client, which knows nothing of lancens, sees what the backend made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciler.backends.iceberg import IcebergBackend
from reconciler.model.live import PropertyChanges
from reconciler.model.names import Identifier
from tests.catalogs.iceberg.conftest import Catalog

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog

NAMES = ("plain", "with space", "50%", "with.dot", "ünï 東京", "a+b")


@pytest.fixture
def client(catalog: Catalog) -> RestCatalog:
    from pyiceberg.catalog.rest import RestCatalog

    uri = catalog.config["endpoint"]
    properties = {"uri": uri, "warehouse": catalog.warehouse, "s3.region": "us-east-1"}
    if "credential" in catalog.config:
        properties |= {"credential": catalog.config["credential"], "oauth2-server-uri": f"{uri}/v1/oauth/tokens"}
    return RestCatalog("lancens", **properties)


def test_every_declared_table_is_loaded_with_its_place_and_properties(
    catalog: Catalog, backend: IcebergBackend, space: Identifier, client: RestCatalog
) -> None:
    backend.insert_namespace((*space, "inner space"), {"owner": "x"})
    for name in NAMES:
        made = backend.insert_table((*space, "inner space", name), f"{catalog.root}/{name}", {"tier": name})
        loaded = client.load_table((space[1], "inner space", name))
        assert loaded.location() == made.location
        assert loaded.properties["tier"] == name
        assert loaded.properties["table_type"] == "lance"
        assert [field.name for field in loaded.schema().fields] == ["dummy"]
    listed = client.list_tables((space[1], "inner space"))
    assert {identifier[-1] for identifier in listed} == set(NAMES)
    assert client.load_namespace_properties((space[1], "inner space"))["owner"] == "x"


def test_what_each_changes_the_other_sees(
    catalog: Catalog, backend: IcebergBackend, space: Identifier, client: RestCatalog
) -> None:
    table = (*space, "shared")
    backend.insert_table(table, f"{catalog.root}/shared", {"k": "1", "stays": "yes"})
    with client.load_table((space[1], "shared")).transaction() as transaction:
        transaction.set_properties({"theirs": "2"})
    assert backend.load_table(table).properties["theirs"] == "2"
    backend.alter_table(table, PropertyChanges({"k": "3"}, frozenset({"theirs"})))
    seen = client.load_table((space[1], "shared")).properties
    assert (seen["k"], seen["stays"], seen.get("theirs")) == ("3", "yes", None)
    backend.remove_table(table)
    assert not client.table_exists((space[1], "shared"))
