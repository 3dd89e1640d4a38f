"""A stand-in for the Lance REST service of Apache Gravitino 1.3.0, held to what the real server answered (`recorded/`).

What was not recorded is from its source (lance/lance-rest-server and lance/lance-common): the drop of a schema that is
not empty, and the location that it chooses.
"""

from __future__ import annotations

import os
from typing import Any, TypeAlias
from urllib.parse import unquote

import pytest

from tests.servers.scripted import Request

__all__ = ["Gravitino", "real_gravitino"]

_Answer: TypeAlias = tuple[int, Any]
_Name: TypeAlias = tuple[str, ...]
_TRACE = "java.lang.RuntimeException: Captured stacktrace\n\tat org.apache.gravitino.lance.Inner.call(Inner.java:7)"
_EXCEPTIONS = "org.apache.gravitino.exceptions"


class Gravitino:
    """A metalake `lake`: catalogs, schemas in them, tables in those. A catalog may be disabled: `in-use` is false."""

    def __init__(self) -> None:
        self.spaces: dict[_Name, dict[str, str]] = {}
        self.tables: dict[_Name, dict[str, str]] = {}

    def __call__(self, request: Request) -> _Answer:
        return self.answer(request.method, request.path, request.body)

    def answer(self, method: str, path: str, body: Any = None) -> _Answer:
        """Return the status and the content for a request."""
        if method == "HEAD":
            return 404, b""
        parts = path.split("/")
        identifier = tuple(name for name in unquote("".join(parts[4:5])).split("$") if name)
        route = getattr(self, f"_{parts[3]}_{'_'.join(parts[5:])}", None) if len(parts) > 5 else None
        if parts[1] != "lance" or route is None:
            servlet = "org.glassfish.jersey.servlet.ServletContainer-53ec2968"
            return 404, {"servlet": servlet, "message": "Not Found", "url": path, "status": "404"}
        answer: _Answer = route(identifier, body or {})
        return answer

    # ---- errors --------------------------------------------------------------------------------------------------

    def _error(self, status: int, code: int, said: str, name: _Name, *, trace: bool = True) -> _Answer:
        detail = {"detail": _TRACE} if trace else {}
        return status, {"error": said, "code": code, **detail, "instance": "$".join(name) or "$"}

    def _wrapped(self, status: int, code: int, doing: str, kind: str, said: str, name: _Name) -> _Answer:
        """Return an error whose text holds the stack trace of its cause."""
        trace = f"\n{_EXCEPTIONS}.{kind}: {said}\n\tat org.apache.gravitino.Inner.call(Inner.java:7)\n\t... 89 more"
        return self._error(status, code, f"Failed to operate {doing}, reason [{said}]{trace}", name)

    def _level(self, name: _Name, level: int, words: str) -> _Answer | None:
        said = f"Expected {words}{level}-level namespace but got: {len(name)}"
        return None if len(name) == level else self._error(400, 13, said, name)

    def _not_a_space(self, space: _Name) -> _Answer | None:
        """Return the refusal of a namespace that there is not."""
        if len(space) > 2:
            said = f"Expected at most 2-level and at least 1-level namespace but got: {'$'.join(space)}"
            return self._error(400, 13, said, space)
        if space in self.spaces or not space:
            return None
        return self._error(404, 1, f"{'Catalog' if len(space) == 1 else 'Schema'} not found: {space[-1]}", space[-1:])

    def _is_disabled(self, space: _Name) -> bool:
        return self.spaces.get(space[:1], {}).get("in-use") == "false"

    def _no_schema(self, space: _Name, doing: str) -> _Answer:
        missing = f"Schema lake.{'.'.join(space)} does not exist"
        return self._wrapped(404, 1, doing, "NoSuchSchemaException", missing, space)

    # ---- namespaces ----------------------------------------------------------------------------------------------

    def _namespace_list(self, space: _Name, _: Any) -> _Answer:
        if self._is_disabled(space):
            said = f"The catalog {space[0]} is not in use"
            doing = f"schema(s) operation [LIST] under catalog [{space[0]}]"
            return self._wrapped(500, 18, doing, "CatalogNotInUseException", said, space)
        names = sorted(name[-1] for name in self.spaces if name[:-1] == space)
        return self._not_a_space(space) or (200, {"namespaces": names})

    def _namespace_describe(self, space: _Name, _: Any) -> _Answer:
        if len(space) == 2 and space not in self.spaces:
            return self._no_schema(space, f"schema(s) [{space[1]}] operation [LOAD] under catalog [{space[0]}]")
        return self._not_a_space(space) or (200, {"properties": self.spaces[space]})

    def _namespace_exists(self, space: _Name, _: Any) -> _Answer:
        return self._not_a_space(space) or (200, b"")

    def _namespace_create(self, space: _Name, body: Any) -> _Answer:
        if space in self.spaces:
            kind = "Catalog" if len(space) == 1 else "Schema"
            return self._error(409, 2, f"{kind} already exists: {space[-1]}", space[-1:])
        if len(space) > 2 or (len(space) == 2 and space[:1] not in self.spaces):
            return self._not_a_space(space if len(space) > 2 else space[:1]) or (200, {})
        own = {"in-use": "true"} if len(space) == 1 else {}
        self.spaces[space] = {**body.get("properties", {}), **own}
        return 200, {"properties": self.spaces[space]}

    def _namespace_drop(self, space: _Name, body: Any) -> _Answer:
        assert body["behavior"].lower() == "restrict"
        missing = self._not_a_space(space)
        if missing:
            return missing
        if len(space) == 1:
            return self._error(400, 13, f"Catalog {space[0]} is in use", space)
        if any(name[:2] == space for name in self.tables):
            return self._error(400, 13, f"Schema {space[-1]} is not empty.", space)
        del self.spaces[space]
        return 200, {"properties": {}, "transaction_id": []}

    def _namespace_table_list(self, space: _Name, _: Any) -> _Answer:
        other = self._level(space, 2, "")
        if other:
            return other
        if space not in self.spaces:
            return self._no_schema(space, f"table(s) operation [LIST] under schema [{space[1]}]")
        return 200, {"tables": sorted(name[-1] for name in self.tables if name[:-1] == space)}

    # ---- tables --------------------------------------------------------------------------------------------------

    def _not_a_table(self, table: _Name, *, trace: bool = True) -> _Answer | None:
        other = self._level(table, 3, "at ")
        if other or table in self.tables:
            return other
        return self._error(404, 4, f"Table not found: {'$'.join(table)}", table, trace=trace)

    def _table_describe(self, table: _Name, _: Any) -> _Answer:
        missing = self._not_a_table(table)
        if missing:
            return missing
        properties = self.tables[table]
        return 200, {
            "namespace": [],
            "location": properties["location"],
            "schema": {"fields": [], "metadata": {}},
            "storage_options": {},
            "metadata": properties,
            "properties": properties,
            "managed_versioning": False,
        }

    def _table_exists(self, table: _Name, _: Any) -> _Answer:
        return self._not_a_table(table, trace=False) or (200, b"")

    def _not_free(self, table: _Name) -> _Answer | None:
        other = self._level(table, 3, "at ")
        if other or table not in self.tables:
            return other
        said = f"Table lake.{'.'.join(table)} already exists"
        doing = f"table(s) [{table[-1]}] operation [CREATE] under schema [{table[-2]}]"
        return self._wrapped(409, 5, doing, "TableAlreadyExistsException", said, table)

    def _table_declare(self, table: _Name, body: Any) -> _Answer:
        taken, given = self._not_free(table), body.get("properties", {})
        if taken:
            return taken
        own = {"external": "true", "location": f"{body.get('location', '/lake/chosen').rstrip('/')}/"}
        twice = next((key for key in own if key in given), None)
        if twice:
            said = f"Multiple entries with same key: {twice}={given[twice]} and {twice}={own[twice]}"
            return self._error(400, 13, said, table)
        made = {"lance.declared": "true", "format": "lance", "lance.creation-mode": "CREATE"}
        self.tables[table] = {**given, **own, **made}
        answer = {"storage_options": {}, "properties": self.tables[table], "managed_versioning": False}
        return 200, {"location": own["location"], **answer}

    def _table_register(self, table: _Name, body: Any) -> _Answer:
        taken = self._not_free(table)
        if taken:
            return taken
        own = {"external": "true", "location": f"{body['location'].rstrip('/')}/", "format": "lance"}
        made = {"lance.register": "true", "lance.version": "1", "lance.creation-mode": "CREATE"}
        self.tables[table] = {**body.get("properties", {}), **own, **made}
        return 200, {"location": own["location"], "properties": self.tables[table]}

    def _table_deregister(self, table: _Name, _: Any) -> _Answer:
        missing = self._not_a_table(table)
        if missing:
            return missing
        gone = self.tables.pop(table)
        return 200, {"id": list(table), "location": gone["location"], "properties": gone}


def real_gravitino() -> str:
    """Return the address of a real Gravitino's Lance REST service, or skip the test where the environment names none.

    ``LANCENS_GRAVITINO_URL`` is `http://host:9101/lance` over a metalake with the catalog `lakehouse`.
    """
    url = os.environ.get("LANCENS_GRAVITINO_URL", "")
    if not url:
        pytest.skip("LANCENS_GRAVITINO_URL names no Gravitino; it is on no registry")
    return url
