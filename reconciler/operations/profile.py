"""How long each stage of a run took, and the traffic of its catalogs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.operations.connections import Connection

FORMAT_VERSION = "1.0"


@dataclass(frozen=True, slots=True)
class ProfiledStage:
    """A stage that has ended, of one catalog or of the whole run; ``began`` counts from the run's start."""

    stage: str
    began: float
    seconds: float
    catalog: str | None = None
    impl: str | None = None
    calls: int | None = None
    bytes: int | None = None

    def added_to(self, earlier: ProfiledStage) -> ProfiledStage:
        """Return ``earlier`` with the seconds and traffic of this turn of the same stage added."""
        return replace(
            earlier,
            seconds=round(earlier.seconds + self.seconds, 6),
            calls=None if self.calls is None else (earlier.calls or 0) + self.calls,
            bytes=None if self.bytes is None else (earlier.bytes or 0) + self.bytes,
        )


@dataclass
class Profile:
    """The stages of one run, in the order in which they first ended; what a catalog goes through in turns is one stage.

    Catalogs are read in parallel, so their seconds add up to more than the run took. Each stage is a span of
    OpenTelemetry where the process has that set up.
    """

    _stages: dict[tuple[str, str | None], ProfiledStage] = field(default_factory=dict)
    _began: float = field(default_factory=perf_counter)

    @property
    def stages(self) -> list[ProfiledStage]:
        """All stages."""
        return [*self._stages.values()]

    @property
    def seconds(self) -> float:
        """The time since the run began."""
        return round(perf_counter() - self._began, 6)

    @contextmanager
    def stage(self, name: str, *connections: Connection) -> Iterator[None]:
        """Record the block as a stage of each connection, or of the run if there is none, unless it raises."""
        before = [connection.backend.traffic() for connection in connections]
        began = perf_counter()
        with span(name, {"lancens.catalogs": sorted(connection.spec.name for connection in connections)}):
            yield
        timed = (name, round(began - self._began, 6), round(perf_counter() - began, 6))
        if not connections:
            self._add(ProfiledStage(*timed))
        for connection, earlier in zip(connections, before, strict=True):
            now = connection.backend.traffic()
            sent = [] if earlier is None or now is None else [now.calls - earlier.calls, now.bytes - earlier.bytes]
            self._add(ProfiledStage(*timed, connection.spec.name, connection.spec.impl, *sent))

    def _add(self, stage: ProfiledStage) -> None:
        key = stage.stage, stage.catalog
        self._stages[key] = stage.added_to(self._stages[key]) if key in self._stages else stage

    def to_json(self) -> str:
        """Return a JSON document, without any value, location or address of a catalog."""
        stages = [{key: value for key, value in asdict(stage).items() if value is not None} for stage in self.stages]
        return (
            json.dumps({"format_version": FORMAT_VERSION, "seconds": self.seconds, "stages": stages}, indent=2) + "\n"
        )


@contextmanager
def span(name: str, attributes: Mapping[str, str | list[str]]) -> Iterator[None]:
    """Make the block a span of OpenTelemetry, if the process has loaded that.

    An error's text may hold secrets, so a span has its class alone.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield
        return
    tracer = trace.get_tracer("lancens")
    with tracer.start_as_current_span(
        f"lancens {name}", attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as opened:
        try:
            yield
        except Exception as error:
            opened.set_attribute("error.type", type(error).__name__)
            opened.set_status(trace.StatusCode.ERROR)
            raise
