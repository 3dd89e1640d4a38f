"""What starting costs: `python -m benchmarks.start [TABLES]`.

Whole processes, in turns, their CPU seconds (user and system) as ratios: validating the quickstart against
`lancens --help` and against importing pydantic with a model of one field, planning a directory of TABLES tables
against a process that imports lance where pandas is not installed, and `import lance` in the command line, where it is,
against the same.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.page import Goal, Section, about, run_measured, spread, table

TABLES = 1_000
ROUNDS = 11
LIMITS = {
    ("validate", "help"): 3,
    ("plan", "lance without pandas"): 2.2,
    ("lance in lancens", "lance without pandas"): 1.2,
}
"""Goals: at most this ratio of CPU seconds."""
QUICKSTART = Path(__file__).parents[1] / "examples" / "quickstart" / "lancens.yaml"
NO_PANDAS = """
import sys
class Hider:
    def find_spec(self, name, *_):
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Hider())
"""
LANCE = "import lance, pyarrow; pyarrow.array([None])"
LANCE_IN_LANCENS = f"import reconciler.cli.without_pandas as own; own.hide_pandas(); {LANCE}"
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
            "lance in lancens": [sys.executable, "-c", LANCE_IN_LANCENS],
            "lance without pandas": [sys.executable, "-c", NO_PANDAS + LANCE],
        }
        found: dict[str, list[float]] = {name: [] for name in commands}
        for name, command in [*commands.items()] * (ROUNDS + 1):
            found[name].append(run_measured(command).cpu)
    taken = {name: seconds[1:] for name, seconds in found.items()}  # the first round fills the caches
    ratios = {
        f"{what} / {against}": median(taken[what]) / median(taken[against])
        for what, against in (*LIMITS, ("validate", "pydantic"), ("pydantic", "help"))
    }
    rows = [[name, f"{ratio:.2f}", spread(taken[name.partition(" / ")[0]], 3)] for name, ratio in ratios.items()]
    why = f"pydantic alone is {ratios['pydantic / help']:.2f} of help"
    goals = [
        Goal(f"{what} / {against}, CPU", ratios[f"{what} / {against}"], limit, why if what == "validate" else "")
        for (what, against), limit in LIMITS.items()
    ]
    text = (
        f"{about(__doc__).replace('TABLES', f'{tables:,}')}\n\n{table(['what', 'ratio', 'CPU s of the first'], rows)}"
    )
    return Section("Starting", "python -m benchmarks start", text, goals)


if __name__ == "__main__":
    print(section(int(sys.argv[1]) if len(sys.argv) > 1 else TABLES).text)
