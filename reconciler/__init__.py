"""Terraform for Lance tables: plan and apply which namespaces and tables exist in which data catalogs.

    import reconciler

    manifest = reconciler.load("lancens.yaml")
    plan = reconciler.plan(manifest)
    report = reconciler.apply(plan, manifest)

Importing this package is cheap: what a function needs is imported when it is first called.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Literal

from reconciler.model.errors import (
    ApplyError,
    BlockedError,
    CatalogError,
    ConfigError,
    LancensError,
    ManifestError,
    MissingExtraError,
    PlanFileError,
    Problem,
    SafetyError,
    SelectionError,
    StalePlanError,
)
from reconciler.model.rendering import Renderable

if TYPE_CHECKING:
    from reconciler.applier.report import ApplyReport
    from reconciler.backends.base import Backend
    from reconciler.manifest import Manifest
    from reconciler.namespace import connect, register_impls
    from reconciler.operations.apply import apply
    from reconciler.operations.manifests import load
    from reconciler.operations.plan import plan
    from reconciler.planner.plan import Plan
    from reconciler.report.notebook import audit
    from reconciler.spark.inventory import inventory
    from reconciler.writing.import_ import import_

    __version__: str

__all__ = [
    "ApplyError",
    "ApplyReport",
    "Backend",
    "BlockedError",
    "CatalogError",
    "ConfigError",
    "LancensError",
    "Manifest",
    "ManifestError",
    "MissingExtraError",
    "Plan",
    "PlanFileError",
    "Problem",
    "SafetyError",
    "SelectionError",
    "StalePlanError",
    "apply",
    "audit",
    "connect",
    "import_",
    "inventory",
    "load",
    "plan",
    "register_impls",
]

_LAZY = {
    "ApplyReport": "reconciler.applier.report",
    "Backend": "reconciler.backends.base",
    "Manifest": "reconciler.manifest",
    "Plan": "reconciler.planner.plan",
    "apply": "reconciler.operations.apply",
    "audit": "reconciler.report.notebook",
    "connect": "reconciler.namespace",
    "import_": "reconciler.writing.import_",
    "inventory": "reconciler.spark.inventory",
    "load": "reconciler.operations.manifests",
    "plan": "reconciler.operations.plan",
    "register_impls": "reconciler.namespace",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("lancens")
    elif name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def _render(document: Renderable, form: Literal["text", "html"]) -> str:
    from reconciler.output.notebook import render_document

    return render_document(document, form)


Renderable.renderer = _render


def __dir__() -> list[str]:
    return sorted(__all__)
