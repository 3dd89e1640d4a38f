"""The configuration of ``impl: dir``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import AliasChoices, Field, field_validator, model_validator

from reconciler import storage
from reconciler.model import locations
from reconciler.model.backend_config import BackendConfig, Root

_OTHER_HOST = re.compile("file://(?!localhost/)[^/]", re.IGNORECASE)


class DirConfig(BackendConfig):
    """The configuration of a directory catalog."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("uri", "url", "warehouse", "location", "directory", "bucket"), "write `root`"),
        "prefix": "write it in `root`, such as s3://BUCKET/PREFIX",
        "region": "write `storage.region`",
        "endpoint": "write `storage.endpoint`",
        "endpoint_url": "write `storage.endpoint`",
        "profile": "set AWS_PROFILE in the environment",
        "credential_vendor.*": "leave it out: no credentials are vended here; `storage.*` opens the data",
        "dir_listing_to_manifest_migration_enabled": "leave it out: old tables are found where they are",
        "table_version_storage_enabled": "leave it out: rows of versions are kept, and none is written",
        "table_version_tracking_enabled": "leave it out: versions are those of the datasets",
    }

    root: Root = Field(validation_alias=AliasChoices("root", "path"))
    """The directory or URI of the catalog; a relative path starts at the manifest's folder."""
    manifest_enabled: bool = True
    """Only true: `__manifest` is always read, and written by the first change."""
    dir_listing_enabled: bool = True
    """Only true: the directory is always listed."""

    @model_validator(mode="before")
    @classmethod
    def _one_root(cls, settings: Any) -> Any:
        if isinstance(settings, dict) and {"root", "path"} <= settings.keys():
            raise ValueError("`path` is another name for `root`: give one of them")
        return settings

    @field_validator("manifest_enabled", "dir_listing_enabled")
    @classmethod
    def _always(cls, enabled: bool) -> bool:
        if not enabled:
            raise ValueError("expected true, which is what lancens does; leave it out")
        return enabled

    @field_validator("root")
    @classmethod
    def _absolute(cls, root: str) -> str:
        local = storage.local_path(root)
        foreign = locations.foreign_text(root)
        if foreign is not None and not (local is not None and Path(local).exists()):
            raise ValueError(foreign)
        if local is not None:
            if _OTHER_HOST.match(root):
                raise ValueError("a file: URI has the whole path after three slashes; write a path, such as ./lake")
            if "~" in local.parts:
                raise ValueError(locations.home_is_kept())
            if Path(local).is_file():
                raise ValueError("it is a file; expected a directory")
            if Path(local, "_versions").is_dir():
                raise ValueError("it is a dataset; expected the directory that holds it")
            return os.path.normpath(Path.cwd() / local)
        if ".." in locations.names_in(root):
            raise ValueError("expected a URI without `..`")
        return root.rstrip("/")

    def identity(self) -> str:
        """Return the root, comparable: a path without symbolic links."""
        return locations.normalise(self.root if storage.local_path(self.root) is None else os.path.realpath(self.root))

    def is_identity_literal(self) -> bool:
        """Return whether no link changes the root."""
        return self.identity() == locations.normalise(self.root)
