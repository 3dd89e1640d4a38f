"""Read rows of ``__manifest``: their locations, metadata, and filters of scans."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from reconciler import storage
from reconciler.model import locations
from reconciler.model.errors import InternalError, InvalidInputError
from reconciler.model.live import PropertyChanges
from reconciler.model.names import DELIMITER, ChildrenOf, Identifier, Only, Scope, check_name, join

MANIFEST = "__manifest"
NAMESPACE = "namespace"
TABLE = "table"

COLUMNS = ("object_id", "object_type", "location", "metadata")

_MOST_NAMESPACES = 40
_MOST_NAMES = 1_000
"""A filter with more names is slower than one for the range from the first to the last."""
_AFTER_DELIMITER = chr(ord(DELIMITER) + 1)
_BOUNDS = (DELIMITER, _AFTER_DELIMITER)

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True)
class StoredLocations:
    """Converts between locations and their stored form, relative to ``root``.

    ``root`` is an absolute path or a URI, without a slash at its end. Stored locations are relative and unencoded, as
    pylance writes them; all others are paths, or URIs where the root is one.
    """

    root: str

    @cached_property
    def _is_uri(self) -> bool:
        return storage.local_path(self.root) is None

    def location(self, stored: str) -> str:
        """Return the absolute location of a ``stored`` one."""
        if _ABSOLUTE.match(stored):
            return stored
        relative = stored.removeprefix("./")
        if self._is_uri:
            relative = locations.escape_name(relative)
        return f"{self.root}/{relative}"

    def relative(self, location: str) -> str:
        """Return an absolute ``location`` as stored; ``""`` if it is not under the root."""
        if not locations.is_under(self.root, location):
            return ""
        return locations.normalise(location)[len(locations.normalise(self.root).rstrip("/")) + 1 :]

    def stored(self, location: str) -> str:
        """Return the stored form of ``location``, absolute or relative to the root.

        Raises:
            InvalidInputError: it cannot be a table's location here.
        """
        reason = self.problem(location)
        if reason is not None:
            raise InvalidInputError(f"dir: {reason}")
        return self._stored_form(location)

    def problem(self, location: str) -> str | None:
        """Return why ``location`` cannot be a table's here; None if it can."""
        reason = locations.problem(location)
        if reason is not None:
            return reason
        relative = self._stored_form(location)
        if not relative:
            shown = locations.redact(location)
            return f"{shown} is not under the root {self.root}; tables must be below it"
        if first_directory(relative) == MANIFEST:
            return f"{MANIFEST} is the list of tables and cannot be a table"
        return None

    def _stored_form(self, location: str) -> str:
        return self.relative(locations.absolute(location, self.root))

    def top_directory(self, stored: str) -> str:
        """Return the directory right under the root that contains a ``stored`` location."""
        if _ABSOLUTE.match(stored):
            stored = self.relative(stored)
        return first_directory(stored.removeprefix("./"))


def first_directory(relative: str) -> str:
    """Return the first directory of a relative path."""
    return relative.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Row:
    """A row: one object; ``location`` and ``metadata`` are as stored."""

    object_id: str
    object_type: str
    location: str | None = None
    metadata: str | None = None

    def properties(self) -> dict[str, str]:
        """Return the properties; values other than text are JSON.

        Raises:
            InternalError: the metadata is not a JSON object.
        """
        return {
            key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in self._document().items()
        }

    def metadata_after(self, changes: PropertyChanges) -> str | None:
        """Return the metadata with ``changes`` merged in; other values stay as stored."""
        document = self._document()
        for key in changes.remove:
            document.pop(key, None)
        document.update(changes.set)
        return metadata_of(document)

    def _document(self) -> dict[str, Any]:
        if not self.metadata:
            return {}
        try:
            document = json.loads(self.metadata)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise InternalError(f"dir: {MANIFEST}: the metadata of `{self.object_id}` is not a JSON object")
        return document


def metadata_of(properties: Mapping[str, Any]) -> str | None:
    """Return ``properties`` as the JSON of the column ``metadata``; None if empty."""
    if not properties:
        return None
    return json.dumps(dict(properties), ensure_ascii=False, separators=(",", ":"))


# ---- the filter of a scan --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScanPart:
    """The objects that a scan of a scope with literal names returns.

    ``namespaces`` stand for all their children but the ``excluded`` ones; ``objects`` are single ones. The scope
    (``ChildrenOf``, ``Only``) becomes a filter that Lance applies while it reads. Names are compared as text, never as
    patterns.
    """

    scope: Scope
    namespaces: frozenset[Identifier]
    objects: frozenset[Identifier]
    excluded: frozenset[Identifier] = frozenset()

    @cached_property
    def ancestors(self) -> frozenset[Identifier]:
        """The namespaces above the objects, without the root; scans return them too."""
        inside = chain(self.objects, ((*namespace, "") for namespace in self.namespaces))
        return frozenset(identifier[:depth] for identifier in inside for depth in range(1, len(identifier)))

    @property
    def includes_root(self) -> bool:
        """Whether an object directly under the root can be one of them."""
        return () in self.namespaces or any(len(name) == 1 for name in self.objects)

    @property
    def row_filter(self) -> str | None:
        """The filter in SQL for at least the rows that the scan needs; None for all.

        Objects directly under the root need every row: a directory there is not a table if an entry of any namespace is
        in it.
        """
        if self.includes_root:
            return None
        if len(self.namespaces) > _MOST_NAMESPACES or len(self.objects) > _MOST_NAMES:
            texts = [
                *map(join, self.objects),
                *(join(namespace) + end for namespace in self.namespaces for end in _BOUNDS),
            ]
            conditions = [f"(object_id >= {_sql_text(min(texts))} AND object_id <= {_sql_text(max(texts))})"]
        else:
            conditions = [*map(_below_filter, self.namespaces), *map(_identity_filter, self.objects)]
        return " OR ".join([*conditions, *map(_identity_filter, self.ancestors - self.objects)]) or "false"

    def has_note(self, parent: Identifier) -> bool:
        """Return whether the scan has a note on an invalid name in ``parent``."""
        invalid = invalid_at(parent)
        return invalid is not None and self.scope.contains(parent[: invalid + 1])

    def missing_namespaces_filter(self, known: Iterable[Identifier]) -> str | None:
        """Return the filter for rows below ancestors that are not in ``known``.

        They say whether those namespaces exist. None if that is known, or follows from the rows of :attr:`row_filter`.
        """
        return " OR ".join(map(_below_filter, self.ancestors.difference(self.namespaces, known))) or None


def part_of(scope: Scope) -> ScanPart | None:
    """Return the part of a scope with literal names; None for one with patterns."""
    if isinstance(scope, ChildrenOf):
        return ScanPart(scope, scope.namespaces, frozenset(), scope.without)
    if isinstance(scope, Only):
        return ScanPart(scope, frozenset(), scope.identifiers)
    return None


def invalid_at(identifier: Identifier) -> int | None:
    """Return the position of the first invalid name; None if all are valid."""
    return next((at for at, name in enumerate(identifier) if check_name(name) is not None), None)


def _below_filter(namespace: Identifier) -> str:
    """Return the filter for everything below ``namespace``, as a range of names."""
    text = join(namespace)
    return f"(object_id >= {_sql_text(text + DELIMITER)} AND object_id < {_sql_text(text + _AFTER_DELIMITER)})"


def _identity_filter(identifier: Identifier) -> str:
    return f"object_id = {_sql_text(join(identifier))}"


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
