"""Admission: settings, tokens, and the middleware that every request passes."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from lance_namespace.errors import ErrorCode
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reconciler.model import display
from reconciler.model.errors import ConfigError
from reconciler.model.pipes import read_file_or_pipe
from reconciler.server.answers import RETRY_HEADERS, error_response
from reconciler.server.logs import Metrics, logger

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""Routes without a token: their answers do not depend on what the catalogs hold."""
_PROBES = OPEN_PATHS | {"/metrics"}

_LONGEST_LOGGED = 200
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

_LARGEST_TOKEN_FILE = 64 * 1024
_SHORTEST_TOKEN = 16
_LONGEST_WITH_IDENTITY = 64 * 1024
_MOST_REQUESTS = 2048
_OWN_FILES = 64
_MOST_FILES = 65_536


class Access(Enum):
    """What a request may do."""

    NONE = 0
    READ = 1
    WRITE = 2


class TokenFile:
    """A token in a file, which can be replaced while the server runs.

    Raises:
        ConfigError: there is no such file, or it holds no token; the message shows none of its content.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._version: tuple[int, ...] | None
        self._digest: bytes | None
        try:
            self._version, self._digest = self._file_version(), _digest(_read_token(self._path))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror or error}") from None

    def digest(self) -> bytes | None:
        """Return the digest of the token that the file holds now, or None.

        The file is read again if its inode, size or time changed.
        """
        try:
            version = self._file_version()
        except OSError:
            version = None
        if version != self._version:
            self._version, self._digest = version, self._reload()
        return self._digest

    def _file_version(self) -> tuple[int, ...]:
        status = self._path.stat()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def _reload(self) -> bytes | None:
        try:
            digest = _digest(_read_token(self._path))
        except (ConfigError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            logger.warning("a token is no longer valid", extra={"fields": {"file": str(self._path), "why": reason}})
            return None
        logger.info("a token was replaced", extra={"fields": {"file": str(self._path)}})
        return digest


class Tokens:
    """The tokens of a server, as digests; without any, every request may write."""

    def __init__(
        self, *, read_only: Iterable[str | TokenFile] = (), read_write: Iterable[str | TokenFile] = ()
    ) -> None:
        self._tokens: list[tuple[bytes | TokenFile, Access]] = [
            (token if isinstance(token, TokenFile) else _digest(token), access)
            for tokens, access in ((read_write, Access.WRITE), (read_only, Access.READ))
            for token in tokens
        ]

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def access(self, headers: Mapping[str, str]) -> Access:
        """Return what a request with ``headers`` may do, in constant time.

        The token is a bearer token in ``authorization``, or without that header in ``x-api-key`` (Lance REST
        specification, "BearerAuth" and "ApiKeyAuth").
        """
        if not self._tokens:
            return Access.WRITE
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if "authorization" not in headers:
            scheme, token = "bearer", headers.get("x-api-key", "")
        digest = _digest(token.strip())
        known = ((token.digest() if isinstance(token, TokenFile) else token, access) for token, access in self._tokens)
        matching = [access for known_digest, access in known if hmac.compare_digest(known_digest or b"", digest)]
        return matching[0] if matching and scheme.lower() == "bearer" else Access.NONE


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _read_token(path: Path) -> str:
    """Return the token in a file.

    Raises:
        ConfigError: the file holds no token; the message shows none of its content.
    """
    try:
        token = read_file_or_pipe(path, _LARGEST_TOKEN_FILE).decode("utf-8").strip()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} holds no token: it is not text") from None
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{path} holds no token: expected one word of {_SHORTEST_TOKEN} or more ASCII characters")
    return token


def request_limit() -> int:
    """Raise the process's limit on open files; return how many requests may run at once."""
    with contextlib.suppress(ImportError):  # Windows has no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        target = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
        if soft != resource.RLIM_INFINITY and soft < target:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
            soft = target
        if soft != resource.RLIM_INFINITY:
            return max(16, min(_MOST_REQUESTS, soft - _OWN_FILES))
    return _MOST_REQUESTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How requests are admitted.

    Args:
        tokens: who may read and write.
        max_body_bytes: the longest body.
        timeout_seconds: how long a request may take, from its first byte to the catalog's answer.
        workers: how many requests use catalogs at once; others wait.
        ready_seconds: how long an answer about readiness is cached.
        max_requests: how many requests are admitted at once; others get 503.
        hosts: the names of this server; None for any.
    """

    tokens: Tokens = field(default_factory=Tokens)
    max_body_bytes: int = 16 * 1024 * 1024
    timeout_seconds: float = 60.0
    workers: int = 32
    ready_seconds: float = 5.0
    max_requests: int = _MOST_REQUESTS
    hosts: frozenset[str] | None = None

    def shared_by(self, processes: int) -> Settings:
        """Return the settings of each of several processes, which share the limits on concurrency."""
        return replace(self, workers=-(-self.workers // processes), max_requests=-(-self.max_requests // processes))


class Observer:
    """Gives each request an id, measures and logs it, and routes it by its raw path."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and record its status and duration."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent_id = Headers(scope=scope).get("x-request-id", "")
        request_id = sent_id if _REQUEST_ID.fullmatch(sent_id) else uuid.uuid4().hex
        scope["path"] = path = scope["raw_path"].decode("ascii", "replace")
        operation = "probe" if path in _PROBES else "other"
        scope["state"] = state = {"operation": operation, "access": Access.NONE, "request_id": request_id}
        status = 500
        began = time.perf_counter()

        async def send_recorded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, send_recorded)
        finally:
            self._metrics.in_flight.dec()
            seconds = time.perf_counter() - began
            self._metrics.observe(str(state["operation"]), status, seconds)
            if state["operation"] != "probe":
                self._log(scope, request_id, status, seconds)

    def _log(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        state, client = scope["state"], scope.get("client")
        fields = {
            "request_id": request_id,
            "client": client[0] if client else None,
            "operation": state["operation"],
            "id": display.shorten(state["id"], _LONGEST_LOGGED) if "id" in state else None,
            "status": status,
            "code": state.get("code"),
            "access": state["access"].name.lower(),
            "ms": round(seconds * 1000, 1),
        }
        logger.info("request", extra={"fields": {key: value for key, value in fields.items() if value is not None}})


class TokenGuard:
    """Admits requests with a token, up to a number at once, and none from web pages.

    A page in a browser can send requests to a server on the same machine. Browsers name the page in Origin, and Host
    reveals a page whose own name resolves to this machine.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._in_progress = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on or reject it; ``/healthz`` passes also if there are too many requests."""
        if self._in_progress >= self._settings.max_requests and scope.get("path") != "/healthz":
            message = "the server has too many requests; nothing was done, try replay"
            await error_response(ErrorCode.SERVICE_UNAVAILABLE, message, headers=RETRY_HEADERS)(scope, receive, send)
            return
        self._in_progress += 1
        try:
            await self._admit(scope, receive, send)
        finally:
            self._in_progress -= 1

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if its framing, its page, its host and its token allow it; otherwise reject it."""
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if "content-length" in headers and "transfer-encoding" in headers:
            # RFC 9112, section 6.3: request smuggling; a proxy may have taken the next request for a body.
            message = "a body has a Content-Length or a Transfer-Encoding, not both"
            await error_response(ErrorCode.INVALID_INPUT, message, headers={"Connection": "close"})(
                scope, receive, send
            )
            return
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        hosts = self._settings.hosts
        if "origin" in headers:
            answer = error_response(ErrorCode.PERMISSION_DENIED, "requests of web pages are not served")
        elif hosts is not None and re.sub(r":\d*$", "", headers.get("host", "")).lower() not in hosts:
            answer = error_response(ErrorCode.PERMISSION_DENIED, "the Host header names another server")
        else:
            has_token = "authorization" in headers or "x-api-key" in headers
            credentials: Mapping[str, str] = headers
            if self._settings.tokens and not has_token:
                credentials, receive = await self._read_identity(receive)
            access = self._settings.tokens.access(credentials)
            scope["state"]["access"] = access
            if access is not Access.NONE:
                await self._app(scope, receive, send)
                return
            message = (
                "the token is not known" if has_token else "a token is needed, as a bearer token or in `x-api-key`"
            )
            answer = error_response(ErrorCode.UNAUTHENTICATED, message, headers={"WWW-Authenticate": "Bearer"})
        await answer(scope, receive, send)

    async def _read_identity(self, receive: Receive) -> tuple[Mapping[str, str], Receive]:
        """Return the headers that the ``identity`` in a body stands for, and a ``receive`` that yields that body again.

        Only the start of the body is read: until the token is known, nothing else of the request is trusted.
        """
        messages: list[Message] = []
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.timeout_seconds):
                while size <= _LONGEST_WITH_IDENTITY and (not messages or messages[-1].get("more_body")):
                    messages.append(await receive())
                    size += len(messages[-1].get("body", b""))

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        if size > _LONGEST_WITH_IDENTITY:
            return {}, replay
        try:
            identity = json.loads(b"".join(message.get("body", b"") for message in messages))["identity"]
            key, token = identity.get("api_key"), identity.get("auth_token")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return {}, replay
        identity_headers = {"authorization": token and f"Bearer {token}", "x-api-key": key}
        return {name: value for name, value in identity_headers.items() if isinstance(value, str) and value}, replay
