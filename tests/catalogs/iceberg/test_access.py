"""Who may in: tokens, the OAuth2 flow, and what errors say. No secret is ever shown."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs

import pytest

from reconciler.backends.http.client import HttpClient
from reconciler.backends.http.tokens import ClientCredentials
from reconciler.backends.iceberg import IcebergBackend
from reconciler.model.errors import (
    BackendError,
    InternalError,
    InvalidInputError,
    ServiceUnavailableError,
    UnauthenticatedError,
)
from tests.catalogs.iceberg.conftest import Catalog
from tests.catalogs.iceberg.scripted import error, scripted_catalog
from tests.servers.iceberg import IcebergServer
from tests.servers.nessie import NessieServer
from tests.servers.scripted import Answer, Request, Scripted

SECRET = "wrong-secret-9c81"


def connect(script: Scripted, **config: str) -> IcebergBackend:
    return IcebergBackend(**{"endpoint": script.url, "warehouses": "ware", "max_retries": "0", **config})


class Tokens:
    """A token endpoint that gives out t1, t2, …, good for ``expires_in`` seconds."""

    def __init__(self, expires_in: object = 3600) -> None:
        self.expires_in = expires_in
        self.asked: list[dict[str, list[str]]] = []

    def __call__(self, request: Request) -> Answer:
        self.asked.append(parse_qs(request.body))
        token = {"access_token": f"token-{len(self.asked)}", "token_type": "bearer"}
        return Answer(token if self.expires_in is None else {**token, "expires_in": self.expires_in})


def credentials(script: Scripted, clock: Any) -> ClientCredentials:
    http = HttpClient(impl="iceberg", endpoint=f"{script.url}/token", timeouts=(5, 5), token_key=None)
    return ClientCredentials("iceberg", http, "me:s3cret-77", "catalog", clock)


# ---- on a real server ------------------------------------------------------------------------------------------------


def test_a_wrong_secret_is_a_clear_error(apache: Catalog) -> None:
    backend = apache.connect(credential=f"lancens:{SECRET}")
    with pytest.raises(UnauthenticatedError) as caught:
        backend.scan()
    said = str(caught.value)
    assert said.startswith("iceberg: get a token for ")
    assert "check `credential`: it is not accepted" in said
    backend.close()


def test_no_token_and_a_worthless_one_are_clear_errors(apache: Catalog) -> None:
    config = {key: value for key, value in apache.config.items() if key != "credential"}
    for given, remedy in (({}, "set `auth_token`"), ({"auth_token": SECRET}, "check `auth_token`: it is not accepted")):
        backend = IcebergBackend(**{**config, **given})
        with pytest.raises(UnauthenticatedError) as caught:
            backend.scan()
        assert str(caught.value).endswith(f"401: Not authorized; {remedy}")
        assert SECRET not in str(caught.value)
        backend.close()


def test_a_revoked_token_is_renewed_once_for_all_threads(apache_server: IcebergServer, apache: Catalog) -> None:
    backend = apache.connect()
    space = (apache.warehouse, "n")
    backend.insert_namespace(space, {})
    before = len(apache_server.requests())
    apache_server.revoke_tokens()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: backend.insert_table((*space, f"t{number}"), f"/lake/{number}", {}), range(24)))
    asked = [request for request in apache_server.requests()[before:] if request == "POST /v1/oauth/tokens"]
    assert len(asked) == 1
    assert len(backend.child_tables(space)) == 24
    backend.close()


def test_a_server_that_gives_out_no_tokens_names_the_key_to_set(nessie: NessieServer, script: Scripted) -> None:
    config = {"endpoint": nessie.url, "warehouses": nessie.warehouse, "credential": "me:s3cret-77"}
    backend = IcebergBackend(**config)
    with pytest.raises(UnauthenticatedError, match=r"no tokens; .*`oauth2_server_uri`"):
        backend.scan()
    backend.close()
    tokens = script.routes["POST /token"] = Tokens()
    backend = IcebergBackend(**config, **{"oauth2-server-uri": f"{script.url}/token"})
    assert (nessie.warehouse,) in backend.scan().namespaces
    assert len(tokens.asked) == 1
    backend.close()


# ---- the flow --------------------------------------------------------------------------------------------------------


def test_a_token_is_asked_for_as_the_flow_has_it(script: Scripted) -> None:
    tokens = script.routes["POST /v1/oauth/tokens"] = Tokens()
    backend = connect(script, credential="me:s3:cret", scope="PRINCIPAL_ROLE:ALL")
    backend.scan()
    assert tokens.asked == [
        {
            "grant_type": ["client_credentials"],
            "client_id": ["me"],
            "client_secret": ["s3:cret"],
            "scope": ["PRINCIPAL_ROLE:ALL"],
        }
    ]
    assert {request.headers.get("Authorization") for request in script.requests if request.method == "GET"} == {
        "Bearer token-1"
    }
    assert "Authorization" not in script.requests[0].headers
    backend.close()


def test_the_authorization_server_may_be_another_one(script: Scripted) -> None:
    with scripted_catalog() as other:
        other.routes["POST /realms/x/token"] = Tokens()
        backend = connect(script, credential="me:s3cret", **{"oauth2-server-uri": f"{other.url}/realms/x/token"})
        backend.scan()
        assert other.paths() == ["POST /realms/x/token"]
        assert not [call for call in script.paths() if "oauth" in call]
        backend.close()


def test_a_token_is_renewed_before_it_expires(script: Scripted) -> None:
    now = [0.0]
    script.routes["POST /token"] = Tokens(expires_in=3600)
    source = credentials(script, lambda: now[0])
    assert source.token() == "token-1"
    now[0] = 3600 - 61
    assert source.token() == "token-1"
    now[0] = 3600 - 59
    assert source.token() == "token-2"


@pytest.mark.parametrize(("expires_in", "good_for"), [(30, 27), ("100", 90), (0, 0), (-5, 0)])
def test_a_short_token_is_used_for_most_of_its_life(script: Scripted, expires_in: object, good_for: float) -> None:
    now = [0.0]
    script.routes["POST /token"] = Tokens(expires_in)
    source = credentials(script, lambda: now[0])
    source.token()
    now[0] = good_for - 0.5
    if good_for:
        assert source.token() == "token-1"
    now[0] = good_for
    assert source.token() == "token-2"


@pytest.mark.parametrize("expires_in", [None, "soon", True, [], "²", "9" * 5_000, 10**400])
def test_a_token_without_an_end_is_used_until_it_is_refused(script: Scripted, expires_in: object) -> None:
    now = [0.0]
    script.routes["POST /token"] = Tokens(expires_in)
    source = credentials(script, lambda: now[0])
    source.token()
    now[0] = 1e9
    assert source.token() == "token-1"
    assert source.renew("token-1")
    assert source.token() == "token-2"
    assert source.renew("token-1")  # another thread's news, already known
    assert source.token() == "token-2"


def test_threads_share_one_token(script: Scripted) -> None:
    tokens = script.routes["POST /token"] = Tokens()
    source = credentials(script, lambda: 0.0)
    start = threading.Barrier(8)

    def get(_: int) -> str:
        start.wait(10)
        return source.token()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(get, range(8))) == {"token-1"}
    assert len(tokens.asked) == 1


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (Answer({"error": "invalid_client"}, 400), UnauthenticatedError, "400: invalid_client; check `credential`"),
        (Answer({"error": "invalid_scope"}, 400), InvalidInputError, "invalid_scope; check `scope`"),
        (error(401, "NotAuthorizedException", "bad"), UnauthenticatedError, "401: bad; check `credential`"),
        (error(501, "", "not here"), UnauthenticatedError, "not here; this server gives out no tokens; name the one"),
        (error(503, "", "busy"), ServiceUnavailableError, "503: busy"),
        (Answer({"token_type": "bearer"}), InternalError, "holds no `access_token`"),
        (Answer({"access_token": ""}), InternalError, "holds no `access_token`"),
        (Answer([]), InternalError, "no JSON object"),
    ],
)
def test_refusals_of_the_authorization_server(
    script: Scripted, answer: Answer, kind: type[BackendError], said: str
) -> None:
    script.routes["POST /v1/oauth/tokens"] = answer
    backend = connect(script, credential=f"me:{SECRET}")
    with pytest.raises(kind) as caught:
        backend.scan()
    assert said in str(caught.value)
    assert str(caught.value).startswith("iceberg: get a token for `credential`: ")
    backend.close()
