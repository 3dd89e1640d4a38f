"""Reading live objects, right before something depends on what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reconciler.backends.base import Backend
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import NamespaceNotFoundError, NotLanceTableError, TableNotFoundError
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.names import Identifier, Only
from reconciler.planner.entries import Kind

_LISTED_AT_ONCE = 50
"""About as many tables as one call lists, over all services."""


def load_namespace(backend: Backend, identifier: Sequence[str]) -> LiveNamespace | None:
    """Return a namespace, None when it or one of its parents does not exist."""
    try:
        return backend.load_namespace(backend.namespace_id_of(identifier, root=False))
    except NamespaceNotFoundError:
        return None


def load_table(backend: Backend, identifier: Sequence[str]) -> LiveTable | None:
    """Return a Lance table, None when it or its namespace does not exist."""
    try:
        return backend.load_table(backend.table_id(identifier))
    except (TableNotFoundError, NamespaceNotFoundError):
        return None


def load(backend: Backend, kind: Kind, identifier: Sequence[str]) -> LiveNamespace | LiveTable | None:
    """Return the object of ``kind`` at ``identifier``, None when it does not exist.

    Raises:
        BackendError: the catalog could not be asked.
    """
    return load_namespace(backend, identifier) if kind == "namespace" else load_table(backend, identifier)


def load_all(
    backend: Backend, expected: Mapping[tuple[Kind, Identifier], bool], tables: int, parallelism: int
) -> dict[tuple[Kind, Identifier], LiveNamespace | LiveTable | None]:
    """Return each object that is asked for, None for those that do not exist or are not of Lance.

    They are read in a scan where that takes fewer calls than one for each, and what is in a namespace that does not
    exist is not asked for.

    Args:
        backend: the catalog.
        expected: the objects, and whether each is believed to exist; what a scan of such a one does not show, which it
            may hide, is asked for by name.
        tables: about how many tables the catalog has.
        parallelism: how many are asked for at a time.

    Raises:
        BackendError: the catalog could not be asked.
    """

    def read(key: tuple[Kind, Identifier]) -> LiveNamespace | LiveTable | None:
        try:
            return load(backend, *key)
        except NotLanceTableError:
            if expected[key]:
                raise
            return None  # as for a scan

    found: dict[tuple[Kind, Identifier], LiveNamespace | LiveTable | None] = {}
    todo = [*expected]
    if len(todo) > 1 and (backend.reads_by_name or len(todo) * _LISTED_AT_ONCE >= tables):
        live = backend.scan(Only(identifier for _, identifier in todo))
        for kind, identifier in todo:
            there = live.namespaces.get(identifier) if kind == "namespace" else live.tables.get(identifier)
            if there is not None or not expected[kind, identifier]:
                found[kind, identifier] = there
    for kind in ("namespace", "table"):
        asked = [key for key in todo if key[0] == kind and key not in found and not _is_in_nothing(key[1], found)]
        found |= zip(asked, in_parallel(read, asked, parallelism), strict=True)
    return {key: found.get(key) for key in todo}


def _is_in_nothing(
    identifier: Identifier, found: Mapping[tuple[Kind, Identifier], LiveNamespace | LiveTable | None]
) -> bool:
    """Return whether one of the namespaces above ``identifier`` is known not to exist."""
    above: list[tuple[Kind, Identifier]] = [("namespace", identifier[:depth]) for depth in range(1, len(identifier))]
    return any(key in found and found[key] is None for key in above)
