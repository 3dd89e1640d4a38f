"""Terraform for Lance tables: plan and apply which namespaces and tables exist in which data catalogs.

    import reconciler

    manifest = reconciler.load("lancens.yaml")
    plan = reconciler.plan(manifest)
    report = reconciler.apply(plan, manifest)

Importing this package is cheap: each name is imported when it is first used.
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
    from reconciler.auditor.history_source import register_history
    from reconciler.backends.base import Backend
    from reconciler.manifest import Manifest
    from reconciler.model.capabilities import Capabilities
    from reconciler.model.live import LiveTable
    from reconciler.namespace import connect, register_impls
    from reconciler.operations.apply import apply
    from reconciler.operations.doctor import doctor
    from reconciler.operations.maintain import maintain, plan_maintenance
    from reconciler.operations.manifests import load
    from reconciler.operations.plan import drift, plan
    from reconciler.operations.release import plan_release, release
    from reconciler.output import render
    from reconciler.pipeline.inventory import inventory
    from reconciler.planner.plan import Plan
    from reconciler.report.notebook import audit
    from reconciler.writing.import_ import import_

    __version__: str

__all__ = [
    "ApplyError",
    "ApplyReport",
    "Backend",
    "BlockedError",
    "Capabilities",
    "CatalogError",
    "ConfigError",
    "LancensError",
    "LiveTable",
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
    "doctor",
    "drift",
    "import_",
    "inventory",
    "load",
    "maintain",
    "plan",
    "plan_maintenance",
    "plan_release",
    "register_history",
    "register_impls",
    "release",
    "render",
]

_LAZY = {
    "ApplyReport": "reconciler.applier.report",
    "Backend": "reconciler.backends.base",
    "Capabilities": "reconciler.model.capabilities",
    "LiveTable": "reconciler.model.live",
    "Manifest": "reconciler.manifest",
    "Plan": "reconciler.planner.plan",
    "apply": "reconciler.operations.apply",
    "audit": "reconciler.report.notebook",
    "connect": "reconciler.namespace",
    "doctor": "reconciler.operations.doctor",
    "drift": "reconciler.operations.plan",
    "import_": "reconciler.writing.import_",
    "inventory": "reconciler.pipeline.inventory",
    "load": "reconciler.operations.manifests",
    "maintain": "reconciler.operations.maintain",
    "plan": "reconciler.operations.plan",
    "plan_maintenance": "reconciler.operations.maintain",
    "plan_release": "reconciler.operations.release",
    "register_history": "reconciler.auditor.history_source",
    "register_impls": "reconciler.namespace",
    "release": "reconciler.operations.release",
    "render": "reconciler.output",
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
