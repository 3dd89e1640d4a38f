"""``impl: rest``: any server with the Lance REST protocol (Lance specification)."""

from reconciler.backends.rest.backend import RestBackend
from reconciler.backends.rest.config import RestConfig

__all__ = ["RestBackend", "RestConfig"]
