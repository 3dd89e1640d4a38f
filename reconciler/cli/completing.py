"""What a shell completes beside names of files and options: implementations, and addresses in a manifest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from reconciler.model.desired import DesiredCatalog


DEFAULT_MANIFEST = "lancens.yaml"
"""What a command takes that is given no manifest."""

_MOST = 500


def complete_impl(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the implementations whose names begin with what is typed."""
    from reconciler.backends import registry

    return [name for name in registry.names() if name.startswith(incomplete)]


def complete_address(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return what the manifest names, one level at a time as a path is completed; no catalog is read."""
    from reconciler.model.errors import LancensError
    from reconciler.operations.manifests import load

    paths = context.params.get("manifests") or (DEFAULT_MANIFEST,)
    try:
        manifest = load(*paths, variables=context.params.get("variables"))
    except (LancensError, OSError):
        return []
    level = incomplete.count("/")
    found: set[str] = set()
    for catalog in manifest.catalogs.values():
        for names in _paths(catalog.desired):
            address = "/".join(names[: level + 1]) + ("/" if len(names) > level + 1 else "")
            if address.startswith(incomplete):
                found.add(address)
    return sorted(found)[:_MOST]


def _paths(catalog: DesiredCatalog) -> Iterator[tuple[str, ...]]:
    yield (catalog.name, "**")
    for identifier in (*catalog.namespaces, *catalog.tables):
        yield (catalog.name, *identifier)
