"""What ``lancens doctor`` finds of a real catalog, and that it leaves it as it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import reconciler
from reconciler.backends import registry
from reconciler.operations.doctor import DoctorCheck, doctor

__all__ = ["diagnosed"]


def diagnosed(folder: Path, impl: str, config: Mapping[str, str]) -> list[DoctorCheck]:
    """Return what is found of a catalog, which has to be the same before and after."""
    path = folder / "lancens.yaml"
    path.write_text(
        json.dumps({"version": 1, "name": "store", "catalogs": {"lake": {"impl": impl, "config": dict(config)}}})
    )
    backend = registry.connect(impl, config)
    before = backend.scan()
    found = doctor(reconciler.load(path))
    assert backend.scan() == before
    backend.close()
    return found
