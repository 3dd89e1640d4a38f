"""Load manifests, checking each catalog against the installed backend of its implementation."""

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

    Placeholders in a catalog's ``config`` stay unresolved, and only their form is checked. All others are resolved now,
    from the environment, ``variables`` and files, as far as ``policy`` allows.

    Args:
        path: the first file or folder.
        paths: more of them.
        variables: values of the manifest's variables, by name.
        policy: what the manifest may read and connect to.
        traced: the address of an object; ``origins`` of the manifest then has the lines that set its values.

    Raises:
        ManifestError: with every problem of every file.
    """
    check_argument("load", path, (str, os.PathLike), "a path, such as 'lancens.yaml'")
    return manifest.load([path, *paths], _installed_backends(), variables=variables, policy=policy, traced=traced)


def check_argument(function: str, argument: object, kind: type | tuple[type, ...], expected: str) -> None:
    """Check the type of an argument of ``function``, which users call.

    ``expected`` describes a valid argument, for the error.

    Raises:
        TypeError: ``argument`` is not of ``kind``.
    """
    if not isinstance(argument, kind):
        raise TypeError(f"reconciler.{function}: expected {expected}, but found a {type(argument).__name__}")


def manifest_of_service(impl: str, properties: Mapping[str, str]) -> Manifest:
    """Return a manifest with one catalog of implementation ``impl`` and configuration ``properties``.

    Raises:
        ConfigError, MissingExtraError: ``impl`` cannot be loaded, or ``properties`` cannot be used.
    """
    return manifest.manifest_of_service(impl, _implementation(impl), properties)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a manifest, for all installed implementations."""
    return manifest.json_schema(_installed_backends())


def _installed_backends() -> Implementations:
    """Return the implementations as ``manifest`` needs them; each backend is loaded when it is first asked for."""
    return Implementations(registry.names, _implementation)


def _implementation(impl: str) -> Implementation:
    """Return the capabilities and the configuration model of a backend."""
    backend = registry.backend_class(impl)
    return Implementation(backend.known_capabilities, backend.config_model)
