"""Restrict the locations that clients may name, and those that the server opens.

Clients must not learn what is on the server's disk, so no entry and no dataset may refer to it outside the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from lance_namespace.errors import InvalidInputError

from reconciler import storage
from reconciler.backends.base import Backend
from reconciler.model import locations
from reconciler.model.capabilities import LocationPolicy
from reconciler.model.errors import PermissionDeniedError
from reconciler.model.live import LiveTable
from reconciler.model.names import Identifier
from reconciler.namespace import CatalogNamespace
from reconciler.server.sandbox import Sandbox, check_expressions

_REFUSED_LOCATION = (
    "{} cannot be the location of a table: name one below the catalog's root, or start the server with --location"
)


class ServedNamespace(CatalogNamespace):
    """A catalog for remote clients.

    Locations must be below the catalog's roots or one of ``extra_locations``. Without either, a location in any object
    store is accepted, since the store decides who may write there; one on the server's disk never is.
    """

    def __init__(self, backend: Backend, extra_locations: Sequence[str] = ()) -> None:
        super().__init__(backend)
        self.sandbox: Sandbox | None = None
        backend.extra_roots = tuple(extra_locations)
        backend.stay_inside()

    def __reduce__(self) -> tuple[object, ...]:
        return ServedNamespace, (self.backend, self.backend.extra_roots)

    def in_context(self, context: Mapping[str, str]) -> AbstractContextManager[Mapping[str, str]]:
        """Return an empty context: no headers go from client to catalog, or back."""
        return nullcontext({})

    def check_location(self, location: str | None) -> str | None:
        """Return ``location``, which a client names for a table; None is accepted.

        Raises:
            lance_namespace.errors.InvalidInputError: a client may name no such location.
        """
        problem = None if location is None else self._location_problem(location)
        if problem is not None:
            raise InvalidInputError(problem)
        return location

    def check_namespace_properties(self, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return the properties that a client gives a namespace.

        One may be the location of its tables.
        Raises:
            lance_namespace.errors.InvalidInputError: a client may name no such location.
        """
        for key in self.backend.capabilities().namespace_places:
            self.check_location(properties.get(key))
        return properties

    def _location_problem(self, location: str) -> str | None:
        """Return why a client may not name ``location``, or None."""
        problem = locations.problem(location)
        if problem is not None:
            return problem
        relative = locations.scheme(location) == "file" and not location.startswith("/") and ":" not in location
        if relative and self.backend.capabilities().location_policy is LocationPolicy.UNDER_ROOT:
            # The backend rejects a path that leaves its root.
            if all(_stays_below(root, locations.join(root, location)) for root in self.backend.roots()):
                return None
        elif not relative and self._is_admitted(location, _stays_below):
            return None
        return _REFUSED_LOCATION.format(locations.redact(location))

    def _run_on_client_data(
        self, work: Callable[..., Any], *arguments: object, expressions: Collection[str] = ()
    ) -> Any:
        """Call ``work`` in the sandbox, or in this process if the data is in its memory."""
        check_expressions(expressions)
        if self.sandbox is None or self.backend.in_process:
            return work(*arguments)
        return self.sandbox.run(work, *arguments)

    def _has_data(self, table: LiveTable) -> bool:
        """Return whether a table has data; True if the server may not open it."""
        try:
            return super()._has_data(table)
        except PermissionDeniedError:
            return True

    def _is_admitted(self, location: str, is_under: Callable[[str, str], bool] = locations.is_under) -> bool:
        """Return whether ``location`` is below a root, or without any root in an object store."""
        roots = self.backend.admission().roots
        if any(is_under(root, location) for root in roots):
            return True
        return not roots and self._is_off_disk(location)

    def _is_off_disk(self, location: str) -> bool:
        """Return whether ``location`` is in an object store, or in memory."""
        scheme = locations.scheme(locations.pylance_uri(location))
        return scheme in storage.OBJECT_STORES or (self.backend.in_process and scheme == "shared-memory")

    def _location_to_open(self, table: LiveTable) -> str:
        """Return the location at which to open the dataset of ``table``.

        Raises:
            PermissionDeniedError: it is on the server's disk outside the catalog.
        """
        if not self._is_off_disk(table.location) and not self._is_admitted(table.location, _stays_below):
            raise PermissionDeniedError("the table is at a location that this server does not open")
        return table.location

    def _new_namespace_properties(self, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return the client's properties, without the location that some backends add."""
        return self.check_namespace_properties(properties)

    def _new_table_location(self, identifier: Identifier) -> str | None:
        """Return the default location of a new table; None if the service chooses it.

        Raises:
            InvalidInputError: it is on the server's disk outside the catalog.
        """
        location = self.backend.default_location(identifier)
        if location is not None:  # it may be outdated, as the namespace may have moved since it was read
            location = self.backend.location_for_request(identifier)
        # Another tool may have chosen the location of the namespace.
        if location is not None and not self._is_off_disk(location) and not self._is_admitted(location):
            raise InvalidInputError(_REFUSED_LOCATION.format(locations.redact(location)))
        return location


def _stays_below(root: str, location: str) -> bool:
    """Return if ``location`` is below ``root``, also with symbolic links followed."""
    real_paths = storage.resolve_location(root), storage.resolve_location(location)
    return locations.is_under(root, location) and locations.is_under(*real_paths)
