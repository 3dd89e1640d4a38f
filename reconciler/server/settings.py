"""What a server is told when it is started."""

from __future__ import annotations

from dataclasses import dataclass, field

from reconciler.server.tokens import Tokens

__all__ = ["Settings"]

MIB = 1024 * 1024
MOST_REQUESTS = 2048
"""How many requests are taken at once, each on a connection of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How requests are admitted.

    ``max_body_bytes``: the longest body; ``timeout_seconds``: how long a request may take from its first byte to the
    catalog's answer; ``workers``: how many requests work on catalogs at once, the others wait for their turn;
    ``ready_seconds``: for how long an answer about readiness holds, so that nobody asks the catalogs in a loop;
    ``hosts``: the names this server goes by, None for any; ``head_seconds``, ``idle_seconds``: how long a connection
    may take over the head of a request, and stay without one; ``max_requests``: how many there are at once, the others
    are told to come again.
    """

    tokens: Tokens = field(default_factory=Tokens)
    max_body_bytes: int = 16 * MIB
    timeout_seconds: float = 60.0
    workers: int = 32
    ready_seconds: float = 5.0
    head_seconds: float = 10.0
    idle_seconds: float = 30.0
    max_requests: int = MOST_REQUESTS
    hosts: frozenset[str] | None = None
