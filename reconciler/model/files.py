"""Write files atomically."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from reconciler.model.errors import LancensError


def write_file(path: str, data: bytes, *, private: bool = False) -> None:
    """Write ``data`` to the file ``path`` atomically.

    A link stays one, and its target is replaced; a pipe or device is written to. With ``private``, only this user can
    read the file.

    Raises:
        LancensError: it cannot be written.
    """
    unresolved = Path(path)
    target = unresolved.resolve()  # a pipe in /dev/fd resolves to a name that does not exist
    partial = target.with_name(f".{target.name}.partial")
    try:
        if unresolved.exists() and not unresolved.is_file():
            unresolved.write_bytes(data)
            return
        try:
            partial.unlink(missing_ok=True)
            # With O_EXCL, a link that somebody planted at this path is not followed.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            with os.fdopen(os.open(partial, flags, 0o600 if private else 0o666), "wb") as file:
                file.write(data)
            if target.exists() and not private:
                partial.chmod(stat.S_IMODE(target.stat().st_mode))
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise LancensError(f"{path} cannot be written: {error.strerror}") from None
