"""Manifests: YAML files to desired state, with file, line and column for every fault."""

from __future__ import annotations

from reconciler.manifest.config import ResolvedConfig
from reconciler.manifest.loading import load
from reconciler.manifest.manifest import Manifest, ManifestCatalog, check_services
from reconciler.manifest.policy import CHECKING, OPEN, UNTRUSTED, Policy
from reconciler.manifest.schema import json_schema

__all__ = [
    "CHECKING",
    "OPEN",
    "UNTRUSTED",
    "Manifest",
    "ManifestCatalog",
    "Policy",
    "ResolvedConfig",
    "check_services",
    "json_schema",
    "load",
]
