"""What a server is told when it is started."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

from reconciler.server.tokens import Tokens

MIB = 1024 * 1024
_MOST_REQUESTS = 2048
_OWN_FILES = 64
_MOST_FILES = 65_536


def room() -> int:
    """Return how many requests can be taken at once, after raising the limit on open files to what it may be.

    The connection of each request takes one of the files that this process may open.
    """
    with contextlib.suppress(ImportError):  # Windows has no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        if soft != resource.RLIM_INFINITY:
            return max(16, min(_MOST_REQUESTS, soft - _OWN_FILES))
    return _MOST_REQUESTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How requests are admitted.

    ``max_body_bytes``: the longest body; ``timeout_seconds``: how long a request may take from its first byte to the
    catalog's answer; ``workers``: how many requests work on catalogs at once, the others wait for their turn;
    ``ready_seconds``: for how long an answer about readiness holds, so that nobody asks the catalogs in a loop;
    ``hosts``: the names this server goes by, None for any; ``max_requests``: how many there are at once, the others
    are told to come again.
    """

    tokens: Tokens = field(default_factory=Tokens)
    max_body_bytes: int = 16 * MIB
    timeout_seconds: float = 60.0
    workers: int = 32
    ready_seconds: float = 5.0
    max_requests: int = _MOST_REQUESTS
    hosts: frozenset[str] | None = None
