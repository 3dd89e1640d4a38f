"""``python -m tests.clients.older CLIENT URL NAMESPACE``: what a client of an older release does through ``serve``.

It runs in an environment of that release, and prints how each operation ended, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.clients.walk import walk

__all__ = ["RELEASES", "ended"]

RELEASES = ("clients-2026", "clients-2025")
"""The environments; before the older one, no client could create a table with rows through the protocol."""

_ROOT = Path(__file__).parents[2]
_SECONDS = 300


def ended(release: str, client: str, url: str, namespace: str) -> Mapping[str, str | None]:
    """Return the refusal of each operation, None where it went well."""
    from tests.clients.environments import environment  # the environments have no pytest

    command = [str(environment(release) / "bin/python"), "-m", "tests.clients.older", client, url, namespace]
    kept = {**os.environ, "PYTHONPATH": str(_ROOT), "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False, env=kept, cwd=_ROOT)
    if done.returncode != 0:
        raise AssertionError(f"{client} of {release}: {done.stderr[-3000:]}")
    found: Mapping[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    return found


class _Early:
    """A connection of LanceDB 0.25, with the names of arguments and methods that it got later."""

    def __init__(self, db: Any, uri: str) -> None:
        self._db, self._uri = db, uri

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._db, name)
        return lambda *given, **named: method(*given, **{key.removesuffix("_path"): named[key] for key in named})

    def list_tables(self, namespace_path: list[str]) -> Any:
        return SimpleNamespace(tables=list(self._db.table_names(namespace=namespace_path)))

    def namespace_client(self) -> Any:
        import lance_namespace

        return lance_namespace.connect("rest", {"uri": self._uri})


def _main(client: str, uri: str, namespace: str) -> None:
    from tests.clients.in_python import LanceDb, Pylance

    made: Any = (LanceDb if client == "LanceDB" else Pylance)("rest", {"uri": uri})
    if isinstance(made, LanceDb) and not hasattr(made._db, "namespace_client"):
        made._db = _Early(made._db, uri)
    results = walk(made, tuple(namespace.split("$")))
    print(json.dumps({result.operation: result.refusal for result in results}), flush=True)
    os._exit(0)  # LanceDB's thread may be in Python still, and an interpreter that ends meanwhile aborts


if __name__ == "__main__":
    _main(*sys.argv[1:])
