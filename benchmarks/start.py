"""What starting costs: `python -m benchmarks.start [TABLES]`.

Whole processes, in turns, their CPU seconds (user and system) as ratios: validating the quickstart against
`lancens --help` and against importing pydantic with a model of one field, and planning a directory of TABLES tables
against a process that only imports lance.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.page import Section, run_measured, spread, table

TABLES = 1_000
ROUNDS = 11
QUICKSTART = Path(__file__).parents[1] / "examples" / "quickstart" / "lancens.yaml"
PYDANTIC = "from pydantic import BaseModel\nclass Model(BaseModel):\n    field: int"


def make_lake(folder: Path, tables: int) -> Path:
    """Write a manifest and apply it to a new directory; return its path."""
    import reconciler

    manifest = folder / "lancens.yaml"
    blocks = "".join(f"          table_{number}: {{properties: {{tier: gold}}}}\n" for number in range(tables))
    manifest.write_text(
        "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n"
        f"    namespaces:\n      features:\n        tables:\n{blocks}"
    )
    loaded = reconciler.load(manifest)
    assert reconciler.apply(reconciler.plan(loaded), loaded, journal=folder / "journal").ok
    return manifest


def section(tables: int = TABLES) -> Section:
    """Measure and return the section of the page."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each process compiles again what it imports
    lancens = [sys.executable, "-c", "from reconciler.cli import main; main()"]
    with tempfile.TemporaryDirectory() as scratch:
        manifest = make_lake(Path(scratch), tables)
        commands = {
            "help": [*lancens, "--help"],
            "validate": [*lancens, "validate", str(QUICKSTART)],
            "pydantic": [sys.executable, "-c", PYDANTIC],
            "plan": [*lancens, "plan", str(manifest)],
            "lance": [sys.executable, "-c", "import lance"],
        }
        found: dict[str, list[float]] = {name: [] for name in commands}
        for name, command in [*commands.items()] * (ROUNDS + 1):
            found[name].append(run_measured(command).cpu)
    taken = {name: seconds[1:] for name, seconds in found.items()}  # the first round fills the caches
    rows = [
        [f"{what} / {against}", f"{median(taken[what]) / median(taken[against]):.2f}", spread(taken[what], 3)]
        for what, against in (("validate", "help"), ("validate", "pydantic"), ("pydantic", "help"), ("plan", "lance"))
    ]
    about = (__doc__ or "").partition("\n\n")[2].strip()
    text = f"{about}\n\n{table(['what', 'ratio', 'CPU s of the first'], rows)}"
    return Section("Starting", "python -m benchmarks.start", text)


if __name__ == "__main__":
    print(section(int(sys.argv[1]) if len(sys.argv) > 1 else TABLES).text)
