"""Where the bearer token of a request comes from."""

from __future__ import annotations

from typing import Protocol

__all__ = ["StaticToken", "TokenSource"]


class TokenSource(Protocol):
    """Gives the token to send, and another one when the service refuses it. Safe to use from several threads."""

    def token(self) -> str | None:
        """Return the token to send now; None to send none.

        Raises:
            BackendError: one is needed and none could be got.
        """
        ...

    def renew(self, rejected: str | None) -> bool:
        """Get another token in the place of ``rejected``, which was just answered with 401.

        Called at most once a request. Returns whether :meth:`token` now gives one worth trying; a thread that finds
        ``rejected`` already replaced returns True at once.
        """
        ...


class StaticToken:
    """The token of a configuration: the same for ever."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def token(self) -> str | None:
        """Return the configured token."""
        return self._token

    def renew(self, rejected: str | None) -> bool:
        """Return False: there is no other token."""
        del rejected
        return False
