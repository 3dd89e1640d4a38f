"""Data in the layout of Hive's own warehouse, of which the entries are lost."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

import reconciler
from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.model import locations
from reconciler.model.errors import NamespaceNotFoundError, TableNotFoundError
from reconciler.model.names import Identifier
from tests.catalogs.hive.files import digests
from tests.servers.hive import Metastore
from tests.writing import write_dataset


@pytest.fixture
def lost(server: Metastore, backend: Hive2Backend, lake: str) -> Iterator[dict[Identifier, str]]:
    """The names and places of tables in Hive's own layout; their entries and databases were dropped."""
    name = f"hv_{uuid.uuid4().hex[:12]}"
    above: Identifier = () if server.impl == "hive2" else ("hive",)
    places = {(*above, name, "u"): f"{lake}/{name}.db/u", (*above, "default", f"{name}_t"): f"{lake}/{name}_t"}
    databases = [(*above, name)]
    if above:
        places[name, "hv", "u"] = f"{lake}/{name}/hv.db/u"
        databases += [(name,), (name, "hv")]

    def drop() -> None:
        for table in places:
            backend.remove_table(table)
        for database in reversed(databases):
            backend.remove_namespace(database)

    for database in databases:
        backend.insert_namespace(database, {})
    for table, place in places.items():
        write_dataset(Path(place), rows=3)
        backend.insert_table(table, place, {})
    drop()
    yield places
    with suppress(TableNotFoundError, NamespaceNotFoundError):
        drop()
        backend.remove_namespace((*above, "default"))


def test_lost_entries_come_back_under_the_same_names(
    server: Metastore, backend: Hive2Backend, config: Mapping[str, str], lost: Mapping[Identifier, str], tmp_path: Path
) -> None:
    before = digests(tmp_path)
    written = tmp_path / "lancens.yaml"
    # What other tests left on the server is managed under other names.
    catalog = {"impl": server.impl, "config": dict(config)}
    written.write_text(json.dumps({"version": 1, "name": "found", "catalogs": {"main": catalog}}))
    name = next(iter(lost))[-2]
    select = [f"main/**/{name}*", f"main/**/{name}*/**"]
    written.write_text(reconciler.import_(reconciler.load(written), from_storage=True, select=select))
    manifest = reconciler.load(written)
    assert set(manifest.catalogs["main"].desired.tables) == set(lost)
    report = reconciler.apply(reconciler.plan(manifest), manifest)
    assert {str(result.change.action) for result in report.results if result.change.kind == "table"} == {
        "register-table"
    }
    found = {one: locations.normalise(backend.load_table(one).location) for one in lost}
    assert found == lost
    assert reconciler.plan(manifest).changes == ()
    assert {path: digest for path, digest in digests(tmp_path).items() if path in before} == before
