"""Who may come in: tokens in the memory of the server, and in files that are read again when they change."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path

from reconciler.model.errors import ConfigError
from reconciler.server.logs import logger

_SHORTEST = 16


class Access(Enum):
    """What a request may do."""

    NONE = 0
    READ = 1
    WRITE = 2


class TokenFile:
    """A token that is kept in a file, so that it can be replaced while the server runs.

    Raises:
        ConfigError: there is no such file, or it holds no token; the message holds nothing of what it does.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        try:
            self._version: tuple[int, ...] | None = self._look()
            self._digest: bytes | None = _digest(_token_in(self._path))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror or error}") from None

    def digest(self) -> bytes | None:
        """Return the digest of the token that is in the file now; None while it holds none, so that nobody has it."""
        try:
            version = self._look()
        except OSError:
            version = None
        if version != self._version:
            self._version, self._digest = version, self._read()
        return self._digest

    def _look(self) -> tuple[int, ...]:
        status = self._path.stat()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def _read(self) -> bytes | None:
        try:
            digest = _digest(_token_in(self._path))
        except (ConfigError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            logger.warning("a token is no longer let in", extra={"fields": {"file": str(self._path), "why": reason}})
            return None
        logger.info("a token was replaced", extra={"fields": {"file": str(self._path)}})
        return digest


class Tokens:
    """The tokens of a server; it keeps their digests only. Without any, everyone may do everything."""

    def __init__(
        self, *, read_only: Iterable[str | TokenFile] = (), read_write: Iterable[str | TokenFile] = ()
    ) -> None:
        self._known: list[tuple[bytes | TokenFile, Access]] = [
            (token if isinstance(token, TokenFile) else _digest(token), access)
            for tokens, access in ((read_write, Access.WRITE), (read_only, Access.READ))
            for token in tokens
        ]

    def __bool__(self) -> bool:
        return bool(self._known)

    def access(self, headers: Mapping[str, str]) -> Access:
        """Return what a request with ``headers`` may do, in a time that does not tell how near its token was.

        The token is a bearer token in ``authorization`` or, where there is no such header, in ``x-api-key`` (Lance REST
        specification, "BearerAuth" and "ApiKeyAuth").
        """
        if not self._known:
            return Access.WRITE
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if "authorization" not in headers:
            scheme, token = "bearer", headers.get("x-api-key", "")
        given = _digest(token.strip())
        digests = ((one.digest() if isinstance(one, TokenFile) else one, access) for one, access in self._known)
        allowed = [access for digest, access in digests if hmac.compare_digest(digest or b"", given)]
        return allowed[0] if allowed and scheme.lower() == "bearer" else Access.NONE


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _token_in(path: Path) -> str:
    """Return the token in a file, which is never part of a message."""
    try:
        token = path.read_text("utf-8").strip()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} holds no token: it is not text") from None
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{path} holds no token: expected one word of {_SHORTEST} or more ASCII characters")
    return token
