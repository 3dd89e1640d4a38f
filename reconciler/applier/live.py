"""Reading one live object, right before something depends on what it is."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.backends.base import Backend
from reconciler.errors import NamespaceNotFoundError, TableNotFoundError
from reconciler.planner.entries import Kind
from reconciler.state import LiveNamespace, LiveTable

__all__ = ["load", "load_namespace", "load_table"]


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
