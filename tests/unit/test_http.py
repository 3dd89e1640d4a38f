"""The HTTP layer against a small server that answers what a test tells it to."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, PoolManager

from reconciler.backends.http.client import HttpClient, TaggedValue, path
from reconciler.backends.http.config import endpoint_problem
from reconciler.backends.http.limits import ServiceLimits, timed_session
from reconciler.backends.http.rate_limit import RateLimit
from reconciler.backends.http.refusals import ForeignAnswerError, Refusal, UnknownRouteError, VendorError
from reconciler.backends.http.retry import Attempts, RetryPolicy
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import (
    BackendError,
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    PermissionDeniedError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
    ThrottlingError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from tests.clock import SimulatedClock
from tests.servers.listening import http_server

TOKEN = "tok-3f9ab2c4d5"
NOW = 1_700_000_000.0
OK = (200, {"Content-Type": "application/json"}, b'{"ok": true}')
CLOSE: tuple[int, dict[str, str], bytes] = (0, {}, b"")


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Script:
    """The answers to give, in order, the last one for ever; and the requests that came."""

    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=lambda: [OK])
    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    clock: SimulatedClock = field(default_factory=lambda: SimulatedClock(NOW))

    @property
    def waits(self) -> list[float]:
        return self.clock.pauses

    def client(self, **options: Any) -> HttpClient:
        settings: dict[str, Any] = {
            "impl": "unity",
            "endpoint": self.url,
            "timeouts": (5.0, 5.0),
            "retry": self.retry(),
            **options,
        }
        return HttpClient(**settings)

    def retry(self, max_retries: int = 3, **options: Any) -> RetryPolicy:
        """A policy whose pauses are written down, each the longest that jitter allows."""
        return RetryPolicy(max_retries, clock=self.clock, **options)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script
    lock = threading.Lock()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.lock:
            self.script.seen.append(Seen(self.command, self.path, dict(self.headers), body))
            answers = self.script.answers
            status, headers, content = answers.pop(0) if len(answers) > 1 else answers[0]
        if status == 0:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        if "Content-Length" in headers:
            self.close_connection = True

    do_GET = do_POST = do_DELETE = do_HEAD = do_PATCH = _answer  # noqa: N815 - the names http.server asks for


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    script = Script()
    with http_server(_Handler, script=script) as script.url:
        yield script


def answer(status: int, body: object = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    content = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    kind = "text/plain" if isinstance(body, str) else "application/json"
    return status, {"Content-Type": kind, **{key.replace("_", "-"): value for key, value in headers.items()}}, content


def refused(
    client: HttpClient, kind: type[BackendError], method: str = "GET", target: str = "/t", **options: Any
) -> str:
    """Return the text of the error, which is exactly of ``kind``."""
    with pytest.raises(BackendError) as caught:
        client.request_json(method, target, doing="read the table `a$b`", **options)
    assert type(caught.value) is kind, caught.value
    return str(caught.value)


# ---- requests ------------------------------------------------------------------------------------


def test_a_request_carries_what_it_was_given(script: Script) -> None:
    client = script.client(endpoint=script.url + "/api/2.1/", headers={"X-Tenant": "ads"})
    assert client.request_json("POST", path("a/b", "é.x"), doing="x", query={"page_token": "a&b"}, body={"n": 1}) == {
        "ok": True
    }
    [seen] = script.seen
    assert (seen.method, seen.path) == ("POST", "/api/2.1/a%2Fb/%C3%A9.x?page_token=a%26b")
    assert json.loads(seen.body) == {"n": 1}
    assert seen.headers["Content-Type"] == "application/json"
    assert seen.headers["X-Tenant"] == "ads"
    assert "Authorization" not in seen.headers


def test_an_escaped_path_is_sent_verbatim(script: Script) -> None:
    script.client().request_json("GET", "/v1/main%7Cware/namespaces/a%2Eb%1Fc", doing="x")
    assert script.seen[0].path == "/v1/main%7Cware/namespaces/a%2Eb%1Fc"


def test_a_form_is_sent_as_one(script: Script) -> None:
    script.client().request_json(
        "POST", "/tokens", doing="x", form={"grant_type": "client_credentials", "scope": "a b"}
    )
    assert script.seen[0].body == b"grant_type=client_credentials&scope=a+b"
    assert script.seen[0].headers["Content-Type"] == "application/x-www-form-urlencoded"


def test_connections_are_kept_and_cookies_are_not(script: Script) -> None:
    script.answers = [(200, {"Set-Cookie": "session=1"}, b"{}")]
    client = script.client()
    for _ in range(3):
        client.request_json("GET", "/t", doing="x")
    assert not any("Cookie" in seen.headers for seen in script.seen)
    client.close()


def test_netrc_is_not_used(script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login joe password hunter22\n")
    monkeypatch.setenv("NETRC", str(netrc))
    script.client().request_json("GET", "/t", doing="x")
    assert "Authorization" not in script.seen[0].headers


def test_every_request_is_counted_repeated_ones_included(script: Script) -> None:
    script.answers = [answer(429), OK]
    client = script.client()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: client.request_json("GET", "/t", doing="x"), range(20)))
    assert client.meter.traffic.calls == len(script.seen) == 21


@pytest.mark.parametrize(("status", "body"), [(200, "200 OK"), (204, None), (200, None), (201, {"x": 1})])
def test_done_takes_any_success(script: Script, status: int, body: object) -> None:
    script.answers = [answer(status, body)]
    script.client().send("DELETE", "/t", doing="x")
    assert len(script.seen) == 1


# ---- what comes back is not the service's --------------------------------------------------------


def number(value: dict[str, Any]) -> int:
    return int(value["n"])


def test_what_did_not_change_is_not_sent_again(script: Script) -> None:
    script.answers = [answer(200, {"n": 1}, ETag='"v1"'), answer(304), answer(200, {"n": 2}, ETag='"v2"')]
    client = script.client()
    first = client.get_if_changed("/t", None, number, doing="read it")
    assert first == TaggedValue(1, '"v1"')
    assert client.get_if_changed("/t", first, number, doing="read it") is first
    assert client.get_if_changed("/t", first, number, doing="read it") == TaggedValue(2, '"v2"')
    assert [seen.headers.get("If-None-Match") for seen in script.seen] == [None, '"v1"', '"v1"']


def test_an_unchanged_answer_nobody_asked_for_is_an_error(script: Script) -> None:
    script.answers = [answer(304)]
    with pytest.raises(BackendError, match="304"):
        script.client().get_if_changed("/t", TaggedValue(1, None), number, doing="read it")


def test_a_login_without_a_key_to_look_at_leaves_the_remedy_to_the_translator(script: Script) -> None:
    script.answers = [answer(401, {"said": "no"})]
    client = script.client(token_key=None, translate=lambda _: VendorError("look at `credential`"))
    assert refused(client, UnauthenticatedError).endswith(": 401: look at `credential`")


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "application/json"])
def test_a_web_page_is_named_as_one(script: Script, content_type: str) -> None:
    page = b"<!doctype html><html><title>Sign in &amp; go</title><body>secret stuff</body></html>"
    script.answers = [(200, {"Content-Type": content_type}, page)]
    text = refused(script.client(), ForeignAnswerError)
    assert "a web page titled `Sign in & go`" in text
    assert "check `endpoint`" in text
    assert "secret stuff" not in text
    with pytest.raises(ServiceUnavailableError, match="Sign in"):
        script.client().send("DELETE", "/t", doing="x")


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"", "an empty answer"),
        (b"[1, 2]", "[1, 2]"),
        (b'{"tables": [', '{"tables": ['),
        (b"null", "null"),
        (b"\xff\xfe\x00", "no JSON object"),
        (b"[" * 100_000, "no JSON object"),
        (b"pong\x1b[2J\n", "pong [2J"),
    ],
)
def test_what_is_no_json_object_is_an_error_that_shows_it(script: Script, content: bytes, shown: str) -> None:
    script.answers = [(200, {"Content-Type": "application/json"}, content)]
    text = refused(script.client(), InternalError)
    assert text.startswith("unity: read the table `a$b`: 200 ")
    assert shown in text
    assert len(text) < 600
    assert "\x1b" not in text


def test_an_answer_cut_off_in_the_middle_is_read_again(script: Script) -> None:
    script.answers = [(200, {"Content-Length": "500"}, b'{"ok": '), OK]
    assert script.client().request_json("GET", "/t", doing="x") == {"ok": True}


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("https://login.example.com/oauth2/authorize?client_secret=s3cr3t", UnauthenticatedError),
        ("https://user:s3cr3t@other.example.com/api", ForeignAnswerError),
        ("/elsewhere", ForeignAnswerError),
    ],
)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(script: Script, status: int, target: str, kind: type[BackendError]) -> None:
    script.answers = [answer(status, Location=target)]
    text = refused(script.client(), kind)
    assert len(script.seen) == 1
    assert "redirects to" in text
    assert "check `endpoint` and `auth_token`" in text
    assert "s3cr3t" not in text


def test_a_redirect_is_held_to_the_limits_of_answers(script: Script) -> None:
    bomb = gzip.compress(bytes(2 * 1024 * 1024))
    script.answers = [(302, {"Location": "/elsewhere", "Content-Encoding": "gzip"}, bomb)]
    assert "max_answer_mib" in refused(script.client(limits=ServiceLimits(max_answer_mib=1)), InternalError)


def test_a_redirect_to_no_address_is_refused(script: Script) -> None:
    script.answers = [answer(302, Location="http://[::1/elsewhere")]
    assert "an unreadable address" in refused(script.client(), ForeignAnswerError)


def test_answers_through_a_proxy_keep_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    class SocksPool(HTTPConnectionPool):
        pass

    class SocksManager(PoolManager):
        def __init__(self, _: str, *, username: str, password: str, **pools: Any) -> None:
            super().__init__(**pools)
            self.pool_classes_by_scheme = {"http": SocksPool}

    monkeypatch.setattr("requests.adapters.SOCKSProxyManager", SocksManager)
    made = timed_session(2, 5.0).get_adapter("http://lake.example.com")
    assert isinstance(made, HTTPAdapter)
    first, again = (made.proxy_manager_for("socks5h://p:1").pool_classes_by_scheme["http"] for _ in range(2))
    assert first is again
    assert issubclass(first, SocksPool)


# ---- statuses and vendor bodies ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "remedy"),
    [
        (400, InvalidInputError, ""),
        (401, UnauthenticatedError, "set `auth_token`"),
        (403, PermissionDeniedError, "grant the owner of `auth_token`"),
        (404, InternalError, ""),
        (405, UnsupportedOperationError, ""),
        (409, ConcurrentModificationError, ""),
        (412, ConcurrentModificationError, ""),
        (418, InternalError, ""),
        (422, InvalidInputError, ""),
        (429, ThrottlingError, "run again later"),
        (500, InternalError, ""),
        (501, UnsupportedOperationError, ""),
        (502, ServiceUnavailableError, "is up"),
        (503, ServiceUnavailableError, "is up"),
        (504, ServiceUnavailableError, "is up"),
    ],
)
def test_a_status_decides_where_nothing_else_does(
    script: Script, status: int, kind: type[BackendError], remedy: str
) -> None:
    script.answers = [answer(status, {"message": "as the service says it"})]
    text = refused(script.client(retry=script.retry(max_retries=0)), kind)
    assert f"read the table `a$b`: {status}" in text
    assert "as the service says it" in text
    assert remedy in text


def test_a_404_from_something_else_does_not_mean_that_the_table_is_gone(script: Script) -> None:
    script.answers = [answer(404, "no route /t")]
    text = refused(script.client(), UnknownRouteError, errors={404: TableNotFoundError})
    assert "no route /t" in text
    assert "check `endpoint`" in text


def test_a_404_to_head_has_no_body_and_means_what_the_call_says(script: Script) -> None:
    script.answers = [answer(404)]
    with pytest.raises(TableNotFoundError):
        script.client().send("HEAD", "/t", doing="x", errors={404: TableNotFoundError})


def vendor(refusal: Refusal) -> VendorError | None:
    if not isinstance(refusal.body, dict) or "error_code" not in refusal.body:
        return None
    code = refusal.body["error_code"]
    kinds = {"TABLE_ALREADY_EXISTS": TableAlreadyExistsError}
    return VendorError(refusal.body["message"], kinds.get(code), 409 if code == "ALREADY_EXISTS" else None)


def test_the_vendor_is_asked_before_the_status(script: Script) -> None:
    script.answers = [
        answer(400, {"error_code": "TABLE_ALREADY_EXISTS", "message": "there is one"}),
        answer(400, {"error_code": "ALREADY_EXISTS", "message": "one of these"}),
        answer(404, {"error_code": "ODD", "message": "no such thing"}),
        answer(403, {"other": 1}),
    ]
    client = script.client(translate=vendor)
    assert "400: there is one" in refused(client, TableAlreadyExistsError)
    assert "400: one of these" in refused(client, TableAlreadyExistsError, errors={409: TableAlreadyExistsError})
    assert "404: no such thing" in refused(client, TableNotFoundError, errors={404: TableNotFoundError})
    assert '{"other": 1}' in refused(client, PermissionDeniedError)


# ---- retries -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("refusal", [answer(429), answer(503, Retry_After="0")])
def test_what_was_not_begun_is_sent_again(
    script: Script, method: str, refusal: tuple[int, dict[str, str], bytes]
) -> None:
    script.answers = [refusal, refusal, OK]
    assert script.client().request_json(method, "/t", doing="x") == {"ok": True}
    assert len(script.seen) == 3


@pytest.mark.parametrize("failure", [answer(502), answer(503), answer(504), CLOSE])
def test_what_may_have_been_done_is_sent_again_only_when_it_changes_nothing(
    script: Script, failure: tuple[int, dict[str, str], bytes]
) -> None:
    script.answers = [failure, OK]
    assert script.client().request_json("GET", "/t", doing="x") == {"ok": True}
    script.answers = [failure, OK]
    script.seen.clear()
    text = refused(script.client(), ServiceUnavailableError, "POST")
    assert len(script.seen) == 1
    if failure is CLOSE:
        assert "whether it was carried out is not known" in text


@pytest.mark.parametrize("failure", [answer(502), CLOSE])
def test_a_call_may_say_that_it_can_be_sent_again(script: Script, failure: tuple[int, dict[str, str], bytes]) -> None:
    script.answers = [failure, OK]
    assert script.client().request_json("PATCH", "/", doing="set", repeatable=True) == {"ok": True}


def test_a_server_error_is_not_repeated(script: Script) -> None:
    script.answers = [answer(500, {"message": "boom"}), OK]
    refused(script.client(), InternalError)
    assert len(script.seen) == 1


def test_backoff_doubles_up_to_a_cap_and_ends(script: Script) -> None:
    script.answers = [answer(502)]
    text = refused(script.client(retry=script.retry(6, base=1.0, cap=5.0)), ServiceUnavailableError)
    assert script.waits == [1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
    assert "502 after 7 tries" in text


@pytest.mark.parametrize(("status", "kind"), [(429, ThrottlingError), (503, ServiceUnavailableError)])
def test_a_throttled_request_is_given_up_after_a_time_without_progress(
    script: Script, status: int, kind: type[BackendError]
) -> None:
    script.answers = [answer(status)]
    text = refused(script.client(retry=script.retry(max_wait=60)), kind)
    assert 60 < script.clock.elapsed < 66
    assert max(script.waits) == 5.0
    assert f"{status} after {len(script.seen)} tries" in text


def test_a_service_that_accepts_other_requests_makes_progress_unless_it_says_unavailable(script: Script) -> None:
    limit = RateLimit(script.clock)

    def attempts(status: int) -> int:
        """Send a request that is always refused, and one that is accepted, until the first is given up."""
        refused_request, number = Attempts(script.retry(max_wait=60), limit), 0
        while number < 100:
            refused_request.begin()
            if not refused_request.may_retry(status, "20", repeatable=True):
                break
            limit.accepted(limit.wait())
            number += 1
        return number

    assert attempts(429) == 100
    assert attempts(503) < 5


def test_no_retry_is_made_where_none_is_wanted(script: Script) -> None:
    script.answers = [answer(429)]
    refused(script.client(retry=script.retry(0)), ThrottlingError)
    assert (len(script.seen), script.waits) == (1, [])


def test_retry_after_is_kept_in_seconds_and_as_a_date(script: Script) -> None:
    date = formatdate(NOW + 30, usegmt=True)
    past = formatdate(NOW - 30, usegmt=True)
    script.answers = [answer(429, Retry_After="7"), answer(503, Retry_After=date), answer(429, Retry_After=past), OK]
    script.client(retry=script.retry(base=0.5)).request_json("POST", "/t", doing="x")
    # The service's clock has the date: of its 30 seconds, 7.5 have passed.
    assert script.waits == [7.5, 23.0, 0.5]


def test_retry_after_that_cannot_be_read_counts_as_none(script: Script) -> None:
    script.answers = [answer(429, Retry_After="soon"), answer(429, Retry_After="-3"), OK]
    script.client(retry=script.retry(base=0.5)).request_json("GET", "/t", doing="x")
    assert script.waits == pytest.approx([0.1, 0.2])


def test_a_pause_too_long_is_an_error_at_once(script: Script) -> None:
    script.answers = [answer(429, Retry_After="3600")]
    refused(script.client(), ThrottlingError)
    assert script.waits == []
    assert len(script.seen) == 1


def test_jitter_is_drawn_from_zero(script: Script) -> None:
    drawn: list[tuple[float, float]] = []

    class Dice(SimulatedClock):
        def uniform(self, least: float, most: float) -> float:
            drawn.append((least, most))
            return least

    script.answers = [answer(502), answer(502), OK]
    script.clock = Dice()
    script.client(retry=script.retry(base=0.5)).request_json("GET", "/t", doing="x")
    assert drawn == [(0.0, 0.5), (0.0, 1.0)]
    assert script.waits == [0.0, 0.0]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_refused_connection_is_tried_again_and_then_explained(script: Script, method: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        text = refused(script.client(endpoint=address), ServiceUnavailableError, method)
    assert len(script.waits) == 3
    assert f"no answer from {address}" in text
    assert "refused" in text
    assert "after 4 tries" in text
    assert "check `endpoint`" in text


def test_a_silent_service_runs_into_the_time_out(script: Script) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = script.client(endpoint=address, timeouts=(5.0, 0.05))
        text = refused(client, ServiceUnavailableError)
        assert client.meter.traffic.calls == 4
        assert "within 0.05 s" in text
        refused(client, ServiceUnavailableError, "POST")
        assert client.meter.traffic.calls == 5


def test_an_unknown_host_is_named(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_args: object, **_options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    text = refused(script.client(endpoint="http://unity.invalid:8080"), ServiceUnavailableError)
    assert "http://unity.invalid:8080 is not known" in text
    assert script.waits == []


def test_a_name_server_that_is_busy_is_asked_again(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_args: object, **_options: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", busy)
    refused(script.client(endpoint="http://unity.invalid:8080"), ServiceUnavailableError, "POST")
    assert len(script.waits) == 3


def test_tls_trouble_is_explained_and_not_repeated(script: Script) -> None:
    text = refused(script.client(endpoint=script.url.replace("http:", "https:")), ServiceUnavailableError)
    assert "no trusted TLS connection" in text
    assert "https or http" in text
    assert script.waits == []


def test_an_untrusted_certificate_names_the_variable_to_set(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    def untrusted(*_args: object, **_options: object) -> None:
        raise ssl.SSLCertVerificationError("certificate verify failed: self-signed certificate")

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", untrusted)
    text = refused(script.client(endpoint=script.url.replace("http:", "https:")), ServiceUnavailableError)
    assert "self-signed certificate" in text
    assert "REQUESTS_CA_BUNDLE" in text


# ---- tokens --------------------------------------------------------------------------------------


class Tokens:
    """Numbered tokens, a fresh one at each renewal while there are any."""

    def __init__(self, *tokens: str) -> None:
        self._tokens = list(tokens)
        self.rejected: list[str | None] = []

    def token(self) -> str:
        return self._tokens[0]

    def renew(self, rejected: str | None) -> bool:
        self.rejected.append(rejected)
        if len(self._tokens) > 1:
            self._tokens.pop(0)
            return True
        return False

    def close(self) -> None:
        pass


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("status", [401, 419])
def test_a_refused_token_is_renewed_once(script: Script, method: str, status: int) -> None:
    script.answers = [answer(status), OK]
    tokens = Tokens("first-token", "second-token", "third-token")
    script.client(tokens=tokens).request_json(method, "/t", doing="x")
    assert [seen.headers["Authorization"] for seen in script.seen] == ["Bearer first-token", "Bearer second-token"]
    assert tokens.rejected == ["first-token"]
    script.answers = [answer(status)]
    script.seen.clear()
    refused(script.client(tokens=tokens), UnauthenticatedError, method)
    assert len(script.seen) == 2


def test_a_token_that_cannot_be_renewed_is_an_error_that_says_so(script: Script) -> None:
    script.answers = [answer(401)]
    text = refused(script.client(tokens=Tokens(TOKEN), token_key="token"), UnauthenticatedError)
    assert "check `token`: it is not accepted" in text
    assert TOKEN not in text


@pytest.mark.parametrize(
    "reply",
    [
        answer(403, {"message": f"token {TOKEN} may not; Authorization: Bearer {TOKEN}; key k3y-of-tenant"}),
        answer(500, f"GET /t Authorization: Bearer {TOKEN} k3y-of-tenant"),
        answer(200, f"debug: {TOKEN} bearer abcdef.ghijkl k3y-of-tenant"),
        answer(302, Location=f"https://h.example/login/{TOKEN}/k3y-of-tenant"),
        answer(502, f"upstream http://joe:{TOKEN}@inner/ k3y-of-tenant"),
        *(answer(500, f"{'-' * cut}{TOKEN}") for cut in range(380, 400)),
    ],
)
def test_no_error_shows_a_secret(script: Script, reply: tuple[int, dict[str, str], bytes]) -> None:
    script.answers = [reply]
    client = script.client(tokens=Tokens(TOKEN), secrets=["k3y-of-tenant"])
    with pytest.raises(BackendError) as caught:
        client.request_json("POST", "/t", doing="x")
    shown = f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"
    assert TOKEN[:6] not in shown
    assert "k3y-of-tenant" not in shown
    assert "abcdef" not in shown


def test_a_token_that_is_no_header_value_is_refused_without_showing_it(script: Script) -> None:
    text = refused(script.client(tokens=Tokens(f"{TOKEN}\nX-Evil: 1")), InvalidInputError)
    assert "`auth_token` holds what no header" in text
    assert TOKEN not in text
    refused(script.client(tokens=Tokens("tök-3f9ab2c4d5")), InvalidInputError)
    text = refused(script.client(headers={"X-Key": f"{TOKEN}\n"}), InvalidInputError)
    assert TOKEN not in text
    assert script.seen == []


# ---- the small functions -------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", ["http://localhost:8080", "https://h.example/some/path/", "http://[::1]:80"])
def test_addresses_of_services(endpoint: str) -> None:
    assert endpoint_problem(endpoint) is None


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("localhost:8080", "http://"),
        ("ftp://h", "http://"),
        ("http://", "http://"),
        ("http://h:99999", "not an address"),
        ("http://h:0", "http://"),
        ("http://[::1", "not an address"),
        ("http://joe:pw@h", "user information"),
        ("http://h?token=1", "query"),
        ("http://h#x", "fragment"),
    ],
)
def test_addresses_that_cannot_be(endpoint: str, reason: str) -> None:
    problem = endpoint_problem(endpoint)
    assert problem is not None
    assert reason in problem


def test_in_parallel_keeps_the_order_and_raises_the_first_error() -> None:
    assert in_parallel(lambda item: item * 2, range(50), 4) == [item * 2 for item in range(50)]
    assert in_parallel(str, [], 4) == []

    def fails(item: int) -> int:
        raise KeyError(item)

    with pytest.raises(KeyError, match="0"):
        in_parallel(fails, range(50), 4)
