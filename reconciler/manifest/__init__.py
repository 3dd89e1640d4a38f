"""Manifests: from YAML files to the desired state, with file, line and column for every error."""

from __future__ import annotations

from reconciler.manifest.config import Implementation, Implementations, ResolvedConfig, files_read_by
from reconciler.manifest.files import VARIABLES_FILE, folders_of, read_variables
from reconciler.manifest.loading import load, manifest_of_service
from reconciler.manifest.manifest import Manifest, ManifestCatalog, check_services
from reconciler.manifest.policy import OPEN, UNTRUSTED, VARIABLES_ONLY, Policy
from reconciler.manifest.schema import json_schema, json_schema_of
