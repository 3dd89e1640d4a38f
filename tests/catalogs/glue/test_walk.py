"""How many types one table passes through from its block to its entry in Glue: each is one more thing to know."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from pydantic import BaseModel

import reconciler
from reconciler.planner.plan import Plan
from tests.servers.glue import GlueServer

NAME = "zebra"
MOST = 26


class Walk:
    """Notes the type of all data that a function of lancens is given, makes or returns and that names the table."""

    def __init__(self) -> None:
        self.types: set[str] = set()

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        if event != "return" or "/reconciler/" not in frame.f_code.co_filename:
            return
        sys.setprofile(None)
        try:
            self.types |= {shown(type(one)) for one in (*frame.f_locals.values(), arg) if is_data(one) and names(one)}
        finally:
            sys.setprofile(self)


def shown(kind: type) -> str:
    return f"{kind.__module__}.{kind.__name__}"


def is_data(one: object) -> bool:
    is_own = type(one).__module__.startswith("reconciler.") and not isinstance(one, type)
    return is_own and (dataclasses.is_dataclass(one) or isinstance(one, BaseModel | tuple))


def names(one: object, depth: int = 4) -> bool:
    """Return whether the table's name is in ``one``, or in what that holds."""
    if isinstance(one, str):
        return NAME in one
    return depth > 0 and any(names(part, depth - 1) for part in parts(one))


def parts(one: Any) -> Iterator[object]:
    if isinstance(one, Mapping):
        yield from (*one.keys(), *one.values())
    elif isinstance(one, list | tuple | set | frozenset):
        yield from [*one]
    elif is_data(one):
        fields = dataclasses.fields(one) if dataclasses.is_dataclass(one) else ()
        yield from (getattr(one, field.name, None) for field in fields)
        yield from getattr(one, "__dict__", {}).values()


def test_a_table_of_glue_passes_through_few_types(glue: GlueServer, tmp_path: Path) -> None:
    config = "\n".join(f"      {key}: {value}" for key, value in glue.config(root=str(tmp_path / "lake")).items())
    path = tmp_path / "lancens.yaml"
    path.write_text(
        f"version: 1\nname: store\ncatalogs:\n  prod:\n    impl: glue\n    config:\n{config}\n    namespaces:\n"
        f"      ns:\n        tables:\n          {NAME}:\n            properties: {{team: ml}}\n"
        "            schema: [{name: id, type: int64}]\n"
    )
    manifest = reconciler.load(path)  # imports what the rest needs
    reconciler.plan(manifest)
    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        manifest = reconciler.load(path)
        plan = Plan.from_json(reconciler.plan(manifest).to_json())
        report = reconciler.apply(plan, manifest, journal=tmp_path / "journal")
        again = reconciler.plan(manifest)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert report.ok
    assert again.is_empty
    assert "reconciler.planner.entries.Change" in walk.types
    assert len(walk.types) <= MOST, sorted(walk.types)
