"""The configuration: keys, defaults and what is refused."""

from __future__ import annotations

import pytest

from reconciler.backends.iceberg import IcebergBackend, IcebergConfig
from reconciler.model.errors import InvalidInputError

SECRET = "s3cret-value-41"
ENDPOINT = "http://127.0.0.1:8181"


def refusal(**config: str) -> str:
    with pytest.raises(InvalidInputError) as caught:
        IcebergBackend(**{"endpoint": ENDPOINT, **config})
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_the_defaults_are_those_of_the_specification() -> None:
    config = IcebergBackend(endpoint=f"{ENDPOINT}/").config
    assert (config.connect_timeout, config.read_timeout, config.max_retries) == (10_000, 30_000, 3)
    assert (config.endpoint, config.root, config.auth_token, config.credential) == (ENDPOINT, None, None, None)
    assert config.token_address == f"{ENDPOINT}/v1/oauth/tokens"
    assert config.scope == "catalog"


def test_an_endpoint_may_end_with_the_protocols_version() -> None:
    config = IcebergBackend(endpoint=f"{ENDPOINT}/v1/").config
    assert config == IcebergBackend(endpoint=ENDPOINT).config


def test_keys_may_carry_the_implementations_name() -> None:
    config = IcebergBackend(**{"iceberg.endpoint": ENDPOINT, "iceberg.warehouses": "b, a,,b"}).config
    assert config.warehouse_names == ("b", "a")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"endpoint": "localhost:8181"}, "`endpoint`: must be an http:// or https:// address"),
        ({"endpoint": f"http://me:{SECRET}@host"}, "`endpoint`: cannot hold user information"),
        ({"credential": SECRET}, "`credential`: must be `client_id:client_secret`"),
        ({"credential": f":{SECRET}"}, "`credential`: must be `client_id:client_secret`"),
        ({"auth_token": " "}, "`auth_token`: is empty"),
        ({"auth_token": SECRET, "credential": f"a:{SECRET}"}, "two ways to authenticate; give one"),
        ({"oauth2-server-uri": "https://login/token"}, "`oauth2_server_uri` needs a `credential`"),
        ({"credential": f"a:{SECRET}", "oauth2-server-uri": "login"}, "`oauth2-server-uri`: must be an http://"),
        ({"read_timeout": "0"}, "`read_timeout`: "),
        ({"connect_timeout": "soon"}, "`connect_timeout`: "),
        ({"max_retries": "-1"}, "`max_retries`: "),
        ({"root": f"s3://key:{SECRET}@lake"}, "`root`: a location cannot hold user information"),
        ({"wharehouses": "a"}, "unknown key `wharehouses`; did you mean `warehouses`?"),
    ],
)
def test_what_is_refused(given: dict[str, str], said: str) -> None:
    assert said in refusal(**given)


def test_the_endpoint_is_needed() -> None:
    with pytest.raises(InvalidInputError, match="`endpoint` is missing"):
        IcebergBackend()


def test_one_service_has_one_identity() -> None:
    def identity(**config: str) -> str:
        return IcebergConfig.model_validate(config).identity()

    assert identity(endpoint="http://Host:8181/iceberg/") == identity(endpoint="http://host:8181/iceberg")
    assert identity(endpoint=ENDPOINT, warehouses="a,b") == identity(endpoint=ENDPOINT, warehouses="b, a")
    assert identity(endpoint=ENDPOINT, warehouses="a") != identity(endpoint=ENDPOINT, warehouses="b")
    assert SECRET not in identity(endpoint=ENDPOINT, credential=f"a:{SECRET}")
