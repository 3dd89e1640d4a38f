"""Open the dataset at a location once for all catalogs of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeAlias

from reconciler import storage
from reconciler.model.live import Storage

_Key: TypeAlias = tuple[str, frozenset[tuple[str, str]]]


@dataclass(slots=True)
class _Probe:
    lock: Lock = field(default_factory=Lock)
    content: Storage | None = None


@dataclass(frozen=True, slots=True)
class Probes:
    """The content of locations, each opened once with the same storage options.

    ``keeps``: whether contents are kept; those of a single catalog are asked for once.
    """

    keeps: bool = True
    _probes: dict[_Key, _Probe] = field(default_factory=dict)

    def probe(self, location: str, options: Mapping[str, str]) -> Storage:
        """Return what ``location`` holds (``storage.probe``); a second caller waits for the first."""
        if not self.keeps:
            return storage.probe(location, options)
        probe = self._probe_of(location, options)
        with probe.lock:
            if probe.content is None:
                probe.content = storage.probe(location, options)
            elif probe.content.elsewhere:  # each catalog admits other places
                return storage.probe(location, options)
            return probe.content

    def probe_table(
        self, location: str, options: Mapping[str, str], read: Callable[[], storage.TableContent]
    ) -> storage.TableContent:
        """Return what ``read`` returns, which opens ``location`` for more than its content."""
        if not self.keeps:
            return read()
        probe = self._probe_of(location, options)
        with probe.lock:
            table = read()
            probe.content = table.storage
        return table

    def _probe_of(self, location: str, options: Mapping[str, str]) -> _Probe:
        return self._probes.setdefault((location, frozenset(options.items())), _Probe())
