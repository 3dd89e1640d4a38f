"""The public names for writing a backend of another catalog.

``docs/writing-a-backend.md`` has an example. Names that are not in ``__all__`` here or in ``reconciler`` are private.
"""

from __future__ import annotations

from reconciler.backends.base import Backend, snapshot_within
from reconciler.backends.service_options import with_vended
from reconciler.model.backend_config import BackendConfig
from reconciler.model.capabilities import Capabilities, LocationPolicy, NameRule, Safeguard
from reconciler.model.columns import Column, Schema, ShownColumn, ShownColumns
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import (
    BackendError,
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    NotLanceTableError,
    PermissionDeniedError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
    ThrottlingError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from reconciler.model.live import (
    ForeignTable,
    LiveNamespace,
    LiveTable,
    OddEntry,
    PropertyChanges,
    Snapshot,
    Traffic,
)
from reconciler.model.locations import join as join_location
from reconciler.model.names import EVERYTHING, Identifier, Scope

__all__ = [
    "EVERYTHING",
    "Backend",
    "BackendConfig",
    "BackendError",
    "Capabilities",
    "Column",
    "ConcurrentModificationError",
    "ForeignTable",
    "Identifier",
    "InternalError",
    "InvalidInputError",
    "LiveNamespace",
    "LiveTable",
    "LocationPolicy",
    "NameRule",
    "NamespaceAlreadyExistsError",
    "NamespaceNotEmptyError",
    "NamespaceNotFoundError",
    "NotLanceTableError",
    "OddEntry",
    "PermissionDeniedError",
    "PropertyChanges",
    "Safeguard",
    "Schema",
    "Scope",
    "ServiceUnavailableError",
    "ShownColumn",
    "ShownColumns",
    "Snapshot",
    "TableAlreadyExistsError",
    "TableNotFoundError",
    "ThrottlingError",
    "Traffic",
    "UnauthenticatedError",
    "UnsupportedOperationError",
    "in_parallel",
    "join_location",
    "snapshot_within",
    "with_vended",
]
