"""A target in this process whose writes are in a ledger, and that can be as it was at any time."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import Any

from tests.torture.targets.base import Target
from tests.unit.applier.world import Ledger

__all__ = ["Recorded"]


class Recorded(Target):
    """What a run with crashes needs."""

    ledger: Ledger

    @property
    @abstractmethod
    def moment(self) -> Any:
        """All that the catalogs and their storage hold."""

    @abstractmethod
    def go_back(self, moment: Any) -> None:
        """Let the catalogs and their storage hold what they held at one time."""

    @abstractmethod
    def installed(self) -> AbstractContextManager[None]:
        """Within this, what lancens writes is in the ledger."""
