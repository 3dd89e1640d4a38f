"""What a client is told of the catalog's storage: enough to open data with credentials of its own, and no secret."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import lance
import lance_namespace
import lancedb
import pyarrow as pa
import pytest
from lance_namespace import CreateNamespaceRequest, DeclareTableRequest, DescribeTableRequest

from reconciler.backends.dir import DirBackend
from reconciler.server.answers import public_options
from reconciler.server.catalogs import OneCatalog
from tests.servers.lance_rest import served
from tests.servers.s3 import BUCKET, KEY, SECRET, TOKEN, GuardedS3, guarded_s3

TABLE = ["ads", "clicks"]


@dataclass(frozen=True)
class Lake:
    """A server over a bucket, whose credentials it has been given in its configuration."""

    url: str
    store: GuardedS3


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    with guarded_s3() as store:
        options = {f"storage.{key}": value for key, value in {**store.where, **store.vended}.items()}
        backend = DirBackend(root=f"s3://{BUCKET}/{uuid.uuid4().hex}", **options)
        with served(OneCatalog(backend)) as url:
            yield Lake(url, store)


@pytest.fixture
def with_credentials(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials in the environment of the client, and nothing of where the data is."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)


@pytest.mark.usefixtures("with_credentials")
def test_pylance_writes_and_opens_with_credentials_alone(lake: Lake) -> None:
    namespace = lance_namespace.connect("rest", {"uri": lake.url})
    namespace.create_namespace(CreateNamespaceRequest(id=["ads"]))
    rows = pa.table({"id": [1, 2]})
    lance.write_dataset(rows, namespace_client=namespace, table_id=TABLE, mode="create")
    lance.write_dataset(rows, namespace_client=namespace, table_id=TABLE, mode="append")
    assert lance.dataset(namespace_client=namespace, table_id=TABLE).count_rows() == 4


@pytest.mark.usefixtures("with_credentials")
def test_lancedb_does_too(lake: Lake) -> None:
    database = lancedb.connect_namespace("rest", {"uri": lake.url})
    database.create_namespace(["ads"])
    database.create_table("clicks", pa.table({"id": [1, 2]}), namespace_path=["ads"])
    assert database.open_table("clicks", namespace_path=["ads"]).count_rows() == 2


def test_who_has_none_is_told_where_and_gets_no_further(lake: Lake) -> None:
    namespace = lance_namespace.connect("rest", {"uri": lake.url})
    namespace.create_namespace(CreateNamespaceRequest(id=["ads"]))
    declared = namespace.declare_table(DeclareTableRequest(id=TABLE))
    described = namespace.describe_table(DescribeTableRequest(id=TABLE, vend_credentials=True))
    where = {"endpoint": lake.store.endpoint, "region": "us-east-1", "allow_http": "true"}
    assert declared.storage_options == described.storage_options == where
    assert not [secret for secret in (KEY, SECRET, TOKEN) if secret in str(described) + str(declared)]


@pytest.mark.parametrize(
    "secret",
    [
        {"aws_access_key_id": "x"},
        {"aws_secret_access_key": "x"},
        {"aws_session_token": "x"},
        {"azure_storage_account_key": "x"},
        {"azure_storage_sas_key": "x"},
        {"azure_storage_token": "x"},
        {"google_service_account_key": "x"},
        {"google_service_account": "/secrets/one.json"},
        {"oss_access_key_secret": "x"},
        {"base_1.region": "x"},
        {"proxy_url": "http://user:pass@proxy"},
        {"client_max_retries": "0"},
        {"allow_invalid_certificates": "true"},
        {"an_option_of_tomorrow": "x"},
        {"endpoint": "https://user:pass@store"},
        {"azure_endpoint": "https://store/?sv=2024&sig=abc"},
    ],
)
def test_what_is_not_known_to_be_none_is_taken_for_a_secret(secret: dict[str, str]) -> None:
    assert public_options({"REGION": "eu-west-1", **secret}) == {"REGION": "eu-west-1"}
