"""What a server is told when it is started."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Access", "Settings", "Tokens"]

MIB = 1024 * 1024


class Access(Enum):
    """What a request may do."""

    NONE = 0
    READ = 1
    WRITE = 2


class Tokens:
    """The bearer tokens of a server; it keeps their digests only. Without any, everyone may do everything."""

    def __init__(self, *, read_only: Iterable[str] = (), read_write: Iterable[str] = ()) -> None:
        self._known = [
            *((_digest(token), Access.WRITE) for token in read_write),
            *((_digest(token), Access.READ) for token in read_only),
        ]

    def __bool__(self) -> bool:
        return bool(self._known)

    def access(self, authorization: str | None) -> Access:
        """Return what the value of an Authorization header allows, in a time that does not tell how near it was."""
        if not self._known:
            return Access.WRITE
        scheme, _, token = (authorization or "").partition(" ")
        given = _digest(token.strip())
        allowed = [access for digest, access in self._known if hmac.compare_digest(digest, given)]
        return allowed[0] if allowed and scheme.lower() == "bearer" else Access.NONE


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How requests are admitted.

    ``max_body_bytes``: the longest body; ``timeout_seconds``: how long a request may take from its first byte to the
    catalog's answer; ``workers``: how many requests work on catalogs at once, the others wait for their turn;
    ``ready_seconds``: for how long an answer about readiness holds, so that nobody asks the catalogs in a loop;
    ``hosts``: the names this server goes by, None for any; ``head_seconds``, ``idle_seconds``: how long a connection
    may take over the head of a request, and stay without one.
    """

    tokens: Tokens = field(default_factory=Tokens)
    max_body_bytes: int = 16 * MIB
    timeout_seconds: float = 60.0
    workers: int = 32
    ready_seconds: float = 5.0
    head_seconds: float = 10.0
    idle_seconds: float = 30.0
    hosts: frozenset[str] | None = None
