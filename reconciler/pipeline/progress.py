"""Show progress on stderr: one line for each stage, with a bar on a terminal.

Spark's own pages show the name of the stage, too.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING

import click

from reconciler.model import display

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from rich.console import RenderableType
    from rich.progress import Progress


_REFRESHES_A_SECOND = 5
_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")

Tasks = tuple[int, int]
"""The number of tasks that are done, and of all tasks that Spark knows yet."""


def is_quiet() -> bool:
    """Return whether ``--quiet`` was given: only errors and the last line are printed."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().params.get("quiet"))


@contextmanager
def stage(spark: SparkSession | None, name: str) -> Iterator[Callable[[str], None]]:
    """Show ``name`` and the progress of Spark's tasks while the block runs.

    One line stays on stderr when the block has ended; none when it fails, since the error says enough. It ends
    with the results that the block passed to the yielded function, such as ``1,204 tables``.
    """
    results: list[str] = []
    started = monotonic()
    with ExitStack() as stack:
        tasks = stack.enter_context(_tracked_jobs(_context_of(spark), name))
        if sys.stderr.isatty() and not is_quiet() and os.environ.get("TERM") != "dumb":
            stack.enter_context(_progress_line(name, tasks))
        yield results.append
    notes = f": {', '.join(results)}" if results else ""
    if not is_quiet():
        click.echo(display.message(f"{name}{notes}  {monotonic() - started:.1f} s"), err=True)


def _context_of(spark: SparkSession | None) -> SparkContext | None:
    """Return the context that tracks tasks; a client of Spark Connect has none."""
    if spark is None:
        return None
    from pyspark.errors import PySparkException

    try:
        return spark.sparkContext
    except PySparkException:
        return None


@contextmanager
def _tracked_jobs(context: SparkContext | None, name: str) -> Iterator[Callable[[], Tasks]]:
    """Name the jobs of the block, and yield a function that counts their tasks."""
    if context is None:
        yield lambda: (0, 0)
        return
    from py4j.protocol import Py4JError

    group = f"lancens-{uuid.uuid4().hex}"
    before = {key: context.getLocalProperty(key) for key in _PROPERTIES}
    context.setJobGroup(group, name)
    tracker = context.statusTracker()

    def count() -> Tasks:
        counts: list[Tasks] = []
        with suppress(Py4JError, OSError):  # the JVM has ended; the block reports that
            jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
            stages = filter(None, map(tracker.getStageInfo, {number for job in jobs for number in job.stageIds}))
            counts += [(info.numCompletedTasks, info.numTasks) for info in stages]
        return sum(done for done, _ in counts), sum(total for _, total in counts)

    try:
        yield count
    finally:
        for key, value in before.items():
            context.setLocalProperty(key, value)  # type: ignore[arg-type] # None removes it


def _progress_line(name: str, tasks: Callable[[], Tasks]) -> Progress:
    """Return the terminal line of a stage, which counts ``tasks`` at every refresh."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TimeElapsedColumn

    class _Line(Progress):
        def get_renderables(self) -> Iterable[RenderableType]:
            done, total = tasks()
            for task in self.tasks:
                self.update(task.id, completed=done, total=total or None)
            return super().get_renderables()

    columns = (SpinnerColumn(), "{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    line = _Line(*columns, console=Console(stderr=True), transient=True, refresh_per_second=_REFRESHES_A_SECOND)
    line.add_task(escape(name), total=None)
    return line
