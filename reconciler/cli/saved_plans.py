"""Read saved plans, and the manifests that they were made from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli.results import PLAN_SUFFIX
from reconciler.model.errors import LancensError, PlanFileError

if TYPE_CHECKING:
    from reconciler.cli.options import CatalogSource
    from reconciler.manifest import Manifest
    from reconciler.planner.plan import Plan


def read_plan(path: Path) -> Plan:
    """Return the saved plan in a file.

    Raises:
        PlanFileError: the file, which the error names, holds no usable plan.
    """
    from reconciler.planner.plan import Plan

    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise PlanFileError(f"{path} does not exist; `lancens plan -o {path}` saves a plan there") from None
    if path.suffix in (".yaml", ".yml"):
        raise PlanFileError(f"{path} is a manifest, not a saved plan; `lancens plan {path}` shows its plan")
    if not data.lstrip().startswith(b"{"):
        raise PlanFileError(f"{path} is not a saved plan; `lancens plan -o FILE` writes one")
    try:
        return Plan.from_json(data)
    except PlanFileError as error:
        raise PlanFileError(f"{path}: {error}") from None


def saved_plan_paths(source: CatalogSource) -> list[str]:
    """Return the arguments MANIFEST that are saved plans, by their suffix."""
    return [path for path in source.manifests if path.endswith(PLAN_SUFFIX)]


def saved_plan(source: CatalogSource, *, jobs: bool = False) -> tuple[Path, Plan] | None:
    """Return the path of the saved plan and the plan, or None for manifests.

    With ``jobs``, the plan must hold jobs of `maintain`; otherwise, it must not.

    Raises:
        UsageError: the command was given a saved plan and something else.
        PlanFileError: the file holds no plan that this command can carry out.
    """
    paths = saved_plan_paths(source)
    if not paths:
        return None
    if len(source.manifests) > 1:
        command = click.get_current_context().info_name
        raise click.UsageError(f"{command} takes one saved plan, or manifests, not both")
    path = Path(paths[0])
    plan = read_plan(path)
    if plan.options.maintain is not jobs:
        other = "apply" if jobs else "maintain"
        raise PlanFileError(f"{path} is carried out by `lancens {other} {path}`. Nothing was changed.")
    return path, plan


def load_manifest_of(plan: Plan, path: Path, source: CatalogSource) -> Manifest:
    """Load the manifest that the plan saved at ``path`` was made from.

    It says how to connect to the catalogs. The plan names the files of the manifest relative to the current folder or
    to its own.

    Raises:
        LancensError: the files are in neither folder, or the manifest came from stdin.
    """
    for folder in (Path(), path.parent):
        files = [folder / name for name in plan.manifest.files]
        if files and all(file.exists() for file in files):
            return source.load_files(*files)
    if "-" in plan.manifest.files:
        raise LancensError(
            f"{path} was made from stdin: save the manifest as a file, and plan that. Nothing was changed."
        )
    raise LancensError(
        f"{path} was made from {', '.join(plan.manifest.files)}, not in this folder; run "
        f"{click.get_current_context().info_name} where the plan was made"
    )
