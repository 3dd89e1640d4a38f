"""The Glue and STS of the tests, as a process: ``python -m tests.servers.glue_server PORT``.

moto behind a door that holds every request and answer against botocore's model, counts the calls, and can be told to
allow some actions only or to answer the next calls with a fault. What it is told goes to ``/_control``.
"""

from __future__ import annotations

import io
import json
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server
from werkzeug.test import run_wsgi_app
from werkzeug.wrappers import Request, Response

from tests.servers import glue_model, glue_moto

__all__ = ["Door", "main"]

ACCOUNT = "123456789012"
_TARGET = "AWSGlue."
_JSON = "application/x-amz-json-1.1"


class Dispatcher(DomainDispatcherApplication):
    """moto, which finds the service of a host only once: it asks a thousand patterns, for most of a small request."""

    get_backend_for_host = cache(DomainDispatcherApplication.get_backend_for_host)


class Door:
    """The WSGI application in front of moto."""

    def __init__(self, inside: Callable[..., Iterable[bytes]]) -> None:
        self._inside = inside
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.faults: deque[dict[str, Any]] = deque()
        self.allowed: set[str] | None = None
        self.unfit: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = Request(environ)
        if request.path == "/_control":
            response = self._control(request.get_json())
        elif request.path != "/":
            return self._inside(environ, start_response)
        else:
            environ["wsgi.input"] = io.BytesIO(request.get_data(cache=True, parse_form_data=False))
            response = self._answer(request, environ)
        return response(environ, start_response)

    def _control(self, told: dict[str, Any]) -> Response:
        with self._lock:
            match told.pop("do"):
                case "reset":
                    self._reset()
                case "clear":
                    glue_moto.clear()
                case "fault":
                    self.faults.append(told)
                case "allow":
                    self.allowed = None if told["actions"] is None else set(told["actions"])
                case "catalog":
                    glue_moto.add_catalog(ACCOUNT, told["region"], told["name"], told["given"])
                case "tables":
                    glue_moto.add_tables(ACCOUNT, told["region"], told["catalog"], told["database"], told["entries"])
                case "function":
                    glue_moto.add_function(ACCOUNT, told["region"], told["database"], told["name"])
            seen = {"calls": self.calls, "unfit": self.unfit}
        return Response(json.dumps(seen), content_type="application/json")

    def _answer(self, request: Request, environ: dict[str, Any]) -> Response:
        target = request.headers.get("X-Amz-Target", "")
        if target.startswith(_TARGET):
            action, body = f"glue:{target.removeprefix(_TARGET)}", json.loads(request.get_data() or b"{}")
        else:
            action, body = f"sts:{request.form.get('Action', '')}", request.form.to_dict()
        fault, denied = self._recorded(action, body, request)
        if fault is not None and not fault["after"]:
            return _fault(fault)
        if denied:
            who = f"arn:aws:iam::{ACCOUNT}:user/tester"
            message = f"User: {who} is not authorized to perform: {action} on resource: {_arn(body)}"
            return _refusal(400, "AccessDeniedException", message)
        response = self._carried_out(action, body, environ)
        return response if fault is None else _fault(fault)

    def _carried_out(self, action: str, body: dict[str, Any], environ: dict[str, Any]) -> Response:
        """Return moto's own answer."""
        service, _, operation = action.partition(":")
        if service == "glue":
            faults = glue_model.request_faults(operation, body)
            if faults:
                return _refusal(400, "ValidationException", f"{len(faults)} validation errors: {'; '.join(faults)}")
        answered, status, headers = run_wsgi_app(self._inside, environ, buffered=True)
        content = b"".join(answered)
        if service == "glue" and status.startswith("200"):
            with self._lock:
                self.unfit += glue_model.answer_faults(operation, json.loads(content or b"{}"))
        return Response(content, status=status, headers=headers)

    def _recorded(self, action: str, body: dict[str, Any], request: Request) -> tuple[dict[str, Any] | None, bool]:
        """Note the call; return the fault that meets it, if any, and whether it is denied."""
        authorization = request.headers.get("Authorization", "")
        call = {
            "action": action,
            "body": body,
            "key": authorization.partition("Credential=")[2].partition("/")[0],
            "region": authorization.partition("Credential=")[2].split("/")[2] if authorization else "",
            "token": request.headers.get("X-Amz-Security-Token"),
        }
        with self._lock:
            self.calls.append(call)
            denied = self.allowed is not None and action not in self.allowed
            return self._next_fault(action), denied

    def _next_fault(self, action: str) -> dict[str, Any] | None:
        if not self.faults or self.faults[0]["action"] not in (action, "*"):
            return None
        fault = self.faults[0]
        if fault["skip"]:
            fault["skip"] -= 1
            return None
        fault["times"] -= 1
        if not fault["times"]:
            self.faults.popleft()
        return fault


def _fault(fault: dict[str, Any]) -> Response:
    if fault["raw"] is not None:
        return Response(fault["raw"], status=fault["status"], content_type=_JSON)
    return _refusal(fault["status"], fault["code"], fault["message"])


def _refusal(status: int, code: str, message: str) -> Response:
    return Response(json.dumps({"__type": code, "message": message}), status=status, content_type=_JSON)


def _arn(body: dict[str, Any]) -> str:
    database = body.get("DatabaseName") or (body.get("Name") if "DatabaseName" not in body else None)
    what = f"table/{database}/*" if "DatabaseName" in body else f"database/{database}" if database else "catalog"
    return f"arn:aws:glue:us-east-1:{ACCOUNT}:{what}"


def main() -> None:
    """Serve until the process is ended."""
    glue_moto.install()
    door = Door(Dispatcher(create_backend_app))
    make_server("127.0.0.1", int(sys.argv[1]), door, threaded=True, request_handler=MotoRequestHandler).serve_forever()


if __name__ == "__main__":
    main()
