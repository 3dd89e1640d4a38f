"""Who is let in: tokens and their scopes, web pages, names; and what is written down about it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from reconciler.model.errors import ConfigError
from reconciler.server.guard import Access, TokenFile, Tokens
from reconciler.server.logs import JsonLines
from reconciler.server.running import ListenAddress
from tests.server.client import Api
from tests.server.conftest import Serve

READ, WRITE = "read-token-0123456789", "write-token-0123456789"
TOKENS = Tokens(read_only=[READ], read_write=[WRITE])


def test_without_a_token_nothing_is_told(serve: Serve) -> None:
    api = Api(serve(tokens=TOKENS))
    for method, path in (
        ("GET", "/v1/namespace/%24/list"),
        ("POST", "/ListTables"),
        ("GET", "/metrics"),
        ("GET", "/x"),
    ):
        refused = api(method, path)
        assert refused.error == (401, 16)
        assert refused.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", f"Basic {WRITE}", f"Bearer {WRITE[:-1]}", f"Bearer {WRITE}x", WRITE, "Bearer \xff"]
)
def test_another_token_is_not_known(serve: Serve, header: str) -> None:
    refused = Api(serve(tokens=TOKENS))("POST", "/ListNamespaces", {}, Authorization=header)
    assert refused.error == (401, 16)
    assert WRITE not in refused.text


def test_a_read_token_reads_and_a_write_token_writes(serve: Serve) -> None:
    url = serve(tokens=TOKENS)
    reader, writer = Api(url, READ), Api(url, WRITE)
    assert reader("POST", "/v1/table/a%24t/describe", {}).status == 200
    assert reader("GET", "/metrics").status == 200
    for path in ("/CreateNamespace", "/v1/table/a%24t/deregister", "/v1/table/a%24n/create", "/AlterTable"):
        assert reader("POST", path, {}).error == (403, 15)
    assert writer("POST", "/CreateNamespace", {"id": ["b"]}).status == 200
    assert reader("POST", "/ListNamespaces", {}).json == {"namespaces": ["a", "b"]}


def test_one_of_several_tokens_will_do() -> None:
    tokens = Tokens(read_write=["old-token-0123456789", "new-token-0123456789"])
    for token in ("old", "new"):
        assert tokens.access({"authorization": f"bearer {token}-token-0123456789"}) is Access.WRITE
    assert tokens.access({}) is Access.NONE


def test_a_token_is_taken_as_an_api_key_where_there_is_no_other(serve: Serve) -> None:
    api = Api(serve(tokens=TOKENS))
    assert api("POST", "/ListNamespaces", {}, x_api_key=READ).status == 200
    assert api("POST", "/CreateNamespace", {"id": ["b"]}, x_api_key=READ).error == (403, 15)
    assert api("POST", "/CreateNamespace", {"id": ["b"]}, x_api_key=WRITE).status == 200
    assert api("POST", "/ListNamespaces", {}, x_api_key="another").error == (401, 16)
    assert api("POST", "/ListNamespaces", {}, x_api_key=READ, Authorization="Bearer another").error == (401, 16)


def test_a_token_is_taken_from_the_identity_of_a_body_where_no_header_has_one(serve: Serve) -> None:
    api = Api(serve(tokens=TOKENS))

    def created(name: str, identity: object) -> int:
        return api("POST", "/CreateNamespace", {"id": [name], "identity": identity}).status

    assert api("POST", "/v1/namespace/a/describe", {"identity": {"api_key": READ}}).status == 200
    assert created("b", {"auth_token": WRITE}) == 200
    assert created("c", {"api_key": WRITE}) == 200
    assert created("d", {"api_key": READ}) == 403
    assert created("d", {"auth_token": READ, "api_key": WRITE}) == 403
    both = {"id": ["d"], "identity": {"auth_token": WRITE}}
    assert api("POST", "/CreateNamespace", both, x_api_key=READ).error == (403, 15)
    for identity in ({"auth_token": f"{WRITE}x"}, {"auth_token": [WRITE]}, {}, [WRITE], WRITE, None, {"api_key": 7}):
        assert created("d", identity) == 401, identity
    for body in (b"", b"[]", b"{", b"[" * 60_000, b"\xff", b'{"identity": "' + b"x" * 2_000_000 + b'"}'):
        assert api("POST", "/CreateNamespace", data=body, content_type="application/json").error == (401, 16)


def test_a_token_file_is_read_again_when_it_changes(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "token"
    path.write_text(f"{READ}\n")
    api = Api(serve(tokens=Tokens(read_only=[TokenFile(path)])))

    def admits(token: str) -> bool:
        return api("POST", "/ListNamespaces", {}, Authorization=f"Bearer {token}").status == 200

    assert admits(READ)
    (tmp_path / "new").write_text("another-token-0123456789")
    (tmp_path / "new").rename(path)  # as Kubernetes and Vault replace it
    assert (admits(READ), admits("another-token-0123456789")) == (False, True)
    with caplog.at_level(logging.WARNING, "reconciler.server"):
        path.write_text("short")
        assert not admits("another-token-0123456789")
        assert not admits("short")
        path.unlink()
        assert not admits("another-token-0123456789")
    assert "a token is no longer valid" in caplog.text
    path.write_text(READ)
    assert admits(READ)


@pytest.mark.parametrize("content", [b"", b"short", b"two words are no token", b"\xff" * 20])
def test_a_file_without_a_token_is_refused_without_a_word_of_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(ConfigError, match="holds no token: ") as refused:
        TokenFile(tmp_path / "token")
    assert "two words" not in str(refused.value)
    with pytest.raises(ConfigError, match="missing: No such file"):
        TokenFile(tmp_path / "missing")


def test_probes_and_the_document_need_no_token(serve: Serve) -> None:
    api = Api(serve(tokens=TOKENS))
    assert [api("GET", path).status for path in ("/healthz", "/readyz", "/openapi.json")] == [200] * 3
    assert api("GET", "/openapi.json").json["security"] == [{"BearerAuth": []}, {"ApiKeyAuth": []}]


def test_web_pages_are_not_served(serve: Serve) -> None:
    api = Api(serve(hosts=ListenAddress("127.0.0.1", 0).own_names()))
    assert api("POST", "/v1/table/a%24t/deregister", Origin="http://evil.example").error == (403, 15)
    assert api("GET", "/v1/namespace/%24/list", Host="evil.example:2333").error == (403, 15)
    assert api("GET", "/v1/namespace/%24/list", Host="localhost:2333").status == 200
    assert api("POST", "/v1/table/a%24t/exists", {}).status == 200


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("127.3.2.1", True), ("::", False), ("db", False)],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, loopback: bool) -> None:
    assert ListenAddress(host, 0).is_loopback is loopback


def test_every_request_is_a_line_of_json_without_secrets(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "reconciler.server")
    api = Api(serve(tokens=TOKENS), WRITE)
    body = {"id": ["a", "n"], "location": "s3://lake/n", "properties": {"password": "prop-secret-1"}}
    answer = api("POST", "/DeclareTable?note=query-secret-2", body, X_Request_Id="mine-1")
    api("POST", "/v1/table/a%24missing/describe", {})
    api("GET", "/healthz")
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records if record.name == "reconciler.server"]
    assert answer.headers["x-request-id"] == "mine-1"
    assert [(line["operation"], line["id"], line["status"], line.get("code")) for line in lines] == [
        ("DeclareTable", "a$n", 200, None),
        ("DescribeTable", "a$missing", 404, 4),
    ]
    assert lines[0]["request_id"] == "mine-1"
    assert lines[0]["access"] == "write"
    text = json.dumps(lines)
    for secret in (WRITE, "prop-secret-1", "query-secret-2"):
        assert secret not in text


def test_an_error_has_the_id_of_its_request(serve: Serve) -> None:
    """The specification's `instance` leads the operator to the line of the log."""
    url = serve(tokens=TOKENS)
    for token, status in ((READ, 404), ("no-such-token-0123", 401)):
        for path in ("/v1/namespace/nowhere/describe", "/nothing/here"):
            answer = Api(url, token)("POST", path, {}, X_Request_Id="call-7")
            assert answer.status == status
            assert answer.json["instance"] == answer.headers["x-request-id"] == "call-7"
    assert "instance" not in Api(url, READ)("GET", "/v1/namespace/%24/list").json


def test_an_id_that_would_forge_the_log_is_replaced(serve: Serve) -> None:
    assert Api(serve())("GET", "/healthz", X_Request_Id="a b" * 40).headers["x-request-id"].isalnum()


def test_metrics_count_operations_and_never_name_objects(serve: Serve) -> None:
    api = Api(serve())
    api("POST", "/v1/table/a%24t/describe", {})
    api("POST", "/v1/table/a%24missing/describe", {})
    api("GET", "/somewhere/else")
    text = api("GET", "/metrics").text
    assert 'lancens_requests_total{operation="DescribeTable",status="200"} 1.0' in text
    assert 'lancens_requests_total{operation="DescribeTable",status="404"} 1.0' in text
    assert 'lancens_requests_total{operation="other",status="404"} 1.0' in text
    assert 'lancens_request_seconds_count{operation="DescribeTable"} 2.0' in text
    assert "lancens_requests_in_flight 1.0" in text
    assert "missing" not in text
