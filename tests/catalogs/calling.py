"""How many calls an apply sends for each kind of change, the same on every catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

import reconciler
from reconciler.model.names import Identifier
from reconciler.operations.profile import Profile
from tests.writing import blocks_of, write_manifest

__all__ = ["calls_of_changes"]

_SCHEMA = [{"name": "id", "type": "int64"}]


def calls_of_changes(
    manifest: Path,
    *above: str,
    updates: bool = True,
    number: int = 4,
    requests: Sequence[object] = (),
    **config: str,
) -> dict[str, tuple[int | None, float]]:
    """Change tables in the namespace ``above`` of the one catalog of ``manifest``, all of them in the same way.

    Args:
        manifest: its catalog's blocks are replaced.
        above: the levels of a namespace, of which only the first may exist.
        updates: whether the catalog can change a table's properties.
        number: how many tables are changed at once.
        requests: those that storage has answered, where the catalog is storage; they include those of the check.
        config: what the catalog's configuration gets on top.

    Returns:
        For each kind of change, the calls of the whole check, and the calls of the apply for a table.
    """
    [catalog] = yaml.safe_load(manifest.read_text("utf-8"))["catalogs"].values()
    base = {"impl": catalog["impl"], "config": {**catalog["config"], **config}}
    gold, silver = ({"schema": _SCHEMA, "properties": {"tier": tier}} for tier in ("gold", "silver"))
    kept: dict[Identifier, object] = {(*above, "kept"): {}}

    def tables(name: str, block: object) -> dict[Identifier, object]:
        return {(*above, f"{name}_{index}"): block for index in range(number)}

    def apply(wanted: Mapping[Identifier, object], **more: Any) -> tuple[int | None, float]:
        loaded = reconciler.load(write_manifest(manifest.parent, {"lake": {**base, **more, **blocks_of(wanted)}}))
        plan, profile = reconciler.plan(loaded, allow_mass_removal=True), Profile()
        before = len(requests)
        report = reconciler.apply(plan, loaded, allow_mass_removal=True, parallelism=1, profile=profile)
        assert report.ok, [result.message for result in report.results]
        answered = len(requests) - before
        assert reconciler.plan(loaded).changes == ()
        calls = {stage.stage: stage.calls for stage in profile.stages}
        return calls["check"], (calls["apply"] or answered) / number

    apply(kept)
    counts = {"declare": apply({**kept, **tables("declared", {"probe": False})})}
    kept |= tables("declared", {"probe": False})
    counts["create"] = apply({**kept, **tables("created", gold)})
    if updates:
        counts["update"] = apply({**kept, **tables("created", silver)})
    moved = [
        {"from": "/".join(origin), "to": "/".join(to)}
        for origin, to in zip(tables("created", {}), tables("moved", {}), strict=True)
    ]
    counts["move"] = apply({**kept, **tables("moved", silver if updates else gold)}, moved=moved)
    counts["removal"] = apply(kept)
    return counts
