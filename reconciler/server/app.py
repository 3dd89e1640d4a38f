"""The ASGI application: it routes and limits requests, and calls the catalogs."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from lance_namespace import ListNamespacesRequest
from lance_namespace.errors import ErrorCode, LanceNamespaceError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from reconciler.model.names import join
from reconciler.namespace.shared import without_prefix
from reconciler.server import openapi
from reconciler.server.answers import RETRY_HEADERS, Json, error_response, public_fields
from reconciler.server.catalogs import ServedCatalogs
from reconciler.server.guard import Access, Observer, Settings, TokenGuard
from reconciler.server.logs import CONTENT_TYPE, Metrics, logger
from reconciler.server.operations import ALIASES, OPERATIONS, Operation, supported_operations
from reconciler.server.requests import parse_request
from reconciler.server.sandbox import Sandbox

_CLIENT_GONE = 499
_MOST_PROCESSES = 4

Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(
    catalogs: ServedCatalogs, settings: Settings | None = None, metrics_folder: Path | None = None
) -> Starlette:
    """Return the application that serves ``catalogs``, which the caller closes.

    All processes with one ``metrics_folder`` return the sums of their metrics.

    ``state.workers`` of the application counts the running calls to the catalogs.
    """
    settings = settings or Settings()
    metrics = Metrics(metrics_folder)
    workers = Workers(settings.workers)
    # The sandbox gives up before the request does, so that the client gets its error.
    sandbox = Sandbox(max(1, min(_MOST_PROCESSES, settings.workers // 8)), 0.8 * settings.timeout_seconds)
    for namespace in catalogs.served:
        namespace.sandbox = sandbox
    server = _Server(catalogs, settings, metrics, workers)
    app = Starlette(
        routes=server.routes(),
        middleware=[Middleware(Observer, metrics=metrics), Middleware(TokenGuard, settings=settings)],
        exception_handlers={HTTPException: _http_error},
    )
    app.state.workers = workers
    return app


def exit_if_calls_hang(app: Starlette) -> None:
    """Exit at once if calls to catalogs still run: Python would wait for them."""
    if app.state.workers.active:
        sys.stdout.flush()
        os._exit(0)


class _Server:
    """The endpoints of one application."""

    def __init__(self, catalogs: ServedCatalogs, settings: Settings, metrics: Metrics, workers: Workers) -> None:
        self._catalogs = catalogs
        self._settings = settings
        self._metrics = metrics
        self._workers = workers
        self._document = JSONResponse(openapi.document(OPERATIONS, with_tokens=bool(settings.tokens)))
        self._readiness_lock = asyncio.Lock()
        self._readiness_expires = 0.0
        self._is_ready = False

    def routes(self) -> list[Route]:
        """Return the routes of the server itself and of all operations."""
        routes = [
            Route("/healthz", self._get_health, methods=["GET"]),
            Route("/readyz", self._get_readiness, methods=["GET"]),
            Route("/metrics", self._get_metrics, methods=["GET"]),
            Route("/openapi.json", self._get_openapi, methods=["GET"]),
            Route(
                "/ListOperations", self._with_error_responses("ListOperations", self._list_operations), methods=["POST"]
            ),
        ]
        by_name = {operation.name: operation for operation in OPERATIONS}
        for operation in OPERATIONS:
            endpoint = self._endpoint(operation)
            routes.append(Route(f"/{operation.name}", endpoint, methods=["POST"]))
            routes += [Route(path, endpoint, methods=methods) for path, methods in operation.routes.items()]
        for early, name in ALIASES.items():
            routes.append(Route(f"/{early}", self._endpoint(by_name[name]), methods=["POST"]))
        routes.append(Route("/v1/{rest:path}", _unsupported, methods=["GET", "POST"]))
        return routes

    def _endpoint(self, operation: Operation) -> Endpoint:
        """Return the endpoint of ``operation``, which calls the catalog in a worker."""

        async def respond(request: Request) -> Response:
            if operation.writes and request.state.access is not Access.WRITE:
                return _logged_error(request, ErrorCode.PERMISSION_DENIED, "this token may read only")
            body = await self._read_body(request)
            call = self._workers.submit(partial(self._call_catalog, operation, request, body))
            try:
                return await asyncio.wrap_future(call)
            finally:
                request.state.has_begun = not call.cancelled()
                del call  # or an error would refer to itself, through this frame, and stay until it is collected

        return self._with_error_responses(operation.name, respond)

    def _with_error_responses(self, name: str, endpoint: Endpoint) -> Endpoint:
        """Return ``endpoint`` with a time limit, and a response for each of its errors."""

        async def respond(request: Request) -> Response:
            request.state.operation = name
            try:
                async with asyncio.timeout(self._settings.timeout_seconds):
                    return await endpoint(request)
            except LanceNamespaceError as error:
                return _logged_error(request, error.code, self._catalogs.without_secrets(without_prefix(error)))
            except TimeoutError:
                return self._timeout_response(request)
            except asyncio.CancelledError:  # the server stops, and its grace period is over
                return _logged_error(request, ErrorCode.SERVICE_UNAVAILABLE, "not done before the server had to stop")
            except ClientDisconnect:
                return Response(status_code=_CLIENT_GONE)
            except HTTPException:
                raise
            except Exception:  # noqa: BLE001 - the edge: a bug becomes a 500 and a line in the log
                logger.exception("unforeseen error", extra={"fields": {"operation": name}})
                return _logged_error(request, ErrorCode.INTERNAL, "the server failed; its log says where")

        return respond

    def _call_catalog(self, operation: Operation, request: Request, body: bytes) -> Response:
        """Return the response to a request; runs in a worker thread."""
        model, data = parse_request(operation, request.path_params, request.query_params, request.headers, body)
        request.state.id = join(getattr(model, "id", None) or ())
        return Json(public_fields(self._catalogs.answer(operation, model, data)))

    def _timeout_response(self, request: Request) -> Response:
        message = f"not done within {self._settings.timeout_seconds:g} s"
        if getattr(request.state, "has_begun", False):  # a call that has begun cannot be cancelled
            return _logged_error(request, ErrorCode.SERVICE_UNAVAILABLE, message)
        headers = {**RETRY_HEADERS, "Connection": "close"}  # the rest of its body may still arrive
        return _logged_error(request, ErrorCode.SERVICE_UNAVAILABLE, f"{message}: it never started; try again", headers)

    async def _read_body(self, request: Request) -> bytes:
        """Return the body, and read no more of it than the limit, whatever its Content-Length says.

        Raises:
            HTTPException: the body is too long.
        """
        limit = self._settings.max_body_bytes
        content_length = request.headers.get("content-length", "0")
        length, body = int(content_length) if content_length.isdigit() else 0, bytearray()
        if length <= limit:
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    break
        if max(length, len(body)) > limit:
            raise HTTPException(413, f"the body is longer than {limit} bytes", {"Connection": "close"})
        return bytes(body)

    async def _list_operations(self, _request: Request) -> Response:
        return Json({"operations": await self._workers.run(partial(supported_operations, self._catalogs.served))})

    async def _get_health(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _get_readiness(self, _request: Request) -> Response:
        async with self._readiness_lock:
            if time.monotonic() >= self._readiness_expires:
                self._is_ready = await self._check_catalogs()
                self._readiness_expires = time.monotonic() + self._settings.ready_seconds
        if self._is_ready:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "a catalog does not answer"}, status_code=503)

    async def _check_catalogs(self) -> bool:
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                await self._workers.run(self._call_every_catalog)
        except (LanceNamespaceError, TimeoutError) as error:
            text = self._catalogs.without_secrets(str(error)) or "no answer in time"
            logger.warning("not ready", extra={"fields": {"reason": text}})
            return False
        except Exception:  # noqa: BLE001 - the edge: a probe needs a status, and the log has the error
            logger.exception("not ready")
            return False
        return True

    def _call_every_catalog(self) -> None:
        for namespace in self._catalogs.served:
            namespace.list_namespaces(ListNamespacesRequest(id=[], limit=1))

    async def _get_metrics(self, _request: Request) -> Response:
        return Response(self._metrics.text(), media_type=CONTENT_TYPE)

    async def _get_openapi(self, _request: Request) -> Response:
        return self._document


def _logged_error(
    request: Request, code: ErrorCode, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error response, whose code the log shows, too."""
    request.state.code = int(code)
    return error_response(code, message, headers=headers)


