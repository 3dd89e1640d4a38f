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
                case "function":
                    glue_moto.add_function(ACCOUNT, told["region"], told["database"], told["name"])
            seen = {"calls": self.calls, "unfit": self.unfit}
        return Response(json.dumps(seen), content_type="application/json")

    def _answer(self, request: Request, environ: dict[str, Any]) -> Response:
        target = request.headers.get("X-Amz-Target", "")
        if target.startswith(_TARGET):
            operation, body = target.removeprefix(_TARGET), json.loads(request.get_data() or b"{}")
            action = f"glue:{operation}"
        else:
            operation, body = request.form.get("Action", ""), request.form.to_dict()
            action = f"sts:{operation}"
        fault = self._recorded(action, body, request.headers.get("Authorization", ""))
        if fault is not None:
            return fault
        if action.startswith("sts:"):
            return Response.from_app(self._inside, environ)
        faults = glue_model.request_faults(operation, body)
        if faults:
            return _refusal(400, "ValidationException", f"{len(faults)} validation errors: {'; '.join(faults)}")
        answered, status, headers = run_wsgi_app(self._inside, environ, buffered=True)
        content = b"".join(answered)
        if status.startswith("200"):
            self._hold(operation, json.loads(content or b"{}"))
        return Response(content, status=status, headers=headers)

    def _hold(self, operation: str, body: Any) -> None:
        faults = glue_model.answer_faults(operation, body)
        if faults:
            with self._lock:
                self.unfit += faults

    def _recorded(self, action: str, body: dict[str, Any], authorization: str) -> Response | None:
        """Note the call; return what it is answered with when that is not moto's own answer."""
        key = authorization.partition("Credential=")[2].partition("/")[0]
        with self._lock:
            self.calls.append({"action": action, "body": body, "key": key})
            if self.faults and self.faults[0]["action"] in (action, "*") and self.faults[0].get("skip", 0) == 0:
                return _fault(self.faults.popleft(), self.faults)
            if self.faults and self.faults[0]["action"] in (action, "*"):
                self.faults[0]["skip"] -= 1
            denied = self.allowed is not None and action not in self.allowed
        if denied:
            who = f"arn:aws:iam::{ACCOUNT}:user/tester"
            message = f"User: {who} is not authorized to perform: {action} on resource: {_arn(body)}"
            return _refusal(400, "AccessDeniedException", message)
        return None


def _fault(fault: dict[str, Any], rest: deque[dict[str, Any]]) -> Response:
    if fault.get("times", 1) > 1:
        rest.appendleft({**fault, "times": fault["times"] - 1})
    if "raw" in fault:
        return Response(fault["raw"], status=fault.get("status", 200), content_type=_JSON)
    return _refusal(fault.get("status", 400), fault["code"], fault.get("message", ""))


def _refusal(status: int, code: str, message: str) -> Response:
    return Response(json.dumps({"__type": code, "message": message}), status=status, content_type=_JSON)


def _arn(body: dict[str, Any]) -> str:
    database = body.get("DatabaseName") or (body.get("Name") if "DatabaseName" not in body else None)
    what = f"table/{database}/*" if "DatabaseName" in body else f"database/{database}" if database else "catalog"
    return f"arn:aws:glue:us-east-1:{ACCOUNT}:{what}"


def main() -> None:
    """Serve until the process is ended."""
    glue_moto.install()
    door = Door(DomainDispatcherApplication(create_backend_app))
    make_server("127.0.0.1", int(sys.argv[1]), door, threaded=True, request_handler=MotoRequestHandler).serve_forever()


if __name__ == "__main__":
    main()
