"""How the cost of a plan grows with the number of tables: `python -m benchmarks.scale [TABLES ...]`.

For each size a manifest is written and a directory catalog is filled with as many tables, of which one in a hundred
differs (at most 1,000). Each size runs in a process of its own, which loads the manifest, scans the catalog, diffs and
renders, and reports the seconds of each and the peak memory of the process up to there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from benchmarks.page import Goal, Section, table

SIZES = (1_000, 10_000, 100_000, 1_000_000)
TABLES_A_NAMESPACE = 1_000
NAMESPACES_A_FILE = 100
STAGES = ("load", "scan", "diff", "render")

MOST_KB = 1.2

ResultT = TypeVar("ResultT")


def changed_tables(tables: int) -> int:
    return min(1_000, tables // 100)


def write_manifest(folder: Path, tables: int) -> Path:
    """Write a manifest of ``tables`` tables in several files; return the main one."""
    namespaces = -(-tables // TABLES_A_NAMESPACE)
    (folder / "teams").mkdir()
    for first in range(0, namespaces, NAMESPACES_A_FILE):
        lines = ["catalogs:", "  lake:", "    namespaces:"]
        for namespace in range(first, min(first + NAMESPACES_A_FILE, namespaces)):
            lines += [f"      ns{namespace:04}:", "        tables:"]
            start = namespace * TABLES_A_NAMESPACE
            lines += [
                f"          t{number}: {{properties: {{tier: gold}}}}"
                for number in range(start, min(start + TABLES_A_NAMESPACE, tables))
            ]
        (folder / "teams" / f"{first:05}.yaml").write_text("\n".join(lines) + "\n")
    main = folder / "lancens.yaml"
    head = "version: 1\nname: bench\ninclude: [teams/*.yaml]\n"
    main.write_text(f"{head}catalogs:\n  lake:\n    impl: dir\n    config: {{root: ./lake}}\n")
    return main


def fill_catalog(root: Path, tables: int, different: int, *, owned: bool = True) -> None:
    """Write entries that the manifest owns, or nobody; the first ``different`` differ from it."""
    import lance
    import lance_namespace
    import pyarrow as pa

    lance_namespace.connect("dir", {"root": str(root)}).create_namespace(
        lance_namespace.CreateNamespaceRequest(id=["seed"])
    )
    catalog = lance.dataset(str(root / "__manifest"))
    marks = {"lancens.managed-by": "bench/lake", "lancens.keys": '["tier"]'} if owned else {}
    metadata = [json.dumps({**marks, "tier": tier}) for tier in ("gold", "silver")]
    namespaces = [f"ns{number:04}" for number in range(-(-tables // TABLES_A_NAMESPACE))]
    numbers = range(tables)
    rows = {
        "object_id": [*namespaces, *(f"ns{number // TABLES_A_NAMESPACE:04}$t{number}" for number in numbers)],
        "object_type": ["namespace"] * len(namespaces) + ["table"] * tables,
        "location": [None] * len(namespaces) + [f"data/{number}.lance" for number in numbers],
        "metadata": [None] * len(namespaces) + [metadata[number < different] for number in numbers],
        "base_objects": [None] * (len(namespaces) + tables),
    }
    lance.write_dataset(pa.table(rows, schema=catalog.schema), catalog.uri, mode="append")


def peak_mib() -> int:
    """Return the peak memory of this process; ``ru_maxrss`` includes its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def timed_stage(report: dict[str, Any], stage: str, work: Callable[[], ResultT]) -> ResultT:
    started = perf_counter()
    result = work()
    report[stage] = perf_counter() - started
    report[f"{stage} MiB"] = peak_mib()
    return result


def measure_stages(manifest_path: str) -> dict[str, Any]:
    """Run every stage of a plan; return its seconds and peak memory."""
    from reconciler import load
    from reconciler.backends.registry import connect
    from reconciler.output import render
    from reconciler.planner.catalog import plan_catalog
    from reconciler.planner.facts import Answers, CatalogInput
    from reconciler.planner.plan import ManifestRef, Plan
    from reconciler.planner.planning import Planning

    report: dict[str, Any] = {}
    manifest = timed_stage(report, "load", lambda: load(manifest_path))
    # As in a plan: not imported before they are needed, and no part of what is measured.
    import deepdiff  # noqa: F401
    import lance  # noqa: F401

    catalog = manifest.catalogs["lake"]
    backend = connect("dir", catalog.resolve_config().properties)
    live = timed_stage(report, "scan", backend.scan)
    source = CatalogInput(catalog.desired, live, backend.capabilities(), "dir")
    reference = ManifestRef(name=manifest.name, digest=manifest.digest, files=manifest.files)

    def diff() -> Plan:
        planning = Planning()
        planning.add(source, plan_catalog(source, Answers()))
        return planning.plan(reference, manifest.thresholds)

    plan = timed_stage(report, "diff", diff)
    timed_stage(report, "render", lambda: [render(plan, form) for form in ("text", "markdown", "json", "html")])
    report["changes"] = len(plan.changes)
    return report


def import_mib() -> int:
    """Return the peak memory of a process that only imports what a plan imports."""
    code = "import deepdiff, lance, reconciler.planner, reconciler.output; from benchmarks.scale import peak_mib"
    command = [sys.executable, "-c", f"{code}; print(peak_mib())"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def run(manifest: Path) -> dict[str, Any]:
    """Measure all stages in a new process."""
    command = [sys.executable, "-m", "benchmarks.scale", "--one", str(manifest)]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    report["whole"] = sum(report[stage] for stage in STAGES)
    return report


def section(sizes: tuple[int, ...] = SIZES) -> Section:
    """Measure all sizes and return the section of the page."""
    rows, goals = [], []
    imports = import_mib()
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
            manifest = write_manifest(Path(name), size)
            fill_catalog(Path(name) / "lake", size, changed_tables(size))
            report = run(manifest)
        seconds = [f"{report[stage]:.2f}" for stage in (*STAGES, "whole")]
        each = (report["diff MiB"] - imports) * 1024 / size
        rows.append([f"{size:,}", f"{report['changes']:,}", *seconds, f"{report['diff MiB']:,}", f"{each:.2f}"])
        if size == max(sizes):
            peaks = ", ".join(f"{report[f'{stage} MiB']:,} MiB after {stage}" for stage in STAGES)
            goals.append(Goal(f"KiB a table above the imports, of {size:,} tables", each, MOST_KB, peaks))
    head = ["tables", "changes", "load s", "scan s", "diff s", "render s", "together s", "peak MiB", "KiB a table"]
    about = (__doc__ or "").partition("\n\n")[2].strip()
    return Section("Planning a large directory", "python -m benchmarks.scale", f"{about}\n\n{table(head, rows)}", goals)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["--one"]:
        print(json.dumps(measure_stages(arguments[1])))
    else:
        print(section(tuple(int(argument.replace(",", "")) for argument in arguments) or SIZES).text)
