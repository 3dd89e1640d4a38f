"""A loaded manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.manifest.config import ConfigText, ResolvedConfig
from reconciler.manifest.variables import Resolver
from reconciler.model.backend_config import BackendConfig
from reconciler.model.desired import DesiredCatalog, Thresholds
from reconciler.model.errors import ManifestError, Problem


@dataclass(frozen=True, slots=True)
class ManifestCatalog:
    """One catalog: what is desired in it, and how it is reached."""

    name: str
    impl: str
    desired: DesiredCatalog = field(repr=False)
    config: ConfigText = field(repr=False)
    _resolver: Resolver = field(repr=False)
    places: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The locations that come from the environment or a file, and what the manifest says in their place."""

    def resolve_config(self) -> ResolvedConfig:
        """Return the ``config`` with the environment, variables and files of now.

        Raises:
            ManifestError: a placeholder stands for nothing, or a value cannot be used.
        """
        return self.config.resolve(self._resolver)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The desired state of several catalogs.

    ``digest`` is the SHA-256 of the normalised content: how it is spread over files, written, ordered or commented
    makes no difference, nor do the values behind placeholders in ``config`` or the folder it lies in. ``files`` are
    named as seen from the current folder; ``folder`` is that of the first one, absolute.
    """

    name: str
    digest: str
    files: tuple[str, ...]
    folder: str
    thresholds: Thresholds
    catalogs: Mapping[str, ManifestCatalog] = field(repr=False)


def service_problems(configs: Iterable[tuple[ManifestCatalog, BackendConfig | None]]) -> Iterator[Problem]:
    """Yield an error for each catalog that reaches a service and root another one reaches, as far as that is known."""
    first: dict[tuple[str, str], ManifestCatalog] = {}
    for catalog, config in configs:
        if config is None:
            continue
        other = first.setdefault((catalog.impl, config.identity()), catalog)
        if other is not catalog:
            yield catalog.desired.source.problem(
                f"catalog {catalog.name} and {other.desired.source.exact} {other.name} are the same {catalog.impl} "
                "service and root; expected one catalog for both"
            )


def check_services(manifest: Manifest, configs: Mapping[str, ResolvedConfig]) -> None:
    """Check that no two catalogs, by name in ``configs``, reach the same service and root.

    Raises:
        ManifestError: some do.
    """
    catalogs = [manifest.catalogs[name] for name in configs]
    reached = ((catalog, catalog.config.read(configs[catalog.name].properties)[0]) for catalog in catalogs)
    problems = list(service_problems(reached))
    if problems:
        raise ManifestError(problems)
