"""Manifests: YAML files to desired state, with file, line and column for every fault."""

from __future__ import annotations

from reconciler.manifest.adhoc import manifest_of_service
from reconciler.manifest.config import ResolvedConfig, files_read_by
from reconciler.manifest.implementations import Implementation, Implementations
from reconciler.manifest.loading import collector_paused, load
from reconciler.manifest.manifest import Manifest, ManifestCatalog, check_services
from reconciler.manifest.policy import CHECKING, OPEN, UNTRUSTED, Policy
from reconciler.manifest.schema import json_schema
from reconciler.manifest.variable_files import read_variables

__all__ = [
    "CHECKING",
    "OPEN",
    "UNTRUSTED",
    "Implementation",
    "Implementations",
    "Manifest",
    "ManifestCatalog",
    "Policy",
    "ResolvedConfig",
    "check_services",
    "collector_paused",
    "files_read_by",
    "json_schema",
    "load",
    "manifest_of_service",
    "read_variables",
]
