"""What `--metrics` and `--journal URI` cost an apply: `python -m benchmarks.evidence [ROUNDS]`.

Whole processes that declare TABLES tables, in turns: with neither, with `--metrics FILE`, and with the journal in S3
(moto, in another process than the one that is measured) in place of the local file. Ratios are of CPU seconds, user and
system, pair by pair, since other work on the machine does not change them much; seconds are shown beside them. Unprobed
declares on Glue (`probe: false`) open no dataset.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.declares import write_manifest
from benchmarks.page import Goal, ProcessUsage, Section, run_measured, spread, table

TABLES = 1_000
ROUNDS = 3
MOST = 1.1
PLAIN, METRICS, JOURNAL = "neither", "`--metrics`", "`--journal s3://…`"
UNPROBED = "Glue, `probe: false`"


def usage_by_option(folder: Path, server: Any, environment: dict[str, str], number: int) -> dict[str, ProcessUsage]:
    """Apply with each option to a new directory or an empty Glue; return the usage."""
    from tests.servers.s3 import BUCKET

    options = {
        PLAIN: ["--journal", "journal"],
        METRICS: ["--journal", "journal", "--metrics", "run.prom"],
        JOURNAL: ["--journal", f"s3://{BUCKET}/{folder.name}/{number}"],
    }
    found: dict[str, ProcessUsage] = {}
    for name, more in options.items():
        here = folder / f"{number}-{len(found)}"
        here.mkdir()
        if server is None:
            manifest = write_manifest(here, "dir", {"root": "./lake"}, lambda _: "{properties: {tier: gold}}", TABLES)
        else:
            server.clear()
            place = f"{{{{location: 's3://{BUCKET}/{folder.name}/{number}/t{{}}.lance', probe: false}}}}"
            manifest = write_manifest(here, "glue", server.config(), place.format, TABLES)
        command = [sys.executable, "-c", "from reconciler.cli import main; main()", "apply", str(manifest)]
        found[name] = run_measured([*command, "--auto-approve", *more], environment, here)
    return found


def section(rounds: int = ROUNDS) -> Section:
    """Measure and return the section of the page."""
    from tests.servers.glue import glue_server
    from tests.servers.s3 import KEY, SECRET, TOKEN, guarded_s3

    lines, goals = [], []
    with (
        tempfile.TemporaryDirectory(prefix="lancens-bench-") as name,
        glue_server(Path(name)) as glue,
        guarded_s3() as store,
    ):
        session = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": TOKEN}
        where = {"AWS_ENDPOINT": store.endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
        environment = {**os.environ, **session, **where}
        for at, (catalog, server) in enumerate((("directory", None), (UNPROBED, glue))):
            folder = Path(name) / str(at)
            folder.mkdir()
            found = [usage_by_option(folder, server, environment, number) for number in range(rounds + 1)][1:]
            plain = [one[PLAIN] for one in found]
            lines.append([f"{catalog}, {PLAIN}", "", *_usage_cells(plain)])
            for option in (METRICS, JOURNAL):
                ratios = [one[option].cpu / one[PLAIN].cpu for one in found]
                lines.append([f"{catalog}, {option}", spread(ratios), *_usage_cells([one[option] for one in found])])
                what = f"{catalog}: apply of {TABLES:,} tables with {option}, against {PLAIN}"
                more = median(one[option].cpu - one[PLAIN].cpu for one in found)
                why = f"{more:.2f} s of CPU more"
                goals.append(Goal(what, median(ratios), MOST, why))
    about = (__doc__ or "").partition("\n\n")[2].strip().replace("TABLES", f"{TABLES:,}")
    text = f"{about}\n\n{table(['apply', 'ratio', 'CPU s', 's'], lines)}"
    return Section("Metrics and journals", "python -m benchmarks.evidence", text, goals)


def _usage_cells(found: list[ProcessUsage]) -> tuple[str, str]:
    return spread(one.cpu for one in found), spread(one.seconds for one in found)


if __name__ == "__main__":
    print(section(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS).text)
