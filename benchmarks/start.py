"""What starting costs: `python -m benchmarks.start [TABLES]`.

Whole processes, in turns, their CPU seconds (user and system) as ratios: validating the quickstart against
`lancens --help` and against importing pydantic with a model of one field, and planning a directory of TABLES tables
against a process that only imports lance.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

TABLES = 1_000
ROUNDS = 11
QUICKSTART = Path(__file__).parents[1] / "examples" / "quickstart" / "lancens.yaml"
PYDANTIC = "from pydantic import BaseModel\nclass Model(BaseModel):\n    field: int"


def make_lake(folder: Path, tables: int) -> Path:
    """Return the manifest of a directory in which every table of it is declared."""
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


def cpu_seconds(command: list[str]) -> float:
    """Return the CPU seconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    tables = int(sys.argv[1]) if len(sys.argv) > 1 else TABLES
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
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for name, command in [*commands.items()] * (ROUNDS + 1):
            taken[name].append(cpu_seconds(command))
    seconds = {name: median(found[1:]) for name, found in taken.items()}  # the first round fills the caches
    print("what                                     CPU s    ratio")
    for what, against in (("validate", "help"), ("validate", "pydantic"), ("pydantic", "help"), ("plan", "lance")):
        print(f"{what + ' / ' + against:<40} {seconds[what]:.3f}    {seconds[what] / seconds[against]:.2f}")


if __name__ == "__main__":
    main()
