"""The example manifest, from the first plan to the last removal, with the permissions the documentation names."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.planner.entries import Action
from tests.catalogs.calling import calls_of_changes
from tests.catalogs.end_to_end import EndToEnd, Example, HeldNames, Stage, actions, apply, cut, edit, opened, planned
from tests.catalogs.glue.conftest import Connect
from tests.catalogs.glue.seeding import catalog_id, databases, hold, lance_table
from tests.cli.running import lancens
from tests.plans import assert_blocked, noted
from tests.servers.glue import ACCESS_KEY, SECRET_KEY, GlueServer

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples/glue/lancens.yaml"


def _policies() -> tuple[frozenset[str], frozenset[str]]:
    """Return the actions that the documentation lists for plan, and for apply on top."""
    text = (ROOT / "docs/catalogs/glue.md").read_text()
    documents = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    plan, apply = (frozenset(document["Statement"][0]["Action"]) for document in documents)
    return plan, apply


PLAN, APPLY = _policies()


@pytest.fixture
def manifest(glue: GlueServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example beside a lake that holds its raw data."""
    monkeypatch.setenv("GLUE_ENDPOINT", glue.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("LAKE_ROOT", str(tmp_path / "lake"))
    monkeypatch.chdir(tmp_path)
    lance.write_dataset(pa.table({"url": ["a", "b"]}), tmp_path / "lake/raw/clicks.lance")
    return Path(shutil.copy(EXAMPLE, tmp_path / "lancens.yaml"))


EVERYTHING = [
    ("analytics", Action.CREATE_NAMESPACE),
    ("sales", Action.CREATE_NAMESPACE),
    ("sales/eu", Action.CREATE_NAMESPACE),
    ("analytics/clicks", Action.REGISTER_TABLE),
    ("analytics/users", Action.CREATE_TABLE),
    ("sales/eu/leads", Action.DECLARE_TABLE),
]


def look(glue: GlueServer, path: str) -> Mapping[str, str] | None:
    """Return the parameters of the object at a path; of the root, which namespaces there are."""
    client, names = glue.client, path.split("/")
    try:
        if not path:
            databases = [database["Name"] for database in client.get_databases()["DatabaseList"]]
            return {
                "namespaces": " ".join([*databases, *(each["Name"] for each in client.get_catalogs()["CatalogList"])])
            }
        catalog = catalog_id("sales") if names[0] == "sales" else catalog_id()
        match names[1:] if names[0] == "sales" else names:
            case []:
                return client.get_catalog(CatalogId=catalog)["Catalog"].get("Parameters", {})
            case [database]:
                return client.get_database(CatalogId=catalog, Name=database)["Database"].get("Parameters", {})
            case [database, table]:
                return client.get_table(CatalogId=catalog, DatabaseName=database, Name=table)["Table"].get(
                    "Parameters", {}
                )
    except client.exceptions.EntityNotFoundException:
        return None
    raise AssertionError(path)


@pytest.fixture
def example(glue: GlueServer, connect: Connect, manifest: Path, tmp_path: Path) -> Example:
    def move_and_change() -> None:
        lance.write_dataset(pa.table({"url": ["c"]}), tmp_path / "lake/new/clicks.lance")
        edit(
            manifest,
            ("raw/clicks.lance", "new/clicks.lance"),
            ("{tier: gold}", "{tier: silver}"),
            ("{owner: sales-platform}", "{owner: sales, region: eu}"),
            ("{owner: ml-platform}", "{}"),
        )

    def fill() -> None:
        glue.add_catalog("hr")
        glue.add_catalog("hr/emea")
        databases(glue, ["people"], catalog_id("hr", "emea"), Parameters={"team": "hr"})
        glue.add_tables("people", [lance_table(f"t{number:03}") for number in range(120)], catalog_id("hr", "emea"))
        databases(glue, ["empty"])
        glue.add_catalog("vacant")

    return Example(
        manifest=manifest,
        look=lambda path: look(glue, path),
        open=lambda path: opened(connect(), path),
        raw=tmp_path / "lake/raw",
        data=tmp_path / "lake",
        first=Stage(
            EVERYTHING,
            shown={
                "analytics/users": {"tier": "gold", "lancens.managed-by": "feature-store/prod"},
                "sales": {"owner": "sales-platform"},
                "sales/eu": {},
            },
            rows={"analytics/clicks": 2, "analytics/users": 0},
        ),
        edited=Stage(
            [
                ("analytics", Action.UPDATE_NAMESPACE),
                ("sales", Action.UPDATE_NAMESPACE),
                ("analytics/clicks", Action.RELOCATE_TABLE),
                ("analytics/users", Action.UPDATE_TABLE),
            ],
            move_and_change,
            shown={
                "analytics": {"owner": None},
                "analytics/users": {"tier": "silver"},
                "sales": {"owner": "sales", "region": "eu"},
            },
            rows={"analytics/clicks": 1},
        ),
        drift=Stage(
            [("sales/eu/leads", Action.DECLARE_TABLE)],
            lambda: glue.client.delete_table(CatalogId=catalog_id("sales"), DatabaseName="eu", Name="leads"),
            shown={"sales/eu/leads": {}},
        ),
        removed=Stage(
            [
                ("sales/eu/leads", Action.DEREGISTER_TABLE),
                ("sales/eu", Action.DROP_NAMESPACE),
                ("sales", Action.DROP_NAMESPACE),
            ],
            lambda: cut(manifest, "      # It holds a namespace"),
            shown={"": {"namespaces": "analytics"}},
        ),
        returned=[("sales/eu/leads", Action.DECLARE_TABLE)],
        fill=fill,
        imported=["t119"],
        hidden=[SECRET_KEY],
        hold=lambda path: hold(glue, tuple(path.split("/"))),
    )


class TestExample(EndToEnd, HeldNames):
    """The suite, over Glue."""


def test_what_is_inside_a_nested_catalog_is_managed(glue: GlueServer, connect: Connect, manifest: Path) -> None:
    edit(
        manifest,
        (
            "          eu:\n            tables:",
            "          eu: {namespaces: {crm: {properties: {a: b}}}}\n          it:\n            tables:",
        ),
    )
    assert_blocked(planned(manifest), "prod/sales/eu", ReasonCode.KIND_NOT_NESTABLE, kind="catalog")
    glue.add_catalog("sales")
    glue.add_catalog("sales/eu")
    assert ("sales/eu/crm", Action.CREATE_NAMESPACE) in actions(apply(manifest))
    assert connect().load_namespace(("sales", "eu", "crm")).kind == "database"


def test_a_namespace_with_something_else_in_it_is_kept_with_a_note(glue: GlueServer, manifest: Path) -> None:
    apply(manifest)
    databases(glue, ["theirs"], catalog_id("sales"))
    glue.add_function("analytics", "mask")
    text = manifest.read_text()
    manifest.write_text(text[: text.index("    namespaces:")] + "    namespaces: {}\n")
    made = reconciler.plan(reconciler.load(manifest), allow_mass_removal=True)
    notes = noted(made, "where", "count", "names")
    assert (NoteCode.KEPT_NAMESPACE, "prod/analytics", 1, ("mask",)) in notes
    assert (NoteCode.KEPT_NAMESPACE, "prod/sales") in noted(made, "where")
    assert Action.DROP_NAMESPACE not in {
        change.action for change in made.changes if change.identifier != ("sales", "eu")
    }


class TestPermissions:
    """The documented lists are enough, and none of their actions is too much."""

    def test_creating_updating_and_dropping_everything_takes_both_lists_and_all_of_them(
        self, glue: GlueServer, manifest: Path
    ) -> None:
        text = manifest.read_text()
        changed = text.replace("{owner: ml-platform}", "{owner: b}").replace("sales-platform", "c").replace("gold", "d")
        emptied = text[: text.index("    namespaces:")] + "    namespaces: {}\n"
        planning: set[str] = set()
        applying: set[str] = set()
        for stage in (text, changed, emptied):
            manifest.write_text(stage)
            loaded = reconciler.load(manifest)
            glue.reset()
            glue.allow(PLAN)
            made = reconciler.plan(loaded, allow_mass_removal=True)
            planning |= {call.action for call in glue.calls()}
            glue.allow(PLAN | APPLY)
            assert reconciler.apply(made, loaded, allow_mass_removal=True).ok
            applying |= {call.action for call in glue.calls()}
        assert planning == PLAN
        assert applying == PLAN | APPLY


def test_tables_are_made_in_one_call_each(glue: GlueServer, manifest: Path) -> None:
    tables = "".join(f"          t{number}: {{location: /lake/t{number}.lance}}\n" for number in range(60))
    text = manifest.read_text()
    manifest.write_text(
        f"{text[: text.index('    namespaces:')]}    namespaces:\n      big:\n        tables:\n{tables}"
    )
    loaded = reconciler.load(manifest)
    made = reconciler.plan(loaded)
    glue.reset()
    assert reconciler.apply(made, loaded).ok
    calls = Counter(call.action.removeprefix("glue:") for call in glue.calls())
    assert calls["CreateTable"] == 60
    assert calls["GetTable"] == 0
    assert calls.total() <= 66
    assert reconciler.plan(loaded).changes == ()


def test_a_profile_has_every_call_in_its_stage(
    glue: GlueServer, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    databases(glue, ["analytics"])
    glue.reset()
    assert lancens(capsys, "plan", "--profile", "profile.json").code in (0, 3)
    asked = glue.counts()
    stages = json.loads(Path("profile.json").read_text())["stages"]
    counted = {stage["stage"]: stage["calls"] for stage in stages if "calls" in stage}
    assert sum(counted.values()) == asked.total()
    assert counted["scan"] >= asked["GetDatabases"] > 0
    assert all(stage["bytes"] > 0 for stage in stages if stage.get("calls"))
    assert SECRET_KEY not in Path("profile.json").read_text()


def test_calls_of_each_kind_of_change(manifest: Path, tmp_path: Path) -> None:
    assert calls_of_changes(manifest, "sales", root=str(tmp_path / "lake")) == {
        "declare": (3, 1),
        "create": (3, 2),
        "update": (3, 2),
        "move": (3, 7),
        "removal": (3, 2),
    }
