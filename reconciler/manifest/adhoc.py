"""A manifest of one catalog that no file describes: nothing is wanted in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reconciler.manifest.config import ConfigEntry, ConfigText
from reconciler.manifest.digests import digest_of
from reconciler.manifest.implementations import Implementation
from reconciler.manifest.manifest import Manifest, ManifestCatalog
from reconciler.manifest.variables import Resolver
from reconciler.model.desired import DesiredCatalog, Source, Thresholds
from reconciler.model.errors import ConfigError

_NAME = "no manifest"
_WHERE = "--config"
_CATALOG = "main"


def manifest_of_service(impl: str, implementation: Implementation, properties: Mapping[str, str]) -> Manifest:
    """Return a manifest whose only catalog is the service that ``impl`` and ``properties`` reach.

    Raises:
        ConfigError: ``properties`` cannot be used.
    """
    folder, source = str(Path.cwd()), Source(_WHERE, 0, 0)
    entries = tuple(ConfigEntry(key, (text,), folder, source) for key, text in properties.items())
    config = ConfigText(impl, implementation, source, entries)
    problems = [problem.message.removeprefix("config: ") for problem in config.problems()]
    if problems:
        raise ConfigError(f"{_WHERE} of {impl}: {'; '.join(problems)}")
    desired = DesiredCatalog(name=_CATALOG, owner=f"{_NAME}/{_CATALOG}", source=source)
    thresholds = Thresholds()
    return Manifest(
        name=_NAME,
        digest=digest_of(_NAME, thresholds, [], folder),
        files=(),
        folder=folder,
        thresholds=thresholds,
        catalogs={_CATALOG: ManifestCatalog(_CATALOG, impl, desired, config, Resolver())},
    )
