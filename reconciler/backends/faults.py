"""The errors of a backend in the user's words."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from reconciler.model.errors import BackendError, CatalogError, ErrorCode
from reconciler.model.redaction import scrub

_SENSELESS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, UnicodeError)
"""What an answer of another shape than its specification's raises where nobody thought of that shape."""


@contextmanager
def catalog_errors(name: str, impl: str, secrets: Collection[str] = ()) -> Iterator[None]:
    """Turn an error of a backend into one that names the catalog and holds no secret.

    Raises:
        CatalogError: for every ``BackendError`` raised inside, and for what an answer without sense leads to.
    """
    try:
        yield
    except BackendError as error:
        message = scrub(str(error), secrets).removeprefix(f"{impl}: ")
        raise CatalogError(f"{name} ({impl}): {message}", error.code) from error
    except _SENSELESS as error:
        raise CatalogError(
            f"{name} ({impl}): an answer of the service cannot be understood ({type(error).__name__}); "
            "run with --debug to see which, and report it if the service is what `impl` says",
            ErrorCode.INTERNAL,
        ) from error
