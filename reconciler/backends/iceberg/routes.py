"""The paths of the objects of a warehouse (Iceberg REST catalog, "Catalog API").

Every name is percent-encoded once, levels are joined by the server's separator, and the server's prefix is used as it
was given: it may be encoded already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

NESSIE = "nessie.is-nessie-catalog"
POLARIS_BASE = "default-base-location"
_DEFAULT_SEPARATOR = "%1F"
_SAFE_IN_URL = re.compile(r"(?:[A-Za-z0-9._~|-]|%[0-9A-Fa-f]{2})+")
_VIEWS = re.compile(r"GET\s+/?v1/\{prefix\}/namespaces/\{namespace\}/views")
_RENAME = re.compile(r"POST\s+/?v1/\{prefix\}/tables/rename")
_GENERIC = re.compile(r"GET\s+/?polaris/v1/\{prefix\}/namespaces/\{namespace\}/generic-tables")


def encode(name: str) -> str:
    """Return ``name`` percent-encoded for a path."""
    return quote(name, safe="")


def _settings(answer: Mapping[str, object]) -> dict[str, object]:
    """Return the settings of a server; overrides take precedence over defaults."""
    merged: dict[str, object] = {}
    for part in ("defaults", "overrides"):
        settings = answer.get(part)
        if isinstance(settings, Mapping):
            merged |= {str(key): value for key, value in settings.items() if value is not None}
    return merged


def announced_prefix(answer: Mapping[str, object]) -> str | None:
    """Return the prefix in a response of ``/v1/config``; None without one."""
    prefix = _settings(answer).get("prefix")
    return str(prefix).strip("/") or None if prefix is not None else None


def _lists_endpoint(answer: Mapping[str, object], endpoint: re.Pattern[str]) -> bool | None:
    """Return whether a server lists an endpoint; None if it lists no endpoints."""
    listed = answer.get("endpoints")
    return any(endpoint.fullmatch(str(entry)) for entry in listed) if isinstance(listed, list) else None


@dataclass(frozen=True, slots=True)
class Routes:
    """The paths of one warehouse.

    ``prefix`` is empty if the server has none. ``separator`` joins the encoded levels of a namespace.
    ``lists_views`` and ``renames_tables`` are None if the server does not list its endpoints. ``is_nessie``: the server
    is Project Nessie, which chooses the location of every table. ``base_location``: that of the warehouse on Apache
    Polaris; None on other servers. ``has_generic``: the server has generic tables.
    """

    prefix: str
    separator: str = _DEFAULT_SEPARATOR
    lists_views: bool | None = None
    renames_tables: bool | None = None
    is_nessie: bool = False
    base_location: str | None = None
    has_generic: bool = False

    @classmethod
    def from_config(cls, prefix: str, answer: Mapping[str, object]) -> Routes:
        """Return the routes below ``prefix``, given the response of ``/v1/config``."""
        settings = _settings(answer)
        separator = str(settings.get("namespace-separator") or _DEFAULT_SEPARATOR)
        if not _SAFE_IN_URL.fullmatch(separator):
            separator = encode(separator)
        is_nessie = str(settings.get(NESSIE)).lower() == "true"
        base_location = str(settings.get(POLARIS_BASE) or "") or None
        has_generic = _lists_endpoint(answer, _GENERIC) is True
        return cls(
            prefix,
            separator,
            _lists_endpoint(answer, _VIEWS),
            _lists_endpoint(answer, _RENAME),
            is_nessie,
            base_location,
            has_generic,
        )

    @property
    def _root(self) -> str:
        return f"/v1/{self.prefix}" if self.prefix else "/v1"

    @property
    def namespaces(self) -> str:
        """The list of namespaces; a POST creates one."""
        return f"{self._root}/namespaces"

    @property
    def rename(self) -> str:
        """The path for renaming a table."""
        return f"{self._root}/tables/rename"

    def parent(self, levels: Sequence[str]) -> str:
        """Return the value of the ``parent`` query parameter, not encoded yet."""
        return unquote(self.separator).join(levels)

    def namespace(self, levels: Sequence[str], *below: str) -> str:
        """Return the path of a namespace, or of an object ``below`` it, such as a table."""
        return "/".join((self.namespaces, self.separator.join(map(encode, levels)), *map(encode, below)))

    def generic_tables(self, levels: Sequence[str], *below: str) -> str:
        """Return the path of the generic tables in a namespace, or of the one ``below``."""
        return f"/polaris{self.namespace(levels, 'generic-tables', *below)}"
