"""What a manifest asks of the implementations that its catalogs name; the caller that loads hands them in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reconciler.model.backend_config import BackendConfig
from reconciler.model.capabilities import Capabilities


@dataclass(frozen=True, slots=True)
class Implementation:
    """What a catalog of one ``impl`` can do, and the keys that its ``config`` takes."""

    capabilities: Capabilities
    config_model: type[BackendConfig]


@dataclass(frozen=True, slots=True)
class Implementations:
    """Implementations by name: ``find`` raises ConfigError or MissingExtraError for one that cannot be loaded."""

    names: Callable[[], list[str]]
    find: Callable[[str], Implementation]
