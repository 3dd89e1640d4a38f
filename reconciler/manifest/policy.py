"""What a manifest may read beside itself, and where what it reads may be sent.

A manifest names environment variables, files and addresses. Who runs it decides how far that goes: the person at a
command line, or a workflow that plans what somebody else proposed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePath

from reconciler.model.hosts import is_admitted


@dataclass(frozen=True, slots=True)
class Policy:
    """What one run of a manifest allows.

    Args:
        schemes: the placeholders that are looked up: ``env``, ``file`` and ``var``. What another one stands for stays
            unknown: nothing is read, and what depends on it is not checked.
        environment: the environment variables that may be read; None for all.
        outside: whether files and includes may lie outside of the folders of the manifest's paths.
        hosts: the only hosts that a catalog's configuration may name, ``.example.com`` for all below one; None for any.
    """

    schemes: Collection[str] = ("env", "file", "var")
    environment: Collection[str] | None = None
    outside: bool = False
    hosts: Collection[str] | None = None

    def admits(self, host: str) -> bool:
        """Return whether a configuration may name ``host``."""
        return is_admitted(host, self.hosts)

    def may_read(self, path: str, folders: Collection[str]) -> bool:
        """Return whether the file at ``path`` may be read by a manifest in ``folders``; there are no links in them."""
        return self.outside or any(PurePath(path).is_relative_to(folder) for folder in folders)


OPEN = Policy()
"""What a person at a command line allows: every variable, files beneath the manifest's folders, any host."""

CHECKING = Policy(schemes=("var",))
"""What checking a manifest needs: nothing of the environment, and no file but its own."""

UNTRUSTED = Policy(schemes=())
"""What somebody else's manifest gets: nothing at all."""
