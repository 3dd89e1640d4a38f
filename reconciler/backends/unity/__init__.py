"""``impl: unity``: one catalog of a Unity Catalog service (Lance specification)."""

from reconciler.backends.unity.backend import UnityBackend
from reconciler.backends.unity.config import UnityConfig

__all__ = ["UnityBackend", "UnityConfig"]
