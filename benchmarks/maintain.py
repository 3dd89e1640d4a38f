"""`lancens maintain` beside loops of other tools: `python -m benchmarks.maintain [ROUNDS [DATASETS]]`.

All compact DATASETS datasets of ROWS rows in FRAGMENTS fragments each, and give them a BTREE and an IVF_PQ index, with
equal parameters: pylance's calls, LanceDB's `optimize()`, and lance-ray on two cores, once. They are whole processes
with all that they start, in turns, each on its own copies. The loops neither look first, nor guard their commits, nor
keep a journal. Ratios are of CPU seconds, user and system, round by round. A last run of lancens finds nothing to do,
and shows what it costs to look.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.environments import PEERS
from benchmarks.page import Goal, ProcessUsage, Section, run_measured, spread, table

DATASETS = 30
ROWS, FRAGMENTS, WIDTH = 5_000, 20, 32
ROUNDS = 3
MOST = 1.15
LOOP, MAINTAIN, AGAIN = "pylance, a bare loop", "`lancens maintain`", "`lancens maintain`, nothing to do"
LANCEDB, RAY = "LanceDB, `optimize()`", "lance-ray"
_INDICES = {
    "id": {"type": "BTREE"},
    "v": {"type": "IVF_PQ", "metric": "cosine", "num_partitions": 16, "num_sub_vectors": 8},
}
_LOOP = """
import pathlib
import lance
for place in sorted(pathlib.Path("lake").iterdir()):
    dataset = lance.dataset(place)
    dataset.optimize.compact_files()
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_index("v", "IVF_PQ", metric="cosine", num_partitions=16, num_sub_vectors=8)
"""
_LANCEDB = """
import lancedb
lake = lancedb.connect("lake")
for name in lake.table_names(limit=10_000):
    table = lake.open_table(name)
    table.optimize()
    table.create_scalar_index("id")
    table.create_index(metric="cosine", num_partitions=16, num_sub_vectors=8, vector_column_name="v")
"""
_RAY = """
import pathlib
import lance_ray, ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
for place in sorted(pathlib.Path("lake").resolve().iterdir()):
    uri = str(place)
    lance_ray.compact_files(uri, num_workers=2)
    lance_ray.create_scalar_index(uri, column="id", index_type="BTREE", num_workers=2)
    shape = {"num_partitions": 16, "num_sub_vectors": 8, "sample_rate": 16}  # by default it needs more rows
    lance_ray.create_index(uri, "v", "IVF_PQ", metric="cosine", num_workers=2, **shape)
ray.shutdown()
"""
_LANCENS = (sys.executable, "-c", "from reconciler.cli import main; main()", "maintain", "--auto-approve")


COMMANDS = {
    LOOP: (sys.executable, "-c", _LOOP),
    LANCEDB: (str(PEERS / "python"), "-c", _LANCEDB),
    RAY: (str(PEERS / "python"), "-c", _RAY),
}


def write_datasets(lake: Path, number: int) -> None:
    """Write ``number`` equal datasets."""
    import lance
    import numpy as np
    import pyarrow as pa

    first, each = lake / "t0000.lance", ROWS // FRAGMENTS
    vectors = np.random.default_rng(7).random((ROWS, WIDTH), dtype=np.float32)
    for at in range(0, ROWS, each):
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors[at : at + each].ravel()), WIDTH)
        rows = pa.table({"id": pa.array(range(at, at + each), pa.int64()), "v": column})
        lance.write_dataset(rows, first, mode="append" if at else "create")
    for one in range(1, number):
        shutil.copytree(first, lake / f"t{one:04}.lance")


def measure_each(lake: Path, folder: Path, names: tuple[str, ...]) -> dict[str, ProcessUsage]:
    """Maintain copies of the datasets in ``lake`` in each way; return the usage."""
    found: dict[str, ProcessUsage] = {}
    for name in names:
        here = folder / name.partition(",")[0].strip("`").replace(" ", "-")
        if not here.exists():
            shutil.copytree(lake, here / "lake")
        maintain = {"compact": {"max_small_fragments": 5}, "indices": _INDICES}
        tables = {one.stem: {"maintain": maintain} for one in sorted((here / "lake").iterdir())}
        catalogs = {"lake": {"impl": "dir", "config": {"root": "./lake"}, "tables": tables}}
        text = json.dumps({"version": 1, "name": "bench", "catalogs": catalogs})
        (here / "lancens.yaml").write_text(text)
        found[name] = run_measured(COMMANDS.get(name, _LANCENS), None, here)
    for place in sorted(folder.glob("*/lake/*")):
        _require_maintained(place)
    return found


def _require_maintained(place: Path) -> None:
    """Raise unless a dataset has one fragment and complete indices."""
    import lance

    dataset = lance.dataset(place)
    indices = {index.name: index.num_rows_indexed for index in dataset.describe_indices()}
    if (len(dataset.get_fragments()), indices) != (1, {"id_idx": ROWS, "v_idx": ROWS}):
        raise AssertionError(f"{place} has {len(dataset.get_fragments())} fragments and {indices}")


def section(rounds: int = ROUNDS, number: int = DATASETS) -> Section:
    """Measure and return the section of the page."""
    found: list[dict[str, ProcessUsage]] = []
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
        folder = Path(name)
        write_datasets(folder / "lake", number)
        for round_ in range(rounds):
            here, pair = folder / str(round_), (LOOP, MAINTAIN) if round_ % 2 else (MAINTAIN, LOOP)
            others = (LANCEDB, AGAIN) if round_ else (LANCEDB, RAY, AGAIN)
            found.append(measure_each(folder / "lake", here, (*pair, *others)))
            shutil.rmtree(here)
    names = (LOOP, MAINTAIN, AGAIN, LANCEDB, RAY)
    ratios = {name: [one[name].cpu / one[LOOP].cpu for one in found if name in one] for name in names}
    lines = [
        [
            name,
            spread(ratios[name]) if name != LOOP else "",
            spread(one[name].cpu for one in found if name in one),
            spread(one[name].seconds for one in found if name in one),
            spread((one[name].memory for one in found if name in one), 0),
        ]
        for name in ratios
    ]
    about = (__doc__ or "").partition("\n\n")[2].strip()
    for word, size in (("DATASETS", number), ("ROWS", ROWS), ("FRAGMENTS", FRAGMENTS)):
        about = about.replace(word, f"{size:,}")
    text = f"{about}\n\n{table(['', 'ratio', 'CPU s', 's', 'MiB'], lines)}"
    more = median(one[MAINTAIN].cpu - one[LOOP].cpu for one in found) / number
    look = median(one[AGAIN].cpu for one in found) / number
    why = f"{1000 * more:.0f} ms of CPU more a dataset; a run with nothing to do takes {1000 * look:.0f} ms"
    goal = Goal(f"maintain of {number:,} datasets, against a bare loop of pylance", median(ratios[MAINTAIN]), MOST, why)
    return Section("Maintain", "python -m benchmarks.maintain", text, [goal])


if __name__ == "__main__":
    measured = section(*map(int, sys.argv[1:]))
    print(measured.text, *measured.goals, sep="\n")
