"""From a manifest to the metastore and back, through the public API."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from lance_namespace import DropNamespaceRequest

from reconciler.backends import registry
from reconciler.backends.hive.entries import catalog_name, wire_name
from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.model.live import PropertyChanges
from reconciler.namespace import CatalogNamespace
from reconciler.planner.entries import Action
from tests.catalogs.calling import calls_of_changes
from tests.catalogs.end_to_end import EndToEnd, Example, HeldNames, Stage, cut, edit, opened
from tests.catalogs.hive.conftest import EVERY, newest
from tests.catalogs.hive.raw import drop, plain_table, put, raw
from tests.servers.hive import Metastore
from tests.writing import write_dataset

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def manifest(
    server: Metastore, config: Mapping[str, str], lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The example for the server, with its environment; what it made goes at the end."""
    monkeypatch.setenv("HIVE_URI", server.uri)
    monkeypatch.setenv("HIVE_ROOT", lake)
    monkeypatch.chdir(tmp_path)
    write_dataset(Path(lake, "landing", "clicks.lance"))
    yield Path(shutil.copy(EXAMPLES / server.impl / "lancens.yaml", tmp_path / "lancens.yaml"))
    backend = registry.connect(server.impl, config)
    for name in ("features", "raw") if server.impl == "hive2" else ("ml",):
        CatalogNamespace(backend).drop_namespace(DropNamespaceRequest(id=[name], behavior="cascade", mode="skip"))
    backend.close()


def look(server: Metastore, path: str) -> Mapping[str, str] | None:
    """Return the parameters of the object at a path, and the fields of a database beside them."""
    from reconciler.backends.hive.gen.ttypes import GetCatalogRequest, GetTableRequest, NoSuchObjectException

    *above, name = identifier = tuple(path.split("/"))
    with raw(server.uri) as client:
        try:
            match len(identifier) - (server.impl == "hive3"):
                case 0:
                    client.get_catalog(GetCatalogRequest(name))
                    return {}
                case 1:
                    struct = client.get_database(wire_name(identifier))
                    fields = {"description": struct.description, "ownerName": struct.ownerName}
                    return {**(struct.parameters or {}), **fields}
                case _:
                    request = GetTableRequest(dbName=above[-1], tblName=name, catName=catalog_name(above))
                    parameters: Mapping[str, str] = client.get_table_req(request).table.parameters
                    return parameters
        except NoSuchObjectException:
            return None


def hold(server: Metastore, path: str) -> Callable[[], None]:
    """Put a table of another kind at a path, and return what takes it away."""
    identifier = tuple(path.split("/"))
    put(server.uri, plain_table(identifier))
    return partial(drop, server.uri, identifier)


@pytest.fixture
def example(server: Metastore, backend: Hive2Backend, manifest: Path, lake: str) -> Example:
    above = "" if server.impl == "hive2" else "ml/"
    users, events, clicks = f"{above}features/users", f"{above}features/events", f"{above}raw/clicks"
    spaces = [*(["ml"] if above else []), f"{above}features", f"{above}raw"]

    def move_and_change() -> None:
        write_dataset(Path(lake, "landing", "newer.lance"), rows=2)
        edit(manifest, ("{tier: silver}", "{tier: gold}"), ("landing/clicks.lance", "landing/newer.lance"))

    def drift() -> None:
        backend.alter_table(tuple(events.split("/")), PropertyChanges({"tier": "bronze", "theirs": "kept"}))
        backend.remove_table(tuple(clicks.split("/")))

    return Example(
        manifest=manifest,
        look=lambda path: look(server, path),
        open=lambda path: opened(backend, path),
        raw=Path(lake, "landing"),
        data=Path(lake),
        first=Stage(
            [
                *((space, Action.CREATE_NAMESPACE) for space in spaces),
                (events, Action.DECLARE_TABLE),
                (users, Action.CREATE_TABLE),
                (clicks, Action.REGISTER_TABLE),
            ],
            shown={
                f"{above}features": {
                    "description": "What models are trained on",
                    "ownerName": "ml-platform",
                    "lancens.managed-by": "feature-store/lake",
                },
                users: {"EXTERNAL": "TRUE"},
            },
            rows={users: 0, clicks: 3},
        ),
        edited=Stage(
            [(events, Action.UPDATE_TABLE), (clicks, Action.RELOCATE_TABLE)],
            move_and_change,
            shown={events: {"tier": "gold"}},
            rows={clicks: 2},
        ),
        drift=Stage(
            [(events, Action.UPDATE_TABLE), (clicks, Action.REGISTER_TABLE)],
            drift,
            shown={events: {"tier": "silver", "theirs": "kept"}},
        ),
        removed=Stage(
            [
                *((table, Action.DEREGISTER_TABLE) for table in (events, users, clicks)),
                *((space, Action.DROP_NAMESPACE) for space in (*spaces[-2:], *spaces[:-2])),
            ],
            lambda: cut(manifest, "    namespaces:"),
            allow_mass_removal=True,
        ),
        returned=[(users, Action.REGISTER_TABLE), (clicks, Action.REGISTER_TABLE)],
        tables=[users, events],
        hold=lambda path: hold(server, path),
    )


@newest
@pytest.mark.soak
class TestExample(EndToEnd, HeldNames):
    """The suite, over every metastore."""


@pytest.mark.parametrize("server", EVERY[:2], indirect=True, scope="session")
def test_calls_of_each_kind_of_change(server: Metastore, manifest: Path) -> None:
    is_flat = server.impl == "hive2"
    above = ("features",) if is_flat else ("ml", "features")
    of_new, of_live = (3, 4) if is_flat else (5, 7)
    assert calls_of_changes(manifest, *above) == {
        "declare": (of_new, 3),
        "create": (of_new, 4),
        "update": (of_live, 3),
        "move": (of_live, 6),
        "removal": (of_live, 2),
    }
