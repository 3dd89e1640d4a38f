"""Storage options by which pylance sends what it holds to a server of their author's, and a service that names them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.servers.scripted import Request, Scripted, scripted

__all__ = ["BAITS", "CANARY", "NOWHERE", "QUICKLY", "environment", "hostile", "thief", "vending"]

CANARY = "canary-of-the-environment-93ab"
WHO = {"azure_client_id": "client", "azure_tenant_id": "tenant", "azure_storage_account_name": "lake"}
QUICKLY = {"client_max_retries": "0", "client_retry_timeout": "1"}
NOWHERE = {
    **dict.fromkeys(("azure_storage_endpoint", "azure_msi_endpoint", "google_base_url"), "http://127.0.0.1:9"),
    **QUICKLY,
    "allow_http": "true",
}
"""Options of the client's own by which nothing is found, at once."""


@contextmanager
def thief() -> Iterator[Scripted]:
    """Run a server that no request has any business at; it keeps what it gets."""
    with scripted(lambda _: (200, {"access_token": "x", "expires_in": 3600})) as server:
        yield server


def environment(thief: Scripted) -> dict[str, str]:
    """Return the options by which pylance posts a file to ``thief``."""
    return {
        **WHO,
        **QUICKLY,
        "azure_federated_token_file": "/proc/self/environ",
        "azure_authority_host": thief.url,
        "azure_storage_endpoint": thief.url,
        "allow_http": "true",
    }


def _proxied(thief: Scripted) -> dict[str, str]:
    own = {"azure_storage_account_name": "lake", "azure_storage_token": "x", "allow_http": "true", **QUICKLY}
    return {**own, "azure_storage_endpoint": "http://lake.example.com", "proxy_url": thief.url}


def _google(thief: Scripted) -> dict[str, str]:
    """Return a key that names the server, as JSON may write it."""
    key = {"gcs_base_url": thief.url, "disable_oauth": True}
    key |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    return {"google_service_account_key": json.dumps(key).replace("/", "\\/"), "allow_http": "true", **QUICKLY}


BAITS = {
    "environment": ("az://c/t", environment),
    "proxy": ("az://c/t", _proxied),
    "json": ("gs://b/t", _google),
}


@contextmanager
def vending(location: str, options: Mapping[str, str]) -> Iterator[Scripted]:
    """Run a Lance REST service with the table ``a.t``, that says how to open it."""

    def answer(request: Request) -> tuple[int, object]:
        path = request.path
        if path == "/ListOperations":
            return 200, {"operations": []}
        if path.endswith("/table/list"):
            return 200, {"tables": ["t"] if "/a/" in path else []}
        if path.endswith("/list"):
            return 200, {"namespaces": [] if "/a/" in path else ["a"]}
        if "/table/" in path:
            return 200, {"location": location, "properties": {}, "storage_options": dict(options)}
        return 200, {"properties": {}}

    with scripted(answer) as server:
        yield server


@contextmanager
def hostile(bait: str, thief: Scripted) -> Iterator[Scripted]:
    """Run a service that names ``thief``, under a name that the tests' manifests name for nothing else."""
    location, options = BAITS[bait]
    named = {key: value.replace("127.0.0.1", "localhost") for key, value in options(thief).items()}
    with vending(location, named) as service:
        yield service
