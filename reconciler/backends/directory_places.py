"""Locations under the root of a directory catalog, as entries store them and as everybody else sees them.

An entry's location is relative to the root and unencoded, as pylance writes it. Everybody else sees a path, or a URI
when the root is one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from reconciler import storage
from reconciler.model import locations
from reconciler.model.errors import InvalidInputError

MANIFEST = "__manifest"

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*://")
_URI_SYNTAX = str.maketrans({"%": "%25", "?": "%3F", "#": "%23"})


@dataclass(frozen=True)
class DirectoryPlaces:
    """``root`` is an absolute path or a URI, without a slash at its end."""

    root: str

    @cached_property
    def _is_uri(self) -> bool:
        return storage.local_path(self.root) is None

    def location(self, stored: str) -> str:
        """Return the location that an entry's stored one means; absolute ones mean themselves."""
        if _ABSOLUTE.match(stored):
            return stored
        relative = stored.removeprefix("./")
        if self._is_uri:
            relative = relative.translate(_URI_SYNTAX)
        return f"{self.root}/{relative}"

    def relative(self, location: str) -> str:
        """Return ``location`` as an entry stores it, empty when it is not under the root."""
        if not locations.is_under(self.root, location):
            return ""
        return locations.normalise(location)[len(locations.normalise(self.root).rstrip("/")) + 1 :]

    def stored(self, location: str) -> str:
        """Return what an entry stores for ``location``, absolute or relative to the root.

        Raises:
            InvalidInputError: it cannot be a table's location here.
        """
        reason = self.problem(location)
        if reason is not None:
            raise InvalidInputError(f"dir: {reason}")
        return self._below(location)

    def problem(self, location: str) -> str | None:
        """Return why ``location``, absolute or relative to the root, cannot be a table's here; None when it can."""
        reason = locations.check(location)
        if reason is not None:
            return reason
        relative = self._below(location)
        if not relative:
            shown = locations.redact(location)
            return f"{shown} is not under the root {self.root}; tables stay below it here"
        if first_directory(relative) == MANIFEST:
            return f"{MANIFEST} is the list of tables and cannot be one"
        return None

    def _below(self, location: str) -> str:
        return self.relative(locations.absolute(location, self.root))

    def occupied(self, stored: str) -> str:
        """Return the directory right under the root that an entry's location is in; empty for one elsewhere."""
        if _ABSOLUTE.match(stored):
            stored = self.relative(stored)
        return first_directory(stored.removeprefix("./"))


def first_directory(relative: str) -> str:
    """Return the first directory of a relative path."""
    return relative.partition("/")[0]
