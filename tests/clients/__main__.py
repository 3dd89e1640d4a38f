"""``python -m tests.clients``: try every client on every catalog, and write the tables of ``docs/clients.md``.

Nothing is written, and the end is 1, where something is not as ``trials.py`` says.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.clients.catalogs import CATALOGS, running_catalog
from tests.clients.page import PAGE, with_tables
from tests.clients.spark import spark_session
from tests.clients.trials import CLIENTS, Trial, outcome, serving, tried
from tests.clients.walk import Result


def _results(scratch: Path) -> dict[Trial, list[Result]]:
    results = {}
    with spark_session(scratch) as spark:
        for name in CATALOGS:
            directory = scratch / name.replace(" ", "-")
            directory.mkdir()
            with running_catalog(name, directory) as catalog, serving(catalog, directory) as url:
                for client in CLIENTS:
                    trial = Trial(name, client)
                    print(trial, file=sys.stderr)
                    results[trial] = tried(trial, catalog, url, spark)
    return results


def _main() -> int:
    with tempfile.TemporaryDirectory(prefix="lancens-clients-") as scratch:
        results = _results(Path(scratch))
    wrong = [f"{trial}: {fault}" for trial, found in results.items() for fault in outcome(trial, found)]
    for fault in wrong:
        print(fault, file=sys.stderr)
    if not wrong:
        PAGE.write_text(with_tables(PAGE.read_text("utf-8"), results), "utf-8")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(_main())
