"""Where the time of a plan goes: seconds, requests and bytes, by stage and by catalog."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from reconciler.backends import optional
from reconciler.model.live import Traffic

if TYPE_CHECKING:
    from reconciler.operations.connections import Connection


FORMAT_VERSION = "1.0"


@dataclass(slots=True)
class _Stage:
    name: str
    catalog: str | None
    impl: str | None
    began: float
    seconds: float = 0.0
    traffic: Traffic | None = None


@dataclass
class Profile:
    """The stages of one run, each in the order in which it ended. Safe to use from several threads.

    Catalogs are read beside each other, so that their seconds add up to more than the run took.
    """

    _began: float = field(default_factory=perf_counter)
    _stages: list[_Stage] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def stage(self, name: str, connection: Connection | None = None) -> Iterator[None]:
        """Measure what is done inside, for the catalog of ``connection`` where there is one; errors are not kept."""
        before = None if connection is None else optional.traffic(connection.backend)
        spec = None if connection is None else connection.spec
        began = perf_counter()
        stage = _Stage(name, spec.name if spec else None, spec.impl if spec else None, began - self._began)
        yield
        stage.seconds = perf_counter() - began
        after = None if connection is None else optional.traffic(connection.backend)
        if before is not None and after is not None:
            stage.traffic = Traffic(after.calls - before.calls, after.bytes - before.bytes)
        with self._lock:
            self._stages.append(stage)

    def to_json(self) -> str:
        """Return the whole as a JSON document; no value, location or address of a catalog is in it."""
        stages = [
            {
                "stage": stage.name,
                **({"catalog": stage.catalog, "impl": stage.impl} if stage.catalog is not None else {}),
                "began": round(stage.began, 6),
                "seconds": round(stage.seconds, 6),
                **(stage.traffic._asdict() if stage.traffic is not None else {}),
            }
            for stage in self._stages
        ]
        seconds = round(perf_counter() - self._began, 6)
        return json.dumps({"format_version": FORMAT_VERSION, "seconds": seconds, "stages": stages}, indent=2) + "\n"
