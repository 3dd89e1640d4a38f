"""Text of an attacker that means something to the program that shows it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from urllib.parse import unquote

from tests.servers.scripted import Reply, Request

__all__ = ["EVIL", "EVIL_NAME", "FORGED", "HostileCatalog", "assert_harmless"]

FORGED = "No changes. 9 namespaces and 9 tables in 1 catalog match the manifest."
EVIL = (
    f"a\r\n{FORGED}\n::error title=x::forged\n::stop-commands::mine\n\u2028{FORGED}"
    "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp.exe\u2066\u200b\ufeff\ud800 ##[error]forged ##[add-mask]a"
)
EVIL_NAME = "::warning::x##[error]y\u202e\u200b\u2800\ufe0f"
"""What a service may call an object: no control character, so that it is not merely left out."""

_OWN = re.compile(r"\x1b\[[0-9;]*m")


def assert_harmless(text: str, *, colors: bool = False) -> None:
    """Fail where ``text``, as it is printed, holds a character that acts, or a line or a command that is not ours."""
    shown = _OWN.sub("", text) if colors else text
    acting = {character for character in shown if character != "\n" and unicodedata.category(character)[0] == "C"}
    assert not acting, (acting, shown)
    lines = re.split(r"[\n\v\f\x1c-\x1e\x85\u2028\u2029]", shown)
    assert not [line for line in lines if line.strip().startswith((FORGED, "::"))], shown
    assert "##[" not in shown


class HostileCatalog:
    """A Lance REST server whose every name, property and error is ``EVIL``; or, ``broken``, that answers errors."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken

    def answer(self) -> Callable[[Request], Reply]:
        return self._answer

    def _answer(self, request: Request) -> tuple[int, object]:
        if request.path == "/ListOperations":
            return 200, {"operations": ["AlterTable", "AlterNamespace", "DeclareTable", "RegisterTable"]}
        if self.broken:
            return 500, {"error": EVIL, "code": 18, "detail": EVIL}
        _, _, kind, identifier, *rest = request.path.split("/") if request.path.startswith("/v1/") else ["", "", "", ""]
        owner = "feature-store/lake" if identifier.endswith(("kept", "plain")) else EVIL
        match kind, rest:
            case "namespace", ["list"]:
                return 200, {"namespaces": [EVIL, EVIL_NAME, "plain"] if unquote(identifier) == "$" else []}
            case "namespace", ["table", "list"]:
                return 200, {"tables": [] if unquote(identifier) == "$" else [EVIL, EVIL_NAME, "kept"]}
            case "namespace", ["describe"]:
                return 200, {"properties": {"lancens.managed-by": owner, EVIL: EVIL, EVIL_NAME: EVIL_NAME}}
            case "table", ["describe"]:
                location = "file:///nowhere/t.lance"
                return 200, {
                    "location": location,
                    "properties": {
                        "lancens.managed-by": owner,
                        "lancens.keys": EVIL,
                        EVIL: EVIL,
                        EVIL_NAME: "1",
                        "tier": EVIL,
                    },
                }
        return 400 if "exists" not in request.path else 200, {"error": EVIL, "code": 13}
