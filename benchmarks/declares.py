"""Applying many declares: `python -m benchmarks.declares`.

On a directory beside the loop that a script would write with pylance's own directory namespace, whole processes; and on
Glue (moto, as the tests run it) beside the bare calls: those that the apply made, sent once more from as many threads.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.page import Goal, ProcessUsage, Section, run_measured, spread, table

SIZES = (1_000, 3_000)
ON_GLUE = 1_000
ROUNDS = 3
MOST_OF_PYLANCE = 0.2
MOST_MIB = 50
MOST_OVER_BARE = 1.2
MOST_CALLS = 1.1
CREATE = ("AWSGlue.CreateTable", b"AWSGlue.CreateTable")  # botocore 1.43 sends text, older ones bytes

PYLANCE = """
import sys
import lance_namespace as lance
lake = lance.connect("dir", {"root": sys.argv[1] + "/lake"})
lake.create_namespace(lance.CreateNamespaceRequest(id=["features"]))
for number in range(int(sys.argv[2])):
    lake.declare_table(lance.DeclareTableRequest(id=["features", f"table_{number}"], properties={"tier": "gold"}))
"""
LANCENS = (
    "import sys; from reconciler.cli import main; main(['apply', sys.argv[1] + '/lancens.yaml', '--auto-approve'])"
)


def write_manifest(folder: Path, impl: str, config: dict[str, str], block: Callable[[int], str], tables: int) -> Path:
    """Write a manifest of ``tables`` tables; ``block`` returns the block of each."""
    blocks = "".join(f"          table_{number}: {block(number)}\n" for number in range(tables))
    path = folder / "lancens.yaml"
    path.write_text(
        f"version: 1\nname: store\ncatalogs:\n  lake:\n    impl: {impl}\n    config: {json.dumps(config)}\n"
        f"    namespaces:\n      features:\n        tables:\n{blocks}"
    )
    return path


def declare_in_directory(tables: int, client: str) -> tuple[ProcessUsage, float]:
    """Declare tables in a new directory; return the usage, and MiB of ``__manifest``."""
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
        write_manifest(Path(name), "dir", {"root": "./lake"}, lambda _: "{properties: {tier: gold}}", tables)
        code = {"lancens": LANCENS, "pylance": PYLANCE}[client]
        used = run_measured([sys.executable, "-c", code, name, str(tables)], directory=Path(name))
        files = (Path(name) / "lake" / "__manifest").rglob("*")
        return used, sum(file.stat().st_size for file in files if file.is_file()) / 2**20


def declare_in_glue(folder: Path, server: Any) -> dict[str, float]:
    """Apply to an empty Glue, then replay its calls; return both times, and the calls."""
    import reconciler
    from benchmarks.peers import IN_FLIGHT, Call, http_sender, record_calls

    server.clear()
    path = write_manifest(
        folder, "glue", server.config(), lambda n: f"{{location: 's3://lake/t{n}.lance', probe: false}}", ON_GLUE
    )
    manifest = reconciler.load(path)
    plan = reconciler.plan(manifest)
    server.reset()
    calls: list[Call] = []
    with record_calls(calls):
        began = perf_counter()
        done = reconciler.apply(plan, manifest, journal=folder / "journal", parallelism=IN_FLIGHT)
        ours = perf_counter() - began
    assert done.ok
    made = server.counts()
    server.clear()
    send = http_sender(server.endpoint)
    creates = [call for call in calls if call[3].get("X-Amz-Target") in CREATE]
    others = [call for call in calls if call[3].get("X-Amz-Target") not in CREATE]
    assert len(creates) == ON_GLUE
    began = perf_counter()
    for call in others:
        send(call)
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        list(pool.map(send, creates))
    return {"lancens": ours, "bare": perf_counter() - began, "calls": made.total()}


def section() -> Section:
    """Measure both and return the section of the page."""
    from tests.servers.glue import glue_server

    lines, ratio, left = [], 0.0, 0.0
    for size in SIZES:
        rounds = ROUNDS if size < SIZES[-1] else 1
        found = [(declare_in_directory(size, "lancens"), declare_in_directory(size, "pylance")) for _ in range(rounds)]
        ours, theirs = ([one[client] for one in found] for client in (0, 1))
        ratio = median(one.seconds for one, _ in ours) / median(one.seconds for one, _ in theirs)
        left = max(size for _, size in ours)
        lines.append(
            [
                f"{size:,}",
                f"{ratio:.2f}",
                spread(one.seconds for one, _ in ours),
                spread(one.seconds for one, _ in theirs),
                f"{left:,.0f}",
                f"{max(size for _, size in theirs):,.0f}",
                spread((one.memory for one, _ in ours), 0),
                spread((one.memory for one, _ in theirs), 0),
            ]
        )
    goals = [
        Goal(f"directory: {SIZES[-1]:,} declares against pylance's own loop", ratio, MOST_OF_PYLANCE),
        Goal(f"directory: MiB of lists of tables that {SIZES[-1]:,} declares leave", left, MOST_MIB),
    ]
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name, glue_server(Path(name)) as server:
        glue = [declare_in_glue(Path(name), server) for _ in range(ROUNDS)]
    seconds = {client: median(one[client] for one in glue) for client in ("lancens", "bare")}
    over, calls = seconds["lancens"] / seconds["bare"], glue[0]["calls"] / ON_GLUE
    why = f"{(seconds['lancens'] - seconds['bare']) / ON_GLUE * 1000:.2f} ms a change: botocore, the journal on disk"
    goals.append(Goal(f"Glue: {ON_GLUE:,} declares against the bare calls", over, MOST_OVER_BARE, why))
    goals.append(Goal("Glue: calls a declare", calls, MOST_CALLS))
    head = ["declares", "lancens / pylance", "lancens s", "pylance s", "leaves MiB", "pylance's MiB"]
    head += ["memory MiB", "pylance's MiB"]
    about = (__doc__ or "").partition("\n\n")[2].strip()
    text = f"{about}\n\n{table(head, lines)}\n\n"
    both = [spread(one[client] for one in glue) for client in ("lancens", "bare")]
    row = [f"{ON_GLUE:,} on Glue", f"{over:.2f}", *both, f"{calls:.3f}"]
    text += table(["declares", "lancens / bare", "lancens s", "bare s", "calls a declare"], [row])
    return Section("Applying many declares", "python -m benchmarks.declares", text, goals)


if __name__ == "__main__":
    print(section().text)
