"""Services that allow few requests a second: `python -m benchmarks throttled`.

A Glue that allows 10 writes a second gets the creates of 200 tables, and an Iceberg REST catalog that allows 20 reads a
second a plan of 400 tables, each at the default parallelism. After a burst of as many, each refuses what is more, and
says no more than that it was too much. The share is of what it allows in the seconds that it took. Every request is
answered in the end, or the part fails: failures are 0.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.page import Goal, Section, about, table
from reconciler.model.concurrency import DEFAULT_PARALLELISM

MOST_UNUSED = 0.15


def section() -> Section:
    """Measure both and return the section of the page."""
    from tests.catalogs.test_throttled import Throttle, plan_tables, write_to_glue

    def plan_iceberg() -> Throttle:
        with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
            return plan_tables(Path(name), "iceberg", DEFAULT_PARALLELISM)

    parts: dict[str, Callable[[], Throttle]] = {
        "Glue, 10 writes a second": lambda: write_to_glue(DEFAULT_PARALLELISM),
        "Iceberg, 20 reads a second": plan_iceberg,
    }
    lines, goals = [], []
    for what, measure in parts.items():
        throttle = measure()
        lines.append([what, f"{throttle.share:.2f}", f"{throttle.accepted:,}", f"{throttle.refused:,}", "0"])
        goals.append(Goal(f"{what}: share of the rate that is not used", 1 - throttle.share, MOST_UNUSED))
    head = ["service", "share of the rate", "accepted", "refused", "failures"]
    return Section("Throttled", "python -m benchmarks throttled", f"{about(__doc__)}\n\n{table(head, lines)}", goals)


if __name__ == "__main__":
    print(section().text)
