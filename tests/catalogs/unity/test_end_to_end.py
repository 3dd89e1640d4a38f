"""The example manifest, from the first plan to the last removal, through the public interface."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from reconciler.model import locations
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.planner.entries import Action
from tests.catalogs.calling import calls_of_changes
from tests.catalogs.end_to_end import EndToEnd, Example, HeldNames, Stage, apply, cut, edit, opened, planned
from tests.catalogs.unity.conftest import CATALOG, TOKEN, Unity
from tests.plans import assert_blocked, noted
from tests.servers.unity_contract import API

EXAMPLE = Path(__file__).parents[3] / "examples/unity/lancens.yaml"
FEATURES = (CATALOG, "features")


@pytest.fixture
def manifest(unity: Unity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example beside a lake that holds its raw data; the server answers its places percent-encoded."""
    monkeypatch.setenv("UNITY_ENDPOINT", unity.server.url)
    monkeypatch.setenv("UNITY_TOKEN", TOKEN)
    monkeypatch.setenv("LAKE_ROOT", str(tmp_path / "my lake"))
    monkeypatch.chdir(tmp_path)
    lance.write_dataset(pa.table({"url": ["a", "b"]}), tmp_path / "my lake/raw/clicks.lance")
    return Path(shutil.copy(EXAMPLE, tmp_path / "lancens.yaml"))


@pytest.fixture
def example(unity: Unity, manifest: Path, tmp_path: Path) -> Example:
    """The result of each stage on Unity, which changes no table in place: only schemas are edited."""
    lake = tmp_path / "my lake"

    def look(path: str) -> Mapping[str, Any] | None:
        names = path.split("/")
        kind = "schemas" if len(names) == 2 else "tables"
        answer = unity.contract.answer("GET", f"{API}/{kind}/{'.'.join(names)}", {}, None, TOKEN)
        if answer.status == 404:
            return None
        assert isinstance(answer.body, Mapping)
        return answer.body.get("properties") or {}

    return Example(
        manifest=manifest,
        look=look,
        open=lambda path: opened(unity.connect(), path),
        raw=lake / "raw",
        data=lake,
        first=Stage(
            [
                ("main/features", Action.CREATE_NAMESPACE),
                ("main/staging", Action.CREATE_NAMESPACE),
                ("main/features/clicks", Action.REGISTER_TABLE),
                ("main/features/users", Action.CREATE_TABLE),
                ("main/staging/events", Action.DECLARE_TABLE),
            ],
            shown={
                "main/features": {"owner": "ml-platform"},
                "main/features/users": {"tier": "gold", "lancens.managed-by": "feature-store/governed"},
                "main/staging": {},
            },
            rows={"main/features/clicks": 2, "main/features/users": 0},
        ),
        edited=Stage(
            [("main/features", Action.UPDATE_NAMESPACE)],
            lambda: edit(manifest, ("{owner: ml-platform}", "{team: ml}")),
            shown={"main/features": {"owner": None, "team": "ml"}},
        ),
        drift=Stage(
            [("main/features/users", Action.REGISTER_TABLE)],
            lambda: unity.contract.remove(*FEATURES, "users"),
            shown={"main/features/users": {"tier": "gold"}},
            rows={"main/features/users": 0},
        ),
        removed=Stage(
            [("main/staging/events", Action.DEREGISTER_TABLE), ("main/staging", Action.DROP_NAMESPACE)],
            lambda: cut(manifest, "          staging:"),
            shown={"main/staging": None},
        ),
        returned=[("main/staging", Action.CREATE_NAMESPACE), ("main/staging/events", Action.DECLARE_TABLE)],
        fill=lambda: unity.fill(120, 1),
        imported=["t0119"],
        hidden=[TOKEN],
        tables=["main/features/users", "main/features/clicks"],
        hold=lambda path: unity.hold(*path.split("/")),
    )


class TestExample(EndToEnd, HeldNames):
    """The suite, over Unity."""


def test_a_plan_notes_what_unity_shows_otherwise_and_only_while_it_is_to_be_made(manifest: Path) -> None:
    [note] = [note.message for note in planned(manifest).notes if "Unity shows" in note.message]
    assert "type fixed_size_list<float32>[8]" in note
    assert "array<float>" in note
    apply(manifest)
    assert not [note for note in planned(manifest).notes if "Unity shows" in note.message]


def test_a_catalog_that_is_missing_is_for_the_administrator(manifest: Path) -> None:
    edit(manifest, ("      main:\n", "      absent:\n"))
    assert_blocked(planned(manifest), "governed/absent", ReasonCode.MADE_OUTSIDE)


def test_a_plan_that_adds_columns_says_that_the_entry_keeps_the_old_ones(unity: Unity, manifest: Path) -> None:
    apply(manifest)
    shown = unity.contract.table(*FEATURES, "users")["columns"]
    embedding = '- {name: embedding, type: "fixed_size_list<float32>[8]"}'
    edit(manifest, (embedding, f"{embedding}\n                  - {{name: age, type: int32}}"))
    edit(manifest, ("                schema:", "                evolve: additive\n                schema:"))
    notes = noted(planned(manifest), "where", "name", "differences")
    stale = (NoteCode.STALE_COLUMNS, "governed/main/features", "users", ("`age` (int) is missing",))
    assert stale in notes
    apply(manifest)
    assert unity.contract.table(*FEATURES, "users")["columns"] == shown


def test_every_plan_that_opens_the_data_says_that_the_entry_shows_other_columns(unity: Unity, manifest: Path) -> None:
    apply(manifest)
    table = unity.contract.table(*FEATURES, "users")
    lance.dataset(locations.normalise(table["storage_location"])).add_columns({"score": "1.5"})
    for _ in range(2):
        made = planned(manifest)
        assert made.is_empty
        differences = ("`score` (double not null) is missing",)
        stale = (NoteCode.STALE_COLUMNS, "governed/main/features", "users", differences)
        assert stale in noted(made, "where", "name", "differences")
    assert unity.contract.table(*FEATURES, "users")["columns"] == table["columns"]


def test_calls_of_each_kind_of_change(manifest: Path) -> None:
    assert calls_of_changes(manifest, CATALOG, "many", updates=False) == {
        "declare": (3, 2),
        "create": (3, 3),
        "move": (3, 7),
        "removal": (3, 2),
    }
