"""``python -m tests.clients.kits``: the conformance kit over the implementations of others and over ours, side by side.

Writes the table of ``docs/conformance.md``. Theirs run in an environment of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.conformance import checks
from tests.clients.catalogs import CATALOGS, Catalog, running_catalog
from tests.clients.environments import environment

__all__ = ["IMPLEMENTATIONS", "OPERATIONS", "PAGE", "SHOWN", "Implementation", "reported", "table_of", "with_table"]

_ROOT = Path(__file__).parents[2]
PAGE = _ROOT / "docs/conformance.md"
_BEGIN, _END = "<!-- table: python -m tests.clients.kits -->", "<!-- end of the table -->"
_RUN = "from reconciler.cli import main; main()"
_SECONDS = 900
_LANCENS_ONLY = frozenset({"AlterNamespace", "AlterTable", "DropTable", "concurrency", "scan"})
OPERATIONS = sorted({check.operation for check in checks()} - _LANCENS_ONLY, key=str.lower)
"""Those that are asked of everybody."""


@dataclass(frozen=True, slots=True)
class Implementation:
    """What is checked: ``catalog`` is what it runs over, ``keys`` what it calls the keys of that configuration."""

    name: str
    impl: str
    catalog: str
    keys: Mapping[str, str]
    is_in_peers: bool = False


def _theirs(name: str, catalog: str, *keys: str, **renamed: str) -> Implementation:
    path = f"lance_namespace_impls.{name}.{name.capitalize()}Namespace"
    return Implementation(f"impls {name}", path, catalog, {**{key: key for key in keys}, **renamed}, is_in_peers=True)


def _ours(impl: str, catalog: str) -> Implementation:
    return Implementation(f"lancens {impl}", impl, catalog, {})


IMPLEMENTATIONS = (
    Implementation("pylance dir", "lance.namespace.DirectoryNamespace", "dir", {"root": "root"}),
    _ours("dir", "dir"),
    Implementation("pylance rest", "lance.namespace.RestNamespace", "rest", {"uri": "uri"}),
    _ours("rest", "rest"),
    _theirs("glue", "Glue", "endpoint", "region", "access_key_id", "secret_access_key", "root"),
    _ours("glue", "Glue"),
    _theirs("hive2", "Hive 2.3", "uri", "root"),
    _ours("hive2", "Hive 2.3"),
    _theirs("hive3", "Hive 3.1", "uri", "root"),
    _ours("hive3", "Hive 3.1"),
    _theirs("iceberg", "Iceberg REST", "endpoint", "root"),
    _ours("iceberg", "Iceberg REST"),
    _theirs("unity", "Unity", endpoint="unity.endpoint", root="unity.root", auth_token="unity.auth_token"),
    _ours("unity", "Unity"),
)
SHOWN = tuple(one for one in IMPLEMENTATIONS if not one.name.startswith("lancens "))
"""Those with a column; lancens is named below the table where a check fails."""


def reported(implementation: Implementation, catalog: Catalog, folder: Path) -> Mapping[str, Any]:
    """Return the report of the kit's command, as JSON."""
    keys = implementation.keys or {key: key for key in catalog.config}
    config = [f"--config={keys[key]}={value}" for key, value in catalog.config.items() if key in keys]
    python = environment("peers") / "bin/python" if implementation.is_in_peers else Path(sys.executable)
    command: list[str | Path] = [
        python,
        "-c",
        _RUN,
        "conformance",
        "--impl",
        implementation.impl,
        "--format",
        "json",
        *config,
    ]
    command += ["--namespace", "$".join(catalog.above)]
    kept = {**os.environ, "PYTHONPATH": str(_ROOT), "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False, env=kept, cwd=folder)
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"{implementation.name} was not checked: {done.stderr[-1000:]}")
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def with_table(page: str, table: str) -> str:
    """Return the page with the table of a run."""
    before, _, rest = page.partition(_BEGIN)
    return f"{before}{_BEGIN}\n\n{table}\n{_END}{rest.partition(_END)[2]}"


def table_of(page: str) -> str:
    """Return the table that stands on the page."""
    return page.partition(_BEGIN)[2].partition(_END)[0].strip() + "\n"


def _table(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    names = [one.name for one in SHOWN]
    yield f"| | {' | '.join(names)} |\n|---|{'---|' * len(names)}\n"
    for operation in OPERATIONS:
        yield f"| {operation} | {' | '.join(_cell(reports[name], operation) for name in names)} |\n"
    for one in IMPLEMENTATIONS:
        missed = [name for name in OPERATIONS if " of " in _cell(reports[one.name], name)]
        if one not in SHOWN and missed:
            yield f"\nFAILED: {one.name}: {', '.join(missed)}\n"


def _cell(report: Mapping[str, Any], operation: str) -> str:
    """Return how many of an operation's checks that apply hold, and how many fail by the class of an error alone."""
    asked = [one for one in report["results"] if one["operation"] == operation and one["outcome"] != "n/a"]
    held = sum(result["outcome"] == "ok" for result in asked)
    by_class = sum(result["outcome"] == "error" for result in asked)
    others = f", {by_class} by class" if by_class else ""
    return "n/a" if not asked else "ok" if held == len(asked) else f"{held} of {len(asked)}{others}"


def _main() -> None:
    reports: dict[str, Mapping[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="lancens-kits-") as scratch:
        for name in CATALOGS:
            of_it = [implementation for implementation in IMPLEMENTATIONS if implementation.catalog == name]
            folder = Path(scratch) / name.replace(" ", "-")
            folder.mkdir()
            if of_it:
                with running_catalog(name, folder) as catalog:
                    for implementation in of_it:
                        print(implementation.name, file=sys.stderr)
                        reports[implementation.name] = reported(implementation, catalog, folder)
    PAGE.write_text(with_table(PAGE.read_text("utf-8"), "".join(_table(reports))), "utf-8")


if __name__ == "__main__":
    _main()
