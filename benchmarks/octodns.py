"""Planning beside octoDNS, which plans DNS as lancens plans tables: `python -m benchmarks.octodns [OBJECTS ...]`.

Whole processes: lancens reads a manifest and a directory catalog of as many tables, `octodns-sync` reads zone files and
compares them with other zone files, 1,000 records a zone. One object in a hundred differs. octoDNS is in an environment
of its own, and both have two cores.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.environments import PEERS
from benchmarks.page import Goal, ProcessUsage, Section, run_measured, spread, table
from benchmarks.scale import fill_catalog, write_manifest
from benchmarks.start import LANCE_IN_LANCENS

SIZES = (1_000, 10_000, 50_000)
A_ZONE = 1_000
ROUNDS = 3
LANCENS = "from reconciler.cli import main; main()"
SEVERAL_TIMES = 10_000
"""Larger ones are measured once: octoDNS takes its time."""
GOALS = {10_000: 1 / 2, 50_000: 1 / 6}
"""At most this part of octoDNS's time."""


def write_zones(folder: Path, records: int) -> Path:
    """Write zones twice, with 1% different records; return octoDNS's configuration."""
    zones = -(-records // A_ZONE)
    for side in ("wanted", "live"):
        (folder / side).mkdir()
        for zone in range(zones):
            lines = ["---"]
            for number in range(zone * A_ZONE, min((zone + 1) * A_ZONE, records)):
                value = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
                if side == "wanted" and number % 100 == 0:
                    value = f"11{value[2:]}"
                lines.append(f"t{number:07}: {{type: A, value: {value}}}")
            (folder / side / f"z{zone}.test.yaml").write_text("\n".join(lines) + "\n")
    names = "".join(f"  z{zone}.test.: {{sources: [wanted], targets: [live]}}\n" for zone in range(zones))
    provider = "octodns.provider.yaml.YamlProvider"
    config = folder / "octodns.yaml"
    config.write_text(
        "providers:\n"
        f"  wanted: {{class: {provider}, directory: {folder}/wanted}}\n"
        f"  live: {{class: {provider}, directory: {folder}/live}}\n"
        f"zones:\n{names}"
    )
    return config


def measure_usage(objects: int) -> dict[str, list[ProcessUsage]]:
    """Return the usage of lancens, octoDNS and `import lance` in each round."""
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
        folder = Path(name)
        (folder / "lancens").mkdir()
        manifest = write_manifest(folder / "lancens", objects)
        fill_catalog(folder / "lancens" / "lake", objects, objects // 100)
        commands = {
            "lancens": [sys.executable, "-c", LANCENS, "plan", str(manifest)],
            "octodns": [str(PEERS / "python"), "-m", "octodns.cmds.sync", "--force", "--config-file"],
            "lance": [sys.executable, "-c", LANCE_IN_LANCENS],
        }
        commands["octodns"].append(str(write_zones(folder, objects)))
        rounds = ROUNDS if objects <= SEVERAL_TIMES else 1
        found = [{who: run_measured(command) for who, command in commands.items()} for _ in range(rounds)]
    return {who: [one[who] for one in found] for who in commands}


def section(sizes: tuple[int, ...] = SIZES) -> Section:
    """Measure all sizes and return the section of the page."""
    lines, goals = [], []
    for size in sizes:
        used = measure_usage(size)
        seconds = {who: median(one.seconds for one in found) for who, found in used.items()}
        cpu = {who: median(one.cpu for one in found) for who, found in used.items()}
        lines.append(
            [
                f"{size:,}",
                f"{cpu['octodns'] / cpu['lancens']:.2f}",
                f"{seconds['octodns'] / seconds['lancens']:.2f}",
                *(spread(one.seconds for one in used[who]) for who in ("lancens", "octodns")),
                *(spread(one.cpu for one in used[who]) for who in ("lancens", "octodns")),
                *(spread((one.memory for one in used[who]), 0) for who in ("lancens", "octodns")),
            ]
        )
        cause = f"{cpu['lance']:.2f} of the {cpu['lancens']:.2f} s of CPU are `import lance`, which reads the directory"
        if size in GOALS:
            ratio = seconds["lancens"] / seconds["octodns"]
            goals.append(Goal(f"plan of {size:,} objects, against octoDNS", ratio, GOALS[size], cause))
        if size == A_ZONE:
            ratio = cpu["lancens"] / cpu["octodns"]
            goals.append(Goal(f"plan of {size:,} objects, against octoDNS by CPU", ratio, 1, cause))
    head = ["objects", "octoDNS / lancens by CPU", "by the clock", "lancens s", "octoDNS s"]
    head += ["lancens CPU s", "octoDNS CPU s", "lancens MiB", "octoDNS MiB"]
    about = (__doc__ or "").partition("\n\n")[2].strip()
    text = f"{about}\n\n{table(head, lines)}"
    return Section("Planning, beside octoDNS", "python -m benchmarks.octodns", text, goals)


if __name__ == "__main__":
    print(section(tuple(int(size.replace(",", "")) for size in sys.argv[1:]) or SIZES).text)
