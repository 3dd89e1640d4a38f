"""How the cost of a plan grows with the number of tables: `python -m benchmarks.scale [TABLES ...]`.

For each size a manifest is written and a directory catalog is filled with as many tables, of which one in a hundred
differs (at most 1,000). Each size runs in a process of its own, which loads the manifest, scans the catalog, diffs and
renders, and reports the seconds of each and the peak memory of the process up to there.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

SIZES = (1_000, 10_000, 100_000, 1_000_000)
TABLES_A_NAMESPACE = 1_000
NAMESPACES_A_FILE = 100

ResultT = TypeVar("ResultT")


def changes_among(tables: int) -> int:
    return min(1_000, tables // 100)


def write_manifest(folder: Path, tables: int) -> Path:
    """Write a manifest of ``tables`` tables, in several files as a company would."""
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


def fill_catalog(root: Path, tables: int, different: int) -> None:
    """Write the entries of ``tables`` tables that the manifest owns in one go; the first ``different`` differ."""
    import lance
    import lance_namespace
    import pyarrow as pa

    lance_namespace.connect("dir", {"root": str(root)}).create_namespace(
        lance_namespace.CreateNamespaceRequest(id=["seed"])
    )
    catalog = lance.dataset(str(root / "__manifest"))
    marks = {"lancens.managed-by": "bench/lake", "lancens.keys": '["tier"]'}
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


def measured(report: dict[str, Any], stage: str, work: Callable[[], ResultT]) -> ResultT:
    started = perf_counter()
    result = work()
    report[stage] = perf_counter() - started
    report[f"{stage} MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return result


def run_one(manifest_path: str) -> dict[str, Any]:
    """Measure every stage on the manifest at ``manifest_path``."""
    import deepdiff  # noqa: F401 - its import is not the diff's cost
    import lance  # noqa: F401

    from reconciler import load
    from reconciler.backends.registry import connect
    from reconciler.output import render
    from reconciler.planner import make_plan
    from reconciler.planner.facts import CatalogInput
    from reconciler.planner.plan import ManifestRef

    report: dict[str, Any] = {}
    manifest = measured(report, "load", lambda: load(manifest_path))
    catalog = manifest.catalogs["lake"]
    backend = connect("dir", catalog.resolve_config().properties)
    live = measured(report, "scan", backend.scan)
    source = CatalogInput(catalog.desired, live, backend.capabilities, "dir")
    reference = ManifestRef(name=manifest.name, digest=manifest.digest, files=manifest.files)
    plan = measured(report, "diff", lambda: make_plan(reference, manifest.thresholds, [source]))
    measured(report, "render", lambda: [render(plan, form) for form in ("text", "markdown", "json", "html")])
    report["changes"] = len(plan.changes)
    return report


def main(sizes: tuple[int, ...]) -> None:
    print("| tables | changes | load s | scan s | diff s | diff us/table | render s | peak MiB |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
            manifest = write_manifest(Path(name), size)
            fill_catalog(Path(name) / "lake", size, changes_among(size))
            command = [sys.executable, "-m", "benchmarks.scale", "--one", str(manifest)]
            report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        seconds = [f"{report[stage]:.2f}" for stage in ("load", "scan", "diff")]
        each = f"{report['diff'] / size * 1e6:.1f}"
        cells = [f"{size:,}", f"{report['changes']:,}", *seconds, each, f"{report['render']:.2f}"]
        print(f"| {' | '.join(cells)} | {report['render MiB']:,} |", flush=True)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["--one"]:
        print(json.dumps(run_one(arguments[1])))
    else:
        main(tuple(int(argument.replace(",", "").replace("_", "")) for argument in arguments) or SIZES)
