"""Share connections to object stores between reads: pylance takes milliseconds to set one up."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

_MAX_CONNECTIONS = 16
_LIFETIME_SECONDS = 60
"""How long a connection is reused; then credentials and endpoints are looked up again."""

_CACHED_BYTES = 16 * 1024 * 1024


class StoreConnection:
    """A connection to the bucket or container ``root``."""

    def __init__(self, root: str, options: Mapping[str, str]) -> None:
        self._root, self._options = root, dict(options) or None
        # Without caches, nothing of a dataset outlives it: a dataset that replaces it has other files.
        self._session = _session(0)
        self._first_dataset: Any = None
        """The session has the connection for as long as one of its datasets lives."""

    def open(self, uri: str) -> Any:
        """Open a dataset of the bucket; errors stay pylance's own."""
        import lance

        dataset = lance.dataset(uri, storage_options=self._options, session=self._session)
        if self._first_dataset is None:
            self._first_dataset = dataset
        return dataset

    @property
    def is_shared(self) -> bool:
        """Whether a dataset has been opened, so that the next one is opened over the same connection."""
        return self._first_dataset is not None

    @cached_property
    def files(self) -> Any:
        """pylance's access to the files of the bucket."""
        from lance.file import LanceFileSession

        return LanceFileSession(self._root, storage_options=self._options)


class VersionCache:
    """Remembers the versions of datasets that are opened again and again, by their entity tags.

    It also keeps the connection to their store, for as long as one of them lives.
    """

    def __init__(self) -> None:
        self._session: Any = None
        self._expires = 0.0

    @property
    def session(self) -> Any:
        """pylance's session, a new one every minute."""
        if time.monotonic() >= self._expires:
            self._session, self._expires = _session(_CACHED_BYTES), time.monotonic() + _LIFETIME_SECONDS
        return self._session


def _session(cached_bytes: int) -> Any:
    import lance

    return lance.Session(index_cache_size_bytes=0, metadata_cache_size_bytes=cached_bytes)  # type: ignore[attr-defined]


def connection_to(root: str, options: Mapping[str, str]) -> StoreConnection:
    """Return the connection to a bucket for these storage options and the present environment."""
    period = int(time.monotonic() // _LIFETIME_SECONDS)
    return _connection(root, frozenset(options.items()), frozenset(os.environ.items()), period)


@lru_cache(maxsize=_MAX_CONNECTIONS)
def _connection(
    root: str, options: frozenset[tuple[str, str]], _environment: frozenset[tuple[str, str]], _period: int
) -> StoreConnection:
    return StoreConnection(root, dict(options))
