"""The files of certificates that a connection to one service uses."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from reconciler.model.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths of PEM files. ``authority`` is trusted in the place of the environment's and the system's."""

    authority: str | None = None
    own: str | None = None
    """What the client shows, with its key unless that is in ``key``."""
    key: str | None = None

    @property
    def shown(self) -> str | tuple[str, str] | None:
        """What the client shows, as requests takes it."""
        return self.own if self.own is None or self.key is None else (self.own, self.key)

    def require_readable(self, impl: str, authority_key: str, own_keys: str) -> None:
        """Return when the files hold certificates and the key that goes with ours.

        Args:
            impl: what errors begin with.
            authority_key: the key of the configuration that names ``authority``.
            own_keys: those that name ``own`` and ``key``.

        Raises:
            InvalidInputError: naming the keys and the files.
        """
        context = ssl.create_default_context()
        if self.authority is not None:
            with _told(f"{impl}: {authority_key}: no certificates can be read from {self.authority}"):
                context.load_verify_locations(self.authority)
        if self.own is not None:
            files = self.own if self.key is None else f"{self.own} and {self.key}"
            with _told(f"{impl}: {own_keys}: no certificate with its key can be read from {files}"):
                context.load_cert_chain(self.own, self.key, password="")  # asks nobody for a password


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # those of ssl are among them
        raise InvalidInputError(f"{what}: {error.strerror or error}") from None
