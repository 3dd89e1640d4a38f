"""Remember the addresses that plans and lists of a folder printed, for completion."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from reconciler.model.errors import LancensError
from reconciler.model.files import write_file

_MOST_REMEMBERED = 10_000


def remember_addresses(addresses: Iterable[str]) -> None:
    """Keep ``addresses`` of objects in the current folder's catalogs, the latest first.

    Only a terminal completes them, so that a job leaves no file.
    """
    if not is_interactive():
        return
    kept = islice(dict.fromkeys(chain(islice(addresses, _MOST_REMEMBERED), remembered_addresses())), _MOST_REMEMBERED)
    with suppress(OSError, LancensError, RuntimeError):  # no home, or a read-only one
        path = _path()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(str(path), "\n".join(kept).encode(), private=True)


def is_interactive() -> bool:
    """Return whether a person at a terminal may complete addresses."""
    return sys.stdout.isatty()


def remembered_addresses() -> list[str]:
    """Return the addresses that the latest plans and lists in the current folder printed."""
    with suppress(OSError, RuntimeError, UnicodeDecodeError):
        return _path().read_text("utf-8").split("\n")
    return []


def _path() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "lancens", hashlib.sha256(os.fsencode(Path.cwd())).hexdigest()[:16])
