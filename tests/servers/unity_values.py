"""Check and normalise names, properties, locations and columns as Unity Catalog's reference server 0.6 does."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

__all__ = [
    "HOME",
    "RefusalError",
    "as_given",
    "check_columns",
    "columns_of",
    "location_of",
    "name_of",
    "parameter_of",
    "properties_of",
    "split",
    "text_of",
    "unreadable",
    "updated",
]

HOME = "/opt/unity"
"""The folder that the server runs in, which relative locations are resolved against."""
_NAME = re.compile(r"[A-Za-z0-9_@-]+")
_MANAGED = "__unitystorage"
_SCHEMES = {"s3", "gs", "abfs", "abfss", "file"}
_NOT_IN_URIS = re.compile(r"[ \[\]\"{}|\\^`<>]|%(?![0-9A-Fa-f]{2})")
_PROPERTY, _URL, _COMMENT, _LONGEST_NAME = 255, 2048, 65_535, 255
_COLUMN = (
    *("name", "type_text", "type_json", "type_name", "type_precision", "type_scale", "type_interval_type"),
    *("position", "comment", "nullable", "partition_index"),
)
_FIELD = {"name", "type", "nullable", "metadata"}
_TYPE_NAMES = {
    *("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING"),
    *("BINARY", "DECIMAL", "INTERVAL", "ARRAY", "STRUCT", "MAP", "CHAR", "NULL", "USER_DEFINED_TYPE", "TABLE_TYPE"),
}


class RefusalError(Exception):
    """An answer outside 200: its status, its code and what it says."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def _invalid(message: str) -> RefusalError:
    return RefusalError(400, "INVALID_ARGUMENT", message)


def unreadable() -> RefusalError:
    """Return what is raised of a body that does not parse."""
    return _invalid("failed to parse a JSON document")


def _broken(message: str) -> RefusalError:
    return RefusalError(500, "INTERNAL", message)


def _fits(text: str, most: int) -> str:
    """Return ``text`` if the database's column holds it; it counts UTF-16 code units."""
    if len(text.encode("utf-16-le")) > 2 * most:
        raise _broken(f'could not execute statement [Value too long for column "CHARACTER VARYING({most})"]')
    return text


def name_of(body: Mapping[str, Any]) -> str:
    """Return the name of an object to be made; a number becomes text."""
    name = "" if body.get("name") is None else str(body["name"])
    if not name:
        raise _invalid("Name cannot be empty")
    if len(name) > _LONGEST_NAME:
        raise _invalid("Name cannot be longer than 255 characters")
    if not _NAME.fullmatch(name):
        raise _invalid("Name cannot contain a period, space, forward-slash, or control characters")
    return name


def properties_of(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties as they are kept; what is not text becomes one."""
    kept: dict[str, str] = {}
    for key, value in (body.get("properties") or {}).items():
        if value is None:
            raise _broken("not-null property references a null or transient value")
        text = value if isinstance(value, str) else json.dumps(value)
        kept[_fits(key, _PROPERTY)] = _fits(text, _PROPERTY)
    return kept


def updated(info: dict[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Change properties and comment as a PATCH does; return the object."""
    if body.get("properties"):
        info["properties"] = properties_of(body)
    if body.get("comment") is not None:
        info["comment"] = body["comment"]
    return info


def text_of(body: Mapping[str, Any], key: str) -> str:
    """Return a required text of a body, ``null`` where it is absent."""
    return str(body.get(key) or "null")


def parameter_of(query: Mapping[str, str], key: str) -> str:
    """Return a parameter that the query must have."""
    if key not in query:
        raise RefusalError(400, "INVALID_ARGUMENT", f"Mandatory parameter/header is missing: {key}")
    return query[key]


def split(kind: str, name: str, parts: int) -> list[str]:
    """Return the parts of a full name."""
    names = name.split(".")
    if len(names) != parts:
        raise RefusalError(400, "INVALID_ARGUMENT", f"Invalid {kind} name: {name}")
    return names


def as_given(info: Mapping[str, Any], body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a create answers: properties that were null are none then, and empty when they are read."""
    return {**info, "properties": None} if "properties" in body and body["properties"] is None else info


def location_of(body: Mapping[str, Any]) -> str:
    """Return the location of an external table as it is kept."""
    given = body.get("storage_location")
    if given is None:
        raise _broken('Cannot invoke "NormalizedURL.isCloudStorageRoot()" because "storageLocation" is null')
    if not given:
        raise _invalid("Path cannot be null or empty")
    if _NOT_IN_URIS.search(given):
        raise _invalid(f"Unsupported path: {given}")
    if "/" not in given:
        raise _invalid(f"Ambiguous path: {given}")
    scheme, colon, rest = given.partition(":")
    if not colon or "/" in scheme:
        scheme, rest = "file", quote(posixpath.join(HOME, given), safe="/+")
    if scheme not in _SCHEMES:
        raise _invalid(f"Unsupported URI scheme: {scheme}")
    if _MANAGED in rest.split("/"):
        raise _invalid(f"Input path '{given}' contains managed storage prefix {_MANAGED}.")
    if scheme == "file":
        return _fits(f"file://{posixpath.normpath('/' + rest.lstrip('/'))}", _URL)
    authority, _, path = rest.lstrip("/").partition("/")
    path = posixpath.normpath(f"/{path.lstrip('/')}")
    if path == "/":
        raise _invalid(f"External table storage location must include a non-empty path prefix: {given}")
    return _fits(f"{scheme}://{authority}{path}", _URL)


def check_columns(body: Mapping[str, Any]) -> None:
    """Refuse columns that do not parse, which comes before everything else."""
    given = body.get("columns", [])
    if given is not None and not isinstance(given, list):
        raise unreadable()
    if any(column.get("type_name", "LONG") not in _TYPE_NAMES for column in given or ()):
        raise unreadable()


def columns_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the columns of a table as they are kept."""
    given = body.get("columns", [])
    if given is None:
        raise _broken('Cannot invoke "java.util.List.stream()" because the return value is null')
    kept = [_column(column) for column in given]
    if len({(column["position"], column["name"]) for column in kept}) < len(kept):
        raise _broken("could not execute statement [Unique index or primary key violation]")
    return kept


def _column(column: Mapping[str, Any]) -> dict[str, Any]:
    nullable = column.get("nullable", True)
    _check_type_json(column.get("type_json"), column.get("name"), nullable)
    for key in ("type_text", "type_name", "position"):
        if key not in column:
            raise _broken(f'Cannot invoke a method because "{key}" is null')
    _fits(column["name"], _LONGEST_NAME)
    _fits(column.get("comment") or "", _COMMENT)
    told = {**column, "nullable": nullable, "type_text": column["type_text"].lower()}
    return {key: told.get(key) for key in _COLUMN}


def _check_type_json(text: str | None, name: str | None, nullable: bool) -> None:
    try:
        whole = json.loads(text or "")
    except ValueError:
        whole = None
    if not isinstance(whole, dict) or whole.keys() != _FIELD or not _is_type(whole["type"]):
        raise _invalid(f"Invalid type_json for column {name}")
    if whole["name"] != name or whole["nullable"] != nullable:
        raise _invalid(f"Invalid type_json for column {name}: it does not match the column")


def _is_type(given: object) -> bool:
    return isinstance(given, str) or (isinstance(given, dict) and given.get("type") in {"array", "map", "struct"})
