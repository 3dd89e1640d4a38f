"""What tells several plans of one repository apart, and who makes one.

By its key a plan finds its comment, its issue and its artifact, and apply finds what was approved: so the step that
plans and the step that applies are given the same manifest, variables and label. Values of variables are in no key,
which is written where everybody reads it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from reconciler.action.inputs import Inputs
from reconciler.model import display

_DIGITS = 16


@dataclass(frozen=True)
class PlanKey:
    """Manifests and files of variables as seen from the top of the checkout, names of variables, and the label."""

    manifests: tuple[str, ...]
    variables: tuple[str, ...]
    files: tuple[str, ...]
    label: str

    @classmethod
    def of(cls, inputs: Inputs, workspace: Path) -> PlanKey:
        """Return the key of what ``inputs`` ask for; however a path is written, it is the same one."""
        top = os.path.realpath(workspace)

        def seen(paths: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(sorted({Path(os.path.relpath(os.path.realpath(path), top)).as_posix() for path in paths}))

        # Of two files the last one wins, so their order is a part of what is planned.
        files = tuple(one for path in inputs.var_files for one in seen((path,)))
        return cls(seen(inputs.manifests), tuple(sorted(inputs.variables)), files, inputs.label)

    def __str__(self) -> str:
        variables = f" with the variables {', '.join(self.variables)}" if self.variables else ""
        files = f" with {', '.join(self.files)}" if self.files else ""
        return display.printable(f"{', '.join(self.manifests)}{variables}{files}, label `{self.label}`,")

    @cached_property
    def digest(self) -> str:
        """A short text that stands for the key where no path and no name may."""
        return _digest([self.manifests, self.variables, self.files, self.label])


def planner_of(environment: Mapping[str, str]) -> str:
    """Return a short text that stands for the step that runs: its workflow, its job with the matrix, and its place."""
    workflow = environment.get("GITHUB_WORKFLOW_REF", "").partition("@")[0] or environment.get("GITHUB_WORKFLOW", "")
    rest = (environment.get(name, "") for name in ("GITHUB_JOB", "LANCENS_MATRIX", "GITHUB_ACTION"))
    return _digest([workflow, *rest])


def _digest(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
