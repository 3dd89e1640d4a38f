"""What the operations of the specification share: the catalog they ask, and where its datasets are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from lance_namespace import LanceNamespace

from reconciler import storage
from reconciler.backends import optional
from reconciler.backends.base import Backend
from reconciler.model.errors import InvalidInputError, NotLanceTableError
from reconciler.model.live import LiveTable, StorageKind
from reconciler.model.names import Identifier


class CatalogOperations(LanceNamespace):
    """Operations on one catalog; a subclass may say otherwise where clients may point entries."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def in_context(self, context: Mapping[str, str]) -> AbstractContextManager[None]:
        """Return what surrounds the work on a request with this ``context``: it goes to the catalog."""
        return optional.in_context(self.backend, context)

    def _direct_properties(self, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return the properties of a new namespace, with what its catalog asks for."""
        return optional.direct_properties(self.backend, identifier, properties)

    def _direct_location(self, identifier: Identifier) -> str | None:
        """Return where a new table goes by itself; None where the service chooses."""
        return optional.direct_location(self.backend, identifier)

    def _location_to_open(self, table: LiveTable) -> str:
        """Return where the dataset of ``table`` is opened."""
        return table.location

    def _compute(self, work: Callable[..., Any], *given: object, expressions: Collection[str] = ()) -> Any:
        """Return what ``work``, a function of ``reconciler.storage``, makes of a client's data or ``expressions``."""
        del expressions
        return work(*given)

    def _has_data(self, table: LiveTable) -> bool:
        found = storage.probe(self._location_to_open(table), optional.table_storage_options(self.backend, table))
        return found.kind is not StorageKind.NOTHING

    def _place(self, identifier: Sequence[str] | None) -> tuple[str, Mapping[str, str]]:
        """Return the location of a table's dataset, and the options for opening it.

        Raises:
            BackendError: the table does not exist, or nobody may look into it.
        """
        with other_formats_refused():
            table = self.backend.load_table(self.backend.table_id(identifier))
        return self._location_to_open(table), optional.table_storage_options(self.backend, table)


@contextmanager
def other_formats_refused() -> Iterator[None]:
    """Answer for a table of another format that the request asks for what is not there."""
    try:
        yield
    except NotLanceTableError as error:
        raise InvalidInputError(str(error)) from None


def choice(parameter: str, given: str | None, choices: tuple[str, ...]) -> str:
    """Return the choice ``given`` names, whatever its case and underscores; the first when none is given."""
    if given is None:
        return choices[0]
    plain = given.replace("_", "").lower()
    if plain not in choices:
        raise InvalidInputError(f"{parameter} `{given}` is not one of {', '.join(choices)}")
    return plain
