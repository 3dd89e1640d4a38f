"""A manifest of one catalog that no file describes: nothing is wanted in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reconciler.errors import ConfigError
from reconciler.manifest.config import ConfigEntry, ConfigText
from reconciler.manifest.digests import digest_of
from reconciler.manifest.manifest import Manifest, ManifestCatalog
from reconciler.manifest.variables import Resolver
from reconciler.state import DesiredCatalog, Source, Thresholds

__all__ = ["manifest_of_service"]

_NAME = "no manifest"
_WHERE = "--config"


def manifest_of_service(impl: str, properties: Mapping[str, str], catalog: str = "main") -> Manifest:
    """Return a manifest whose only catalog is the service that ``impl`` and ``properties`` reach.

    Raises:
        ConfigError, MissingExtraError: ``impl`` cannot be loaded, or ``properties`` cannot be used.
    """
    from reconciler.backends import registry

    folder, source = str(Path.cwd()), Source(_WHERE, 0, 0)
    entries = tuple(ConfigEntry(key, (text,), folder, source) for key, text in properties.items())
    config = ConfigText(impl, registry.backend_class(impl), source, entries)
    problems = [problem.message.removeprefix("config: ") for problem in config.problems()]
    if problems:
        raise ConfigError(f"{_WHERE} of {impl}: {'; '.join(problems)}")
    desired = DesiredCatalog(name=catalog, owner=f"{_NAME}/{catalog}", source=source)
    thresholds = Thresholds()
    return Manifest(
        name=_NAME,
        digest=digest_of(_NAME, thresholds, [], folder),
        files=(),
        folder=folder,
        thresholds=thresholds,
        catalogs={catalog: ManifestCatalog(catalog, impl, desired, config, Resolver())},
    )
