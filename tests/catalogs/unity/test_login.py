"""OAuth M2M: a service principal's id and secret, exchanged for tokens that are renewed.

Scripted from Databricks' documentation, "Authorize service principal access to Databricks with OAuth", "Manually
generate OAuth M2M access tokens": POST to `https://<workspace>/oidc/v1/token` with HTTP basic authentication and the
form `grant_type=client_credentials&scope=all-apis`; the answer has `access_token` and `expires_in`, 3600 seconds.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from urllib.parse import parse_qs

import pytest

from reconciler.backends.unity import UnityBackend
from reconciler.model.errors import (
    BackendError,
    InvalidInputError,
    PermissionDeniedError,
    ServiceUnavailableError,
    UnauthenticatedError,
)
from tests.servers.scripted import Answer, Request, Scripted

API = "GET /api/2.1/unity-catalog"
SECRET = "dose-secret-77/+x"
CREDENTIAL = f"client-1:{SECRET}"


class Workspace:
    """A workspace that gives out tokens t1, t2, … and takes the last one only, while it is not ``revoked``."""

    def __init__(self, script: Scripted, expires_in: object = 3600) -> None:
        self.given = 0
        self.revoked = False
        self.expires_in = expires_in
        self.login: Answer | None = None
        script.routes["POST /oidc/v1/token"] = self.token
        script.routes[f"{API}/catalogs"] = self.guarded({"catalogs": [{"name": "main", "id": "1"}]})
        script.routes[f"{API}/schemas"] = self.guarded({"schemas": [{"name": "s", "schema_id": "2"}]})
        script.routes[f"{API}/tables"] = self.guarded({"tables": []})

    def token(self, request: Request) -> Answer:
        assert parse_qs(request.body) == {"grant_type": ["client_credentials"], "scope": ["all-apis"]}
        decoded = base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode()
        assert decoded == "client-1:dose-secret-77%2F%2Bx"
        if self.login is not None:
            return self.login
        self.given += 1
        self.revoked = False
        return Answer({"access_token": f"t{self.given}-opaque", "token_type": "Bearer", "expires_in": self.expires_in})

    def guarded(self, body: object) -> Callable[[Request], Answer]:
        def answer(request: Request) -> Answer:
            if self.revoked or request.headers.get("Authorization") != f"Bearer t{self.given}-opaque":
                return Answer({"error_code": 403, "message": "Invalid access token."}, 403)
            return Answer(body)

        return answer


def connect(script: Scripted, **more: str) -> UnityBackend:
    config = {"endpoint": script.url, "catalog": "main", "credential": CREDENTIAL, "max_retries": "0", **more}
    return UnityBackend(**config)


def test_a_token_is_asked_for_once_and_used(script: Scripted) -> None:
    workspace = Workspace(script)
    backend = connect(script)
    for _ in range(2):
        assert set(backend.scan().namespaces) == {("main",), ("main", "s")}
    assert workspace.given == 1
    assert SECRET not in f"{backend.config!r}{backend.namespace_id()}"
    backend.close()


def test_one_that_is_revoked_is_renewed_once(script: Scripted) -> None:
    workspace = Workspace(script)
    backend = connect(script)
    backend.scan()
    workspace.revoked = True
    backend.scan()
    assert workspace.given == 2
    backend.close()


def test_headers_go_to_the_service_alone_and_are_not_shown(script: Scripted) -> None:
    workspace = Workspace(script)
    backend = connect(script, **{"headers.X-Databricks-Org-Id": "org-7731", "headers.x-api-key": "gateway-5520"})
    backend.scan()
    assert workspace.given == 1
    for request in script.requests:
        sent = [request.headers.get(name) for name in ("X-Databricks-Org-Id", "x-api-key")]
        assert sent == ([None, None] if request.path == "/oidc/v1/token" else ["org-7731", "gateway-5520"])
    script.routes["GET /api/2.1/unity-catalog/catalogs"] = Answer(
        {"error_code": "PERMISSION_DENIED", "message": "not for gateway-5520 of org-7731"}, 403
    )
    with pytest.raises(PermissionDeniedError, match=r"not for \(redacted\) of \(redacted\)"):
        backend.scan()
    assert "org-7731" not in f"{backend.config!r}{backend.namespace_id()}"
    assert backend.namespace_id() != connect(script).namespace_id()
    backend.close()


def test_a_header_that_is_a_credential_goes_over_no_plain_connection() -> None:
    with pytest.raises(InvalidInputError, match="`endpoint` is a plain http:// address"):
        UnityBackend(**{"endpoint": "http://unity.example", "catalog": "main", "headers.x-api-key": SECRET})


@pytest.mark.parametrize(
    ("login", "kind", "said"),
    [
        (
            Answer({"error": "invalid_client", "error_description": f"Client authentication failed {SECRET}"}, 401),
            UnauthenticatedError,
            "401: invalid_client: Client authentication failed (redacted); check `credential`: it is not accepted",
        ),
        (Answer({"error": "invalid_scope"}, 400), InvalidInputError, "400: invalid_scope; check `scope`"),
        (Answer(b"<html><title>Sign in</title></html>", 200), ServiceUnavailableError, "check `endpoint`"),
    ],
)
def test_a_login_that_fails_is_told(script: Scripted, login: Answer, kind: type[BackendError], said: str) -> None:
    Workspace(script).login = login
    backend = connect(script)
    with pytest.raises(kind) as caught:
        backend.scan()
    assert str(caught.value).startswith("unity: get a token for `credential`: ")
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)
    backend.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"credential": SECRET}, "`credential`: must be `client_id:client_secret`"),
        ({"auth_token": SECRET}, "two ways to authenticate; give one"),
        ({"credential": "", "oauth2_server_uri": "https://login.example"}, "must be `client_id:client_secret`"),
        ({"endpoint": "http://dbc.example"}, "`endpoint` is a plain http:// address"),
        ({"oauth2-server-uri": "http://login.example"}, "`oauth2_server_uri` is a plain http:// address"),
        ({"header.x-api-key": SECRET}, "unknown key `header.x-api-key`; write `headers.NAME`"),
    ],
)
def test_what_is_refused(script: Scripted, given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        connect(script, **given)
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)
