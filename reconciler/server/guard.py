"""What every request passes before it reaches a route: who may come in, and what is noted about it."""

from __future__ import annotations

import re
import time
import uuid

from lance_namespace.errors import ErrorCode
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reconciler.model import display
from reconciler.server.error_bodies import TRY_AGAIN, refusal
from reconciler.server.logs import logger
from reconciler.server.metrics import Metrics
from reconciler.server.settings import Settings
from reconciler.server.tokens import Access

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""What is answered without a token: nothing there depends on what the catalogs hold."""

_LONGEST_LOGGED = 200
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Observer:
    """Gives each request an id, measures it and logs it, and routes it by its path as it was sent."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and note how it ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        state = {"operation": "other", "access": Access.NONE, "request_id": request_id}
        scope["state"] = state
        scope["path"] = scope["raw_path"].decode("ascii", "replace")
        status = 500
        began = time.perf_counter()

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, noted)
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
    """Lets in who has a token, and no web page, as many at once as there is room for.

    A page in somebody's browser can send requests to a server on their own machine. Browsers name the page in
    Origin, and a page that hides behind a name of its own shows in Host.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it; one about the server's health is always passed on."""
        if self._inside >= self._settings.max_requests and scope.get("path") != "/healthz":
            said = "the server has as many requests as it takes; nothing was done, try again"
            await refusal(ErrorCode.SERVICE_UNAVAILABLE, said, headers=TRY_AGAIN)(scope, receive, send)
            return
        self._inside += 1
        try:
            await self._admit(scope, receive, send)
        finally:
            self._inside -= 1

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if "content-length" in headers and "transfer-encoding" in headers:
            # RFC 9112, section 6.3: what follows may be a request that a proxy before this took for a body.
            said = "a body has a Content-Length or a Transfer-Encoding, not both"
            await refusal(ErrorCode.INVALID_INPUT, said, headers={"Connection": "close"})(scope, receive, send)
            return
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        if "origin" in headers:
            answer = refusal(ErrorCode.PERMISSION_DENIED, "requests of web pages are not served")
        elif not self._is_own_name(headers.get("host", "")):
            answer = refusal(ErrorCode.PERMISSION_DENIED, "this server does not go by the name in the Host header")
        else:
            access = self._settings.tokens.access(headers)
            scope["state"]["access"] = access
            if access is not Access.NONE:
                await self._app(scope, receive, send)
                return
            has_one = "authorization" in headers or "x-api-key" in headers
            said = "the token is not known" if has_one else "a token is needed, as a bearer token or in `x-api-key`"
            answer = refusal(ErrorCode.UNAUTHENTICATED, said, headers={"WWW-Authenticate": "Bearer"})
        await answer(scope, receive, send)

    def _is_own_name(self, host: str) -> bool:
        hosts = self._settings.hosts
        return hosts is None or re.sub(r":\d*$", "", host).lower() in hosts
