"""Adapt any ``LanceNamespace`` to the checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

import lance_namespace
from lance_namespace import LanceNamespace

from reconciler.backends.base import Backend
from reconciler.conformance.expectations import NotInSpecificationError
from reconciler.model.backend_config import BackendConfig
from reconciler.model.capabilities import Capabilities
from reconciler.model.errors import ConfigError
from reconciler.model.redaction import is_sensitive, scrub


class _Config(BackendConfig):
    implementation: str

    def identity(self) -> str:
        """Return the name of the implementation: any configuration may be secret."""
        return self.implementation


def _not_in_interface(*_: object, **__: object) -> NoReturn:
    raise NotInSpecificationError("the Lance namespace interface has no such operation")


class OthersNamespace(Backend):
    """Presents ``client`` as a backend, so that the checks of the specification run.

    Its capabilities are unknown: an operation that raises Unsupported counts as missing.
    """

    impl = "lance_namespace"
    config_model = _Config
    known_capabilities = Capabilities(
        alter_namespace=False, alter_table=False, relocate_table=False, rename_within=0, ignores_location=True
    )

    def __init__(self, impl: str, client: LanceNamespace, storage: Mapping[str, str]) -> None:
        super().__init__(implementation=impl, **{f"storage.{key}": value for key, value in storage.items()})
        self.client = client

    scan = load_namespace = load_table = child_namespaces = child_tables = _not_in_interface
    insert_namespace = remove_namespace = insert_table = remove_table = _not_in_interface


def connect(impl: str, config: Mapping[str, str]) -> Callable[[], OthersNamespace]:
    """Return a function that connects to an implementation by its class path.

    Raises:
        ConfigError: it cannot be imported, or it rejects the configuration.
    """
    storage = {
        key.removeprefix("storage."): value for key, value in config.items() if key.partition(".")[0] == "storage"
    }
    secrets = [value for key, value in config.items() if is_sensitive(key, value)]

    def make() -> OthersNamespace:
        try:
            return OthersNamespace(impl, lance_namespace.connect(impl, dict(config)), storage)
        except ValueError as error:
            raise ConfigError(scrub(f"{impl}: {error}; check `--impl` and `--config`", secrets)) from None

    return make
