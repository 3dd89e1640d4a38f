"""What an environment of clones costs beside a loop over pylance: `python -m benchmarks.clones [TABLES]`.

TABLES tables of ten rows with a BTREE index are cloned on this machine, table by table in turns: by pylance's
`shallow_clone`, by the code that `lancens apply` writes a clone with, and by the code that `lancens plan` reads a base
with. At the end, `lancens plan` and `apply` do it in one process, with everything around: both catalogs, the checks,
the journal and the entries. Seconds are of CPU.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import process_time

from benchmarks.page import Goal, Section, table

TABLES = 1_000
MOST, MOST_BYTES = 1.15, 20_000
_ROUNDS = 3
_MANIFEST = """
version: 1
name: preview
catalogs:
  prod: {impl: dir, config: {root: ./prod}, prune: never}
  preview: {impl: dir, config: {root: ./preview}, clone: {from: prod}}
"""


def fill(folder: Path, tables: int) -> None:
    """Write the tables to clone."""
    import lance
    import pyarrow as pa

    for number in range(tables):
        dataset = lance.write_dataset(pa.table({"id": range(10)}), folder / f"t{number}.lance")
        dataset.create_scalar_index("id", "BTREE")


def clone_in_turns(source: Path, bare: Path, ours: Path, tables: int) -> tuple[float, float, float]:
    """Clone each table both ways; return the seconds of pylance, of reading the bases and of writing the clones."""
    import lance

    from reconciler import storage
    from reconciler.model.clones import CloneBase

    seconds = [0.0, 0.0, 0.0]
    for number in range(tables):
        name = f"t{number}.lance"
        began = process_time()
        dataset = lance.dataset(source / name)
        dataset.shallow_clone(bare / name, dataset.version)
        cloned = process_time()
        base = storage.read_base(str(source / name), None, {}, str(ours / name))
        read = process_time()
        assert isinstance(base, CloneBase)
        storage.write_clone(base, {}, str(ours / name), {})
        for part, taken in enumerate((cloned - began, read - cloned, process_time() - read)):
            seconds[part] += taken
    return seconds[0], seconds[1], seconds[2]


def apply_environment(folder: Path, tables: int) -> float:
    """Plan and apply the clones of all tables, and return the seconds."""
    import reconciler

    (folder / "lancens.yaml").write_text(_MANIFEST)
    began = process_time()
    manifest = reconciler.load(folder / "lancens.yaml")
    report = reconciler.apply(reconciler.plan(manifest), manifest, journal=str(folder / "journal"))
    seconds = process_time() - began
    assert (report.ok, len(report.results)) == (True, tables), report
    return seconds


def section(tables: int = TABLES) -> Section:
    """Measure and return the section of the page."""
    from statistics import median

    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as scratch:
        folder = Path(scratch)
        source = folder / "prod"
        fill(source, tables)
        clone_in_turns(source, folder / "bare", folder / "ours", min(tables, 20))
        rounds = [clone_in_turns(source, folder / f"bare-{n}", folder / f"ours-{n}", tables) for n in range(_ROUNDS)]
        whole = apply_environment(folder, tables)
        size = sum(path.stat().st_size for path in (folder / "ours-0").rglob("*") if path.is_file()) / tables
    bare, read, write = (median(part) for part in zip(*rounds, strict=True))
    ratio = median(parts[2] / parts[0] for parts in rounds)
    names = ("`shallow_clone`", "writing clones", "reading bases", "`lancens plan` and `apply`")
    lines = [
        [name, f"{seconds:.2f}", f"{seconds / bare:.2f}"]
        for name, seconds in zip(names, (bare, write, read, whole), strict=True)
    ]
    goals = [
        Goal(f"writing {tables:,} clones, against a loop over `shallow_clone` by CPU", ratio, MOST),
        Goal(
            f"plan and apply of {tables:,} clones, against that loop",
            whole / bare,
            MOST,
            f"reading bases: {read / bare:.2f}",
        ),
        Goal("bytes of a clone", size, MOST_BYTES),
    ]
    about = (__doc__ or "").partition("\n\n")[2].strip().replace("TABLES", f"{tables:,}")
    text = f"{about}\n\n{table(['what', 's', '/ `shallow_clone`'], lines)}"
    return Section("Clones", "python -m benchmarks.clones", text, goals)


if __name__ == "__main__":
    measured = section(*map(int, sys.argv[1:]))
    print(measured.text, *measured.goals, sep="\n")
