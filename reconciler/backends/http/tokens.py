"""Where the bearer token of a request comes from."""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from datetime import UTC, datetime


def end_of(token: str) -> datetime | None:
    """Return when a token ends that says so itself, as a JSON Web Token does (RFC 7519, section 4.1.4)."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
        return None


class TokenSource(ABC):
    """Gives the token to send, and another one when the service refuses it. Safe to use from several threads."""

    @abstractmethod
    def token(self) -> str | None:
        """Return the token to send now; None to send none.

        Raises:
            BackendError: one is needed and none could be got.
        """

    def renew(self, rejected: str | None) -> bool:
        """Get another token in the place of ``rejected``, which was just answered with 401, where there can be one.

        Called at most once a request. Returns whether :meth:`token` now gives one worth trying; a thread that finds
        ``rejected`` already replaced returns True at once.
        """
        del rejected
        return False

    def close(self) -> None:  # noqa: B027 - most have none
        """Close the connections that tokens are got over."""


class StaticToken(TokenSource):
    """The token of a configuration: the same for ever."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def token(self) -> str | None:
        """Return the configured token."""
        return self._token
