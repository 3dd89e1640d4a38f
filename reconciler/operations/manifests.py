"""Load manifests with the backends that are installed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from reconciler import manifest
from reconciler.backends import registry
from reconciler.manifest import OPEN, Implementation, Implementations, Manifest, Policy


def load(
    path: str | os.PathLike[str],
    /,
    *paths: str | os.PathLike[str],
    variables: Mapping[str, str] | None = None,
    policy: Policy = OPEN,
    traced: str | None = None,
) -> Manifest:
    """Return the manifest in the given files and folders, with their includes.

    Placeholders in a catalog's ``config`` stay unresolved and only their form is checked. All others are resolved now,
    from the environment, ``variables`` and files, as far as ``policy`` allows. ``traced`` is the
    address of an object: ``origins`` of the manifest says what writes its values.

    Raises:
        ManifestError: with every problem of every file.
    """
    expect("load", path, (str, os.PathLike), "a path, such as 'lancens.yaml'")
    return manifest.load([path, *paths], _installed(), variables=variables, policy=policy, traced=traced)


def expect(function: str, argument: object, kind: type | tuple[type, ...], expected: str) -> None:
    """Check an argument of the Python API.

    Raises:
        TypeError: ``argument`` is not of ``kind``.
    """
    if not isinstance(argument, kind):
        raise TypeError(f"reconciler.{function}: expected {expected}, but found a {type(argument).__name__}")


def manifest_of_service(impl: str, properties: Mapping[str, str]) -> Manifest:
    """Return a manifest with one catalog: the service of ``impl``.

    Raises:
        ConfigError, MissingExtraError: ``impl`` cannot be loaded, or ``properties`` cannot be used.
    """
    return manifest.manifest_of_service(impl, _find(impl), properties)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a manifest, for all installed implementations."""
    return manifest.json_schema(_installed())


def _installed() -> Implementations:
    return Implementations(registry.names, _find)


def _find(impl: str) -> Implementation:
    backend = registry.backend_class(impl)
    return Implementation(backend.known_capabilities, backend.config_model)