async def _unsupported(request: Request) -> Response:
    """Answer an operation of the protocol that is not served with an error.

    Raises:
        HTTPException: the route exists for another method.
    """
    other_methods = (route for route in request.app.routes if route.matches(request.scope)[0] is Match.PARTIAL)
    allowed = sorted({method for route in other_methods for method in route.methods})
    if allowed:
        raise HTTPException(405, headers={"Allow": ", ".join(allowed)})
    return error_response(
        ErrorCode.UNSUPPORTED, "this operation is not served; open the dataset at the table's location"
    )


async def _http_error(request: Request, error: Exception) -> Response:
    """Return the response to an HTTPException, such as that of an unknown route."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class only
    if error.status_code in (404, 405):
        message = f"there is no such route for {request.method}; /openapi.json lists the routes"
        return error_response(ErrorCode.UNSUPPORTED, message, error.status_code, error.headers)
    return error_response(ErrorCode.INVALID_INPUT, error.detail, error.status_code, error.headers)


ResultT = TypeVar("ResultT")


class Workers:
    """Threads for calls to catalogs, at most ``most`` at once.

    A call that is cancelled while it waits is not made.
    """

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, "catalogs")
        self._lock = threading.Lock()
        self.active = 0
        """How many calls are running, including cancelled ones."""

    def submit(self, call: Callable[[], ResultT]) -> Future[ResultT]:
        """Return the future of ``call``, which runs to its end once it has begun."""
        return self._pool.submit(self._run_counted, call)

    async def run(self, call: Callable[[], ResultT]) -> ResultT:
        """Return the result of ``call``; see :meth:`submit`."""
        return await asyncio.wrap_future(self.submit(call))

    def _run_counted(self, call: Callable[[], ResultT]) -> ResultT:
        with self._lock:
            self.active += 1
        try:
            return call()
        finally:
            with self._lock:
                self.active -= 1
