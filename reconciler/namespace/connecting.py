"""Backends by name, as Lance namespaces."""

from __future__ import annotations

from collections.abc import Mapping

from lance_namespace import NATIVE_IMPLS, register_namespace_impl

from reconciler.backends import registry
from reconciler.namespace.catalog import CatalogNamespace
from reconciler.namespace.requests import specification_errors


def connect(impl: str, properties: Mapping[str, str]) -> CatalogNamespace:
    """Return a live catalog; whether the service answers shows at the first call.

    Raises:
        ConfigError, MissingExtraError: see :func:`reconciler.backends.registry.backend_class`.
        lance_namespace.errors.InvalidInputError: ``properties`` are incomplete or wrong, each fault named.
    """
    with specification_errors():
        return CatalogNamespace(registry.connect(impl, properties))


def register_impls() -> None:
    """Make every backend usable in ``lance_namespace.connect``.

    Each is known as ``lancens.<impl>``. Where lance_namespace has no implementation of its own under the plain name
    (it has ``dir`` and ``rest``), that works too, and takes the place of what another package registered there.
    """
    for impl in registry.names():
        path = f"reconciler.namespace.impls.{impl}"
        register_namespace_impl(f"lancens.{impl}", path)
        if impl not in NATIVE_IMPLS:
            register_namespace_impl(impl, path)
