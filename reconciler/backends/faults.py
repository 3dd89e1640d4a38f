"""The errors of a backend in the user's words."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from reconciler.errors import BackendError, CatalogError
from reconciler.redaction import scrub

__all__ = ["catalog_errors"]


@contextmanager
def catalog_errors(name: str, impl: str, secrets: Collection[str] = ()) -> Iterator[None]:
    """Turn an error of a backend into one that names the catalog and holds no secret.

    Raises:
        CatalogError: for every ``BackendError`` raised inside.
    """
    try:
        yield
    except BackendError as error:
        message = scrub(str(error), secrets).removeprefix(f"{impl}: ")
        raise CatalogError(f"{name} ({impl}): {message}", error.code) from error
