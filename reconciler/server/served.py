"""Where clients may point entries, and what the server opens for them.

A client is somewhere else: what a path on the server's disk holds, or that there is one, is nothing it could know, so
neither an entry of its making nor the look into a dataset leads there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from lance_namespace.errors import InvalidInputError

from reconciler import storage
from reconciler.backends import optional
from reconciler.backends.base import Backend
from reconciler.model import locations
from reconciler.model.capabilities import LocationPolicy
from reconciler.model.errors import PermissionDeniedError
from reconciler.model.live import LiveTable
from reconciler.model.names import Identifier
from reconciler.namespace import CatalogNamespace
from reconciler.server.sandbox import Sandbox, check_expressions

_NO_PLACE = (
    "{} is no place for a table of this server: name one below the catalog's root; who runs the server can admit "
    "others with --location"
)


class ServedNamespace(CatalogNamespace):
    """A catalog for clients that are somewhere else.

    Locations are below the catalog's roots or below one of ``beside``. Without either, any in an object store will do:
    who may write there is decided by the store. The disk of the server is none.
    """

    def __init__(self, backend: Backend, beside: Sequence[str] = ()) -> None:
        super().__init__(backend)
        self._beside = tuple(beside)
        self.sandbox: Sandbox | None = None
        optional.stay_inside(backend)

    def __reduce__(self) -> tuple[object, ...]:
        return ServedNamespace, (self.backend, self._beside)

    def in_context(self, context: Mapping[str, str]) -> AbstractContextManager[None]:
        """Return what surrounds the work on a request: a client's headers are none of this server's own."""
        del context
        return nullcontext()

    def checked(self, location: str | None) -> str | None:
        """Return a location that a client names; None where it names none.

        Raises:
            lance_namespace.errors.InvalidInputError: no entry can be made there.
        """
        problem = None if location is None else self._problem(location)
        if problem is not None:
            raise InvalidInputError(problem)
        return location

    def _problem(self, location: str) -> str | None:
        problem = locations.check(location)
        if problem is not None:
            return problem
        relative = locations.scheme(location) == "file" and not location.startswith("/") and ":" not in location
        if relative and self.backend.capabilities.location_policy is LocationPolicy.UNDER_ROOT:
            # It is below the root, or the backend refuses it.
            if all(_stays_below(root, locations.join(root, location)) for root in self.backend.roots()):
                return None
        elif not relative and self._is_admitted(location, _stays_below):
            return None
        return _NO_PLACE.format(locations.redact(location))

    def _compute(self, work: Callable[..., Any], *given: object, expressions: Collection[str] = ()) -> Any:
        """Do it in a process with limits; what is in this one's memory cannot be seen from another."""
        check_expressions(expressions)
        if self.sandbox is None or self.backend.in_process:
            return work(*given)
        return self.sandbox.run(work, *given)

    def _has_data(self, table: LiveTable) -> bool:
        """Return whether a table has data; one that is not opened is not said to have none."""
        try:
            return super()._has_data(table)
        except PermissionDeniedError:
            return True

    def _is_admitted(self, location: str, is_under: Callable[[str, str], bool] = locations.is_under) -> bool:
        places = (*self.backend.roots(), *self._beside)
        if any(is_under(place, location) for place in places):
            return True
        return not places and self._is_elsewhere(location)

    def _is_elsewhere(self, location: str) -> bool:
        """Return whether ``location`` is in an object store, or in the memory that the whole catalog is in."""
        scheme = locations.scheme(locations.pylance_uri(location))
        return scheme in storage.OBJECT_STORES or (self.backend.in_process and scheme == "shared-memory")

    def _location_to_open(self, table: LiveTable) -> str:
        """Return where the dataset of ``table`` is; what others entered is looked into within the same bounds.

        Raises:
            PermissionDeniedError: it is a path of the server's disk that is none of the catalog's.
        """
        if not self._is_elsewhere(table.location) and not self._is_admitted(table.location, _stays_below):
            raise PermissionDeniedError("the table is at a place that this server does not open")
        return table.location

    def _direct_properties(self, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return the properties as the client names them: no place of the server's is added."""
        del identifier
        return properties

    def _direct_location(self, identifier: Identifier) -> str | None:
        """Return the catalog's own default: the directory that the server was started in is none of the client's."""
        location = self.backend.default_location(identifier)
        # A client may have said where the namespace is.
        if location is not None and not self._is_elsewhere(location) and not self._is_admitted(location):
            raise InvalidInputError(_NO_PLACE.format(locations.redact(location)))
        return location


def _stays_below(place: str, location: str) -> bool:
    """Return whether ``location`` is below ``place`` by its name, and no symbolic link leads out of there."""
    real = storage.place_of(place), storage.place_of(location)
    return locations.is_under(place, location) and locations.is_under(*real)
