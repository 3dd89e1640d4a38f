"""What parts of a plan cost: `python -m benchmarks planning`.

Each part is measured in a process of its own, in CPU seconds (user and system), ROUNDS times. A change and a catalog
are differences: the plan that has them, less the same plan without. Memory is what the plan holds, from the end of
loading the manifest; the peak is that of the process, with its manifest. Opens are those of datasets by pylance.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any
from unittest.mock import patch

from benchmarks.page import Goal, Section, about, spread, table
from benchmarks.scale import fill_catalog, peak_mib, write_manifest

ROUNDS = 3
CHANGES = 5_000
MANY_CHANGES = 1_000_000
CATALOGS = 50
MIRRORED = 400
COLUMNS, SHARING = 2_000, 500
POLICIES = {"few": (3_000, 10_000), "many": (10_000, 100_000)}


def measure(name: str) -> float:
    """Return the figure of one part, from a process of its own."""
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as folder:
        return PARTS[name](Path(folder))


def _cpu(act: Callable[[], object]) -> float:
    before = process_time()
    act()
    return process_time() - before


def _write(folder: Path, catalogs: Mapping[str, Any]) -> Any:
    """Write and load a manifest."""
    import reconciler

    path = folder / "lancens.yaml"
    path.write_text(json.dumps({"version": 1, "name": "bench", "catalogs": catalogs}))
    return reconciler.load(path)


def _tables(folder: Path, different: int | None) -> Any:
    """Return a manifest of ``CHANGES`` tables; the catalog is empty if ``different`` is None."""
    import deepdiff  # noqa: F401
    import lance  # noqa: F401

    import reconciler

    folder.mkdir(exist_ok=True)
    manifest = write_manifest(folder, CHANGES)
    (folder / "lake").mkdir()
    if different is not None:
        fill_catalog(folder / "lake", CHANGES, different)
    return reconciler.load(manifest)


def _change(folder: Path, different: int | None) -> float:
    """Return the microseconds that a plan takes for each create or update."""
    import reconciler

    without, changed = _tables(folder / "without", 0), _tables(folder / "changed", different)
    reconciler.plan(without)
    seconds = _cpu(lambda: reconciler.plan(changed)) - _cpu(lambda: reconciler.plan(without))
    return seconds / CHANGES * 1e6


def _memory(folder: Path) -> float:
    """Return the KiB that a plan holds for each create."""
    import reconciler

    manifest, without = _tables(folder / "changed", None), _tables(folder / "without", 0)
    reconciler.plan(without)  # which imports what a plan needs
    tracemalloc.start()
    plan = reconciler.plan(manifest)
    return tracemalloc.get_traced_memory()[0] / 1024 / len(plan.changes)


def _peak(folder: Path) -> float:
    """Return the GB of a process, at its peak, that plans ``MANY_CHANGES`` creates."""
    import reconciler

    manifest = write_manifest(folder, MANY_CHANGES)
    (folder / "lake").mkdir()
    assert len(reconciler.plan(reconciler.load(manifest)).changes) > MANY_CHANGES
    return peak_mib() * 2**20 / 1e9


def _collected(folder: Path) -> float:
    """Return the CPU of a plan of updates, as a part of the same without garbage collection."""
    import reconciler

    manifest = _tables(folder, CHANGES)
    reconciler.plan(manifest)
    usual = _cpu(lambda: reconciler.plan(manifest))
    gc.disable()
    return usual / _cpu(lambda: reconciler.plan(manifest))


def _written(folder: Path, *, is_whole: bool) -> float:
    """Return the milliseconds of writing 356 kB of ``plan.json``, or of making its plain values and digest."""
    import reconciler

    plan = reconciler.plan(_tables(folder, 500))
    act = plan.to_json if is_whole else plan.digest
    return min(_cpu(act) for _ in range(5)) / len(plan.to_json()) * 356_000 * 1e3


def _catalog(folder: Path) -> float:
    """Return the milliseconds of a plan for each catalog more."""
    import reconciler

    def seconds(number: int) -> float:
        here = folder / str(number)
        catalogs = {}
        for at in range(number):
            (here / f"lake{at}").mkdir(parents=True)
            catalogs[f"lake{at}"] = {"impl": "dir", "config": {"root": f"./lake{at}"}}
        manifest = _write(here, catalogs)
        return _cpu(lambda: reconciler.plan(manifest))

    first = seconds(1)
    return (seconds(CATALOGS + 2) - min(first, seconds(2))) / CATALOGS * 1e3


def _mirrors(folder: Path) -> float:
    """Return the opens of a plan of three new mirrors, by the tables of each."""
    import lance
    import pyarrow as pa

    import reconciler
    from reconciler.backends.registry import connect

    lance.write_dataset(pa.table({"id": [1]}), str(folder / "one"))
    source = connect("dir", {"root": str(folder / "lake")})
    for at in range(MIRRORED):
        location = folder / f"lake/data/t{at}.lance"
        shutil.copytree(folder / "one", location, copy_function=os.link)
        source.insert_table((f"t{at}",), str(location), {})
    catalogs: dict[str, Any] = {"lake": {"impl": "dir", "config": {"root": "./lake"}}}
    for at in range(3):
        catalogs[f"copy{at}"] = {"impl": "memory", "config": {"name": f"copy{at}"}, "mirror": {"from": "lake"}}
    manifest = _write(folder, catalogs)
    opened: list[str] = []
    genuine = lance.dataset

    def count(uri: Any = None, *args: Any, **options: Any) -> Any:
        opened.append(str(uri))
        return genuine(uri, *args, **options)

    with patch.object(lance, "dataset", count):
        plan = reconciler.plan(manifest)
    assert len(plan.changes) == 3 * MIRRORED, plan.summary()
    return sum("t" in Path(uri).stem and uri.endswith(".lance") for uri in opened) / MIRRORED


def _shared_schema(folder: Path) -> float:
    """Return the CPU of the schema that many tables share, by that of a schema of one table."""
    import reconciler

    columns = "".join(f"    - {{name: c{at}, type: int64}}\n" for at in range(COLUMNS))

    def seconds(tables: int, sharing: int) -> float:
        path = folder / f"{tables}-{sharing}.yaml"
        blocks = "".join(f"      t{at}: {'{schema: wide}' if at < sharing else '{}'}\n" for at in range(tables))
        path.write_text(
            f"version: 1\nname: bench\nschemas:\n  wide:\n{columns}catalogs:\n  lake:\n    impl: dir\n"
            f"    config: {{root: ./lake}}\n    tables:\n{blocks}"
        )
        return _cpu(lambda: reconciler.load(path))

    seconds(1, 1)
    return (seconds(SHARING, SHARING) - seconds(SHARING, 1)) / seconds(1, 1) + 1


def _policies(folder: Path, policies: int, tables: int) -> float:
    """Return the CPU seconds of a plan of policies, less those of the plan of one."""
    import reconciler

    fill_catalog(folder / "lake", tables, 0, owned=False)

    def seconds(names: Iterable[int]) -> float:
        rules = [{"match": f"**/t{at}", "properties": {"tier": "gold"}} for at in names]
        manifest = _write(folder, {"lake": {"impl": "dir", "config": {"root": "./lake"}, "policies": rules}})
        return _cpu(lambda: reconciler.plan(manifest))

    seconds([tables])
    return seconds(range(policies)) - seconds([tables])


PARTS: Mapping[str, Callable[[Path], float]] = {
    "create": lambda folder: _change(folder, None),
    "update": lambda folder: _change(folder, CHANGES),
    "memory": _memory,
    "peak": _peak,
    "collected": _collected,
    "catalog": _catalog,
    "mirrors": _mirrors,
    "schema": _shared_schema,
    "few": lambda folder: _policies(folder, *POLICIES["few"]),
    "many": lambda folder: _policies(folder, *POLICIES["many"]),
    "digested": lambda folder: _written(folder, is_whole=False),
    "encoded": lambda folder: _written(folder, is_whole=True),
}
GOALS: Mapping[str, tuple[str, float | None]] = {
    "create": ("a create in a plan, µs", 90),
    "update": ("an update in a plan, µs", 350),
    "memory": ("a create in a plan, KiB", 2.5),
    "peak": (f"{MANY_CHANGES:,} creates at the peak, GB", 4),
    "collected": ("a plan of updates, against one without garbage collection", 1.05),
    "catalog": ("a catalog more in a plan, ms", 5),
    "mirrors": (f"opens of three mirrors of {MIRRORED} tables, by the tables", 1),
    "schema": (f"a schema of {COLUMNS:,} columns that {SHARING} tables share, against one of one table", 2),
    "few": ("{:,} policies `**/NAME` on {:,} tables, s".format(*POLICIES["few"]), 2),
    "many": ("{:,} policies `**/NAME` on {:,} tables, s".format(*POLICIES["many"]), 60),
    "digested": ("its values, of which pydantic conceals secrets, and its digest, ms", None),
    "encoded": ("356 kB of `plan.json`, ms", 3),
}


def _run(name: str) -> float:
    command = [sys.executable, "-m", "benchmarks.planning", "measure", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr}")
    return float(done.stdout)


def section(rounds: int = ROUNDS, names: Iterable[str] = tuple(PARTS)) -> Section:
    """Measure and return the section of the page."""
    lines, goals = [], []
    medians: dict[str, float] = {}
    for name in names:
        figures = [_run(name) for _ in range(1 if name in ("many", "mirrors", "peak") else rounds)]
        what, limit = GOALS[name]
        lines.append([what, spread(figures)])
        medians[name] = median(figures)
        cause = (
            f"{medians['digested']:.1f} ms are its values and digest"
            if name == "encoded" and "digested" in medians
            else ""
        )
        goals += [Goal(what, medians[name], limit, cause)] if limit is not None else []
    text = f"{about(__doc__).replace('ROUNDS', str(rounds))}\n\n{table(['what', 'measured'], lines)}"
    return Section("Planning, by part", "python -m benchmarks planning", text, goals)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        print(measure(sys.argv[2]))
    else:
        print(section(names=sys.argv[1:] or tuple(PARTS)).text)
