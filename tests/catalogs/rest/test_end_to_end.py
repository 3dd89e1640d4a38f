"""The example manifest against lancens' own server, and what of it pylance's adapter can do."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.applier.report import Status
from reconciler.backends.dir import DirBackend
from reconciler.model.errors import UnsupportedOperationError
from reconciler.planner.entries import Action
from tests.catalogs.calling import calls_of_changes
from tests.catalogs.end_to_end import EndToEnd, Example, Stage, actions, apply, cut, edit, opened, planned
from tests.catalogs.rest.conftest import TOKEN, Server
from tests.cli.running import lancens

EXAMPLE = Path(__file__).parents[3] / "examples/rest/lancens.yaml"
EU = "        namespaces:\n          eu:"


@pytest.fixture
def manifest(serve: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example over lancens' server, beside a lake that holds its raw data."""
    return placed(serve, tmp_path, monkeypatch)


def placed(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANCE_REST_URI", server.config["uri"])
    monkeypatch.setenv("LANCE_REST_TOKEN", TOKEN)
    monkeypatch.setenv("LAKE_ROOT", str(server.root))
    monkeypatch.chdir(folder)
    lance.write_dataset(pa.table({"url": ["a", "b"]}), server.root / "raw/clicks.lance")
    return Path(shutil.copy(EXAMPLE, folder / "lancens.yaml"))


def look(root: Path, path: str) -> Mapping[str, str] | None:
    """Return the properties of the object at a path, as the directory behind the server has it."""
    found, identifier = DirBackend(root=str(root)).scan(), tuple(path.split("/"))
    there = found.tables.get(identifier) or found.namespaces.get(identifier)
    return None if there is None else there.properties


@pytest.fixture
def example(serve: Server, manifest: Path) -> Example:
    def move_and_change() -> None:
        lance.write_dataset(pa.table({"url": ["c"]}), serve.root / "raw/newer.lance")
        edit(
            manifest,
            ("{tier: gold}", "{tier: silver}"),
            ("raw/clicks.lance", "raw/newer.lance"),
            ("{owner: ml-platform}", "{owner: search}"),
        )

    return Example(
        manifest=manifest,
        look=lambda path: look(serve.root, path),
        open=lambda path: opened(serve.connect(), path),
        raw=serve.root / "raw",
        first=Stage(
            [
                ("features", Action.CREATE_NAMESPACE),
                ("features/eu", Action.CREATE_NAMESPACE),
                ("features/eu/clicks", Action.REGISTER_TABLE),
                ("features/events", Action.DECLARE_TABLE),
                ("features/users", Action.CREATE_TABLE),
            ],
            shown={"features/users": {"lancens.managed-by": "feature-store/shared", "tier": "gold"}},
            rows={"features/eu/clicks": 2, "features/users": 0},
        ),
        edited=Stage(
            [
                ("features", Action.UPDATE_NAMESPACE),
                ("features/eu/clicks", Action.RELOCATE_TABLE),
                ("features/users", Action.UPDATE_TABLE),
            ],
            move_and_change,
            shown={"features": {"owner": "search"}, "features/users": {"tier": "silver"}},
            rows={"features/eu/clicks": 1},
        ),
        drift=Stage(
            [("features/users", Action.REGISTER_TABLE)],
            lambda: serve.connect().remove_table(("features", "users")),
            rows={"features/users": 0},
        ),
        removed=Stage(
            [("features/eu/clicks", Action.DEREGISTER_TABLE), ("features/eu", Action.DROP_NAMESPACE)],
            lambda: cut(manifest, EU),
        ),
        returned=[("features/eu/clicks", Action.REGISTER_TABLE)],
        hidden=[TOKEN],
    )


class TestExample(EndToEnd):
    """The suite, over lancens' server."""


def test_what_the_server_redacts_is_compared_as_it_is_read(
    serve: Server, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A secret is kept and comes back as `(redacted)`; a tokenizer is nobody's secret."""
    edit(
        manifest,
        ("{tier: gold}", "{tier: gold, api_key: hunter2-hunter2, tokenizer: bpe, max_tokens: 512}"),
        ("{owner: ml-platform}", "{owner: ml-platform, db_password: hunter2-hunter2}"),
    )
    plan = planned(manifest)
    saved = reconciler.Plan.from_json(plan.to_json())
    assert reconciler.apply(plan, reconciler.load(manifest)).ok
    kept = look(serve.root, "features/users") or {}
    assert (kept["api_key"], kept["tokenizer"]) == ("hunter2-hunter2", "bpe")
    shown = serve.connect().load_table(("features", "users")).properties
    assert (shown["api_key"], shown["tokenizer"], shown["max_tokens"]) == ("(redacted)", "bpe", "512")

    again = lancens(capsys, "plan", "--detailed-exitcode")
    assert again.code == 0, again
    assert "features/users has properties whose" in again.out
    repeated = reconciler.apply(saved, reconciler.load(manifest))
    assert {result.status for result in repeated.results} == {Status.ALREADY}, repeated
    edit(manifest, ("tier: gold", "tier: silver"), ("owner: ml-platform", "owner: search"))
    assert [path for path, _ in actions(apply(manifest))] == ["features", "features/users"]
    assert look(serve.root, "features/users") == {**kept, "tier": "silver", "lancens.data": "true"}
    assert (look(serve.root, "features") or {})["db_password"] == "hunter2-hunter2"


def test_what_the_server_does_not_show_is_never_written_in_its_place(serve: Server) -> None:
    behind = DirBackend(root=str(serve.root))
    behind.insert_namespace(("a",), {})
    behind.insert_table(("a", "t"), f"{serve.root}/t.lance", {"api_key": "hunter2-hunter2"})
    read = serve.connect().load_table(("a", "t"))
    with pytest.raises(UnsupportedOperationError, match=r"`api_key`, so `a\$new` cannot"):
        serve.connect().insert_table(("a", "new"), read.location, read.properties)


def test_a_token_that_is_not_known_is_one_clear_error(
    manifest: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LANCE_REST_TOKEN", "another-token-0123456789")
    failed = lancens(capsys, "plan")
    assert failed.code == 1
    assert "shared (rest): " in failed.err
    assert "check `auth_token`: it is not accepted" in failed.err
    assert "another-token-0123456789" not in failed.out + failed.err


def test_on_pylances_adapter_the_same_without_marks(
    pylance_adapter: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = placed(pylance_adapter, tmp_path, monkeypatch)
    edit(
        manifest,
        ("      root:", "      table_properties: false\n      root:"),
        ("            properties: {tier: gold}\n", ""),
        ("{properties: {tier: silver}}", "{}"),
    )
    assert len(apply(manifest).changes) == 5
    cut(manifest, EU)
    assert actions(planned(manifest)) == []
    assert opened(pylance_adapter.connect(), "features/users").count_rows() == 0


def test_calls_of_each_kind_of_change(manifest: Path) -> None:
    assert calls_of_changes(manifest, "many") == {
        "declare": (5, 3),
        "create": (5, 4),
        "update": (9, 2),
        "move": (9, 6),
        "removal": (9, 3),
    }
