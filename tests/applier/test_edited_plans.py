"""Saved plans that somebody edited, on a directory of real Lance datasets: refused, and nothing is written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reconciler
from reconciler.errors import PlanFileError
from reconciler.planner.plan import ObjectView, Plan
from reconciler.state import Snapshot
from tests.plans import resealed

HEAD = "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n"
BEFORE = (
    HEAD
    + """
    namespaces:
      features:
        tables:
          kept: {}
          users: {properties: {tier: bronze}}
          clicks: {properties: {tier: gold}}
"""
)
AFTER = (
    HEAD
    + """
    namespaces:
      features:
        tables:
          kept: {}
          users: {properties: {tier: gold}}
          events: {properties: {api_token: s3cret-value}}
          typed: {schema: [{name: id, type: int64}, {name: label, type: string}]}
"""
)

Document = dict[str, Any]
Edit = Callable[[Document], object]


class Review:
    """A plan that was saved to be reviewed: updates `users`, makes `events` and `typed`, deregisters `clicks`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "lake").mkdir()
        self.journal = folder / "journal"
        made = self.write(BEFORE)
        assert reconciler.apply(reconciler.plan(made), made, journal=self.journal).ok
        self.manifest = self.write(AFTER)
        self.saved = reconciler.plan(self.manifest).to_json()
        self.before = self.state()

    def write(self, text: str) -> reconciler.Manifest:
        path = self.folder / "lancens.yaml"
        path.write_text(text)
        return reconciler.load(path)

    def state(self) -> tuple[Snapshot, list[str]]:
        """What the catalog holds, and every file under the lake."""
        backend = reconciler.connect("dir", {"root": str(self.folder / "lake")})
        files = sorted(str(path) for path in (self.folder / "lake").rglob("*"))
        return backend.scan(), files

    def edited(self, edit: Edit, *, seal: bool) -> str:
        document = json.loads(self.saved)
        edit(document)
        return resealed(document) if seal else json.dumps(document)

    def apply(self, text: str) -> reconciler.ApplyReport:
        return reconciler.apply(Plan.from_json(text), self.manifest, journal=self.journal)


@pytest.fixture
def review(tmp_path: Path) -> Review:
    return Review(tmp_path)


def change_of(document: Document, name: str) -> Document:
    return next(change for change in document["changes"] if change["identifier"][-1] == name)


def fingerprint_of(document: Document, name: str) -> Document:
    return next(one for one in document["fingerprints"] if one["identifier"][-1] == name)


def another_location(document: Document) -> None:
    place = change_of(document, "events")["after"]["location"]
    change_of(document, "events")["after"]["location"] = place + "-elsewhere"


def another_owner(document: Document) -> None:
    change_of(document, "events")["after"]["managed_by"] = "somebody/else"


def protected(document: Document) -> None:
    change_of(document, "events")["after"]["protect"] = True


def other_columns(document: Document) -> None:
    change_of(document, "typed")["after"]["columns"][0]["type"] = "string"


def fewer_columns(document: Document) -> None:
    del change_of(document, "typed")["after"]["columns"][1]


def deregistering_what_is_wanted(document: Document) -> None:
    """`kept` is in the manifest: its deregistration is put in with the state it really is in."""
    document["changes"].append({**change_of(document, "clicks"), "identifier": ["features", "kept"]})
    document["changes"][-1]["before"] = live_view(document, "kept")
    document["fingerprints"].append(fingerprint(document, "kept"))


def live_view(document: Document, name: str) -> Document:
    root = change_of(document, "clicks")["before"]["location"].rpartition("/")[0]
    hashed = hashlib.sha256(f"features${name}".encode()).hexdigest()[:8]
    return {"location": f"{root}/{hashed}_features${name}", "managed_by": "store/lake"}


def fingerprint(document: Document, name: str) -> Document:
    view = live_view(document, name)
    return {
        "catalog": "lake",
        "kind": "table",
        "identifier": ["features", name],
        "view": view,
        "digest": ObjectView.model_validate(view).digest(),
    }


def without_a_change(document: Document) -> None:
    document["changes"] = [one for one in document["changes"] if one["identifier"][-1] != "clicks"]


def digest_of_zeros(document: Document) -> None:
    fingerprint_of(document, "users")["digest"] = "0" * 64


EDITS: list[Edit] = [
    another_location,
    another_owner,
    protected,
    other_columns,
    fewer_columns,
    deregistering_what_is_wanted,
    without_a_change,
    digest_of_zeros,
]


@pytest.mark.parametrize("seal", [False, True], ids=["as edited", "sealed again"])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_that_changes_what_is_done_is_refused(review: Review, edit: Edit, seal: bool) -> None:
    with pytest.raises(PlanFileError, match=r"Make the plan again\.") as caught:
        review.apply(review.edited(edit, seal=seal))
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert review.state() == review.before
