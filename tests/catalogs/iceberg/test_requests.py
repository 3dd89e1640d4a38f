"""What is noted of a location that was asked for is true, or a plan shows that it is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lance
import pytest

from reconciler.backends.iceberg import IcebergBackend
from reconciler.backends.iceberg.client import IcebergClient
from reconciler.model.errors import ServiceUnavailableError
from reconciler.model.names import Identifier
from reconciler.planner.entries import Action
from reconciler.planner.plan import Plan
from tests.catalogs.iceberg.conftest import Catalog
from tests.catalogs.iceberg.manifests import Store

REQUESTED, CHOSEN = "lancens.requested-location", "lancens.chosen-location"
SCHEMA = [{"name": "n", "type": "int64"}]


@pytest.fixture
def store(catalog: Catalog, space: Identifier, tmp_path: Path) -> Store:
    return Store(catalog, space, tmp_path)


def _actions(plan: Plan) -> list[Action]:
    return [change.action for change in plan.changes]


def _request(backend: IcebergBackend, table: Identifier) -> tuple[str | None, str | None]:
    properties = backend.load_table(table).properties
    return properties.get(REQUESTED), properties.get(CHOSEN)


@contextmanager
def _commits_lost() -> Iterator[None]:
    """Have every commit to a table fail on its way, as when the run is killed or the connection breaks."""

    def lost(*_: object) -> None:
        raise ServiceUnavailableError("the connection broke")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IcebergClient, "commit", lost)
        yield


@pytest.mark.parametrize("again", ["the same plan", "a new plan"])
@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["declared", "created"])
def test_a_second_commit_that_was_lost_is_made_by_the_next_run(
    catalog: Catalog, backend: IcebergBackend, space: Identifier, store: Store, schema: object, again: str
) -> None:
    table, asked = (*space, "t"), f"{catalog.root}/t.lance"
    store.wants({"t": {"location": asked, **({} if schema is None else {"schema": schema})}})
    saved = store.plan().to_json()
    with _commits_lost():
        assert not store.apply(Plan.from_json(saved)).ok
    assert _request(backend, table) == (asked, None)

    assert not store.plan().is_empty
    assert store.apply(Plan.from_json(saved) if again == "the same plan" else None).ok
    live = backend.load_table(table).location
    assert (live != asked) is catalog.ignores_location
    assert _request(backend, table) == ((asked, live) if catalog.ignores_location else (None, None))
    if schema is not None:
        assert lance.dataset(live, storage_options=backend.storage_options() or None).schema.names == ["n"]
    assert store.plan().is_empty
    assert store.apply(Plan.from_json(saved)).ok


@pytest.mark.parametrize("catalog", ["nessie"], indirect=True)
def test_a_service_that_ignores_locations_is_asked_again_once(
    catalog: Catalog, backend: IcebergBackend, space: Identifier, store: Store
) -> None:
    table, asked = (*space, "t"), f"{catalog.root}/asked.lance"
    store.wants({"t": {"location": asked}})
    with _commits_lost():
        assert not store.apply().ok
    plan = store.plan()
    assert _actions(plan) == [Action.UPDATE_TABLE]
    assert store.apply(plan).ok
    assert _request(backend, table) == (asked, backend.load_table(table).location)
    assert store.plan().is_empty
