"""``impl: rest``: any server that speaks the Lance REST protocol (Lance Namespace specification, "REST")."""

from reconciler.backends.rest.backend import RestBackend
from reconciler.backends.rest.config import RestConfig

__all__ = ["RestBackend", "RestConfig"]
