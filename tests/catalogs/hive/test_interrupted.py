"""Creates that are cut off at every call: no entry of ours ever points at somebody's data, and the next apply is whole.

What is in the metastore is read past the backends after every cut, before anything else is done.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import reconciler
from reconciler.manifest import Manifest
from reconciler.model.errors import LancensError
from reconciler.model.names import Identifier
from tests.catalogs.hive.conftest import oldest_and_newest
from tests.catalogs.hive.files import digests
from tests.catalogs.hive.raw import entries, raw
from tests.servers.fault_proxy import FaultProxy, fault_proxy
from tests.servers.hive import Metastore
from tests.servers.spark_sql import spark_sql
from tests.writing import write_dataset


@pytest.fixture
def proxy(server: Metastore) -> Iterator[FaultProxy]:
    with fault_proxy(server.port, "thrift") as running:
        yield running


@dataclass
class Round:
    """One catalog where there are catalogs, one database and three tables, of which two have data already."""

    server: Metastore
    proxy: FaultProxy
    folder: Path
    name: str

    @classmethod
    def begin(cls, server: Metastore, proxy: FaultProxy, folder: Path) -> Round:
        """Write a manifest with names of its own, and data at the places it names."""
        made = cls(server, proxy, folder, f"r_{uuid.uuid4().hex[:12]}")
        for place in (made.database / "users", made.database / "landing" / "clicks.lance", made.above / "stray.lance"):
            write_dataset(place)
        (folder / "lancens.yaml").write_text(made._manifest())
        return made

    @property
    def above(self) -> Path:
        """The catalog's directory, or where the database's is."""
        root = self.folder / "lake"
        return root if self.server.impl == "hive2" else root / self.name

    @property
    def database(self) -> Path:
        return self.above / (f"{self.name}.db" if self.server.impl == "hive2" else "db.db")

    @property
    def places(self) -> Mapping[Identifier, Path]:
        """Where every entry of the manifest is."""
        above = () if self.server.impl == "hive2" else (self.name,)
        inside = (*above, self.name if self.server.impl == "hive2" else "db")
        return {
            **({above: self.above} if above else {}),
            inside: self.database,
            (*inside, "users"): self.database / "users",
            (*inside, "events"): self.database / "events",
            (*inside, "clicks"): self.database / "landing" / "clicks.lance",
        }

    def _manifest(self) -> str:
        *_, database, _, _, _ = self.places
        namespaces = f"{{{database[-1]}: {{properties: {{tier: gold}}, tables: *tables}}}}"
        if self.server.impl == "hive3":
            namespaces = f"{{{self.name}: {{properties: {{tier: gold}}, namespaces: {namespaces}}}}}"
        return f"""
version: 1
name: interrupted
catalogs:
  lake:
    impl: {self.server.impl}
    config: {{uri: "thrift://127.0.0.1:{self.proxy.port}", root: {self.folder}/lake, client.pool-size: "1"}}
    scope: ["{self.name}", "{self.name}/**"]
    namespaces: {namespaces.replace("*tables", self._tables())}
"""

    def _tables(self) -> str:
        clicks = self.database / "landing" / "clicks.lance"
        return f"{{users: {{}}, events: {{schema: [{{name: id, type: int64}}]}}, clicks: {{location: {clicks}}}}}"

    @property
    def manifest(self) -> Manifest:
        return reconciler.load(self.folder / "lancens.yaml")

    def apply(self, plan: reconciler.Plan) -> reconciler.ApplyReport:
        return reconciler.apply(plan, self.manifest, journal=self.folder / "journal", parallelism=1)

    def drop_everything(self) -> None:
        """Take the entries away again, so that the metastore does not fill up."""
        database = next(name for name in self.places if len(name) == self._depth)
        wire = database[0] if self._depth == 1 else f"@{database[0]}#{database[1]}"
        with raw(self.server.uri) as client:
            client.drop_database(wire, False, True)

    @property
    def _depth(self) -> int:
        return 1 if self.server.impl == "hive2" else 2


def _calls_of_an_apply(server: Metastore, proxy: FaultProxy, folder: Path) -> int:
    """Return how many calls it takes to make everything when nothing goes wrong."""
    folder.mkdir()
    clean = Round.begin(server, proxy, folder)
    plan = reconciler.plan(clean.manifest)
    proxy.reset()
    assert clean.apply(plan).ok
    calls = len(proxy.calls)
    clean.drop_everything()
    return calls


@oldest_and_newest
@pytest.mark.soak
def test_what_a_cut_off_create_leaves_can_be_dropped_by_anybody(
    server: Metastore, proxy: FaultProxy, tmp_path: Path
) -> None:
    """Spark SQL, or the call it sends where it cannot speak to the metastore, loses no file over it."""
    calls = _calls_of_an_apply(server, proxy, tmp_path / "clean")
    before = frozenset(entries(server.uri))
    rounds: list[Round] = []
    for number in range(calls):
        (tmp_path / str(number)).mkdir()
        proxy.reset()
        rounds.append(Round.begin(server, proxy, tmp_path / str(number)))
        plan = reconciler.plan(rounds[-1].manifest)
        proxy.cut_at(number, reply_lost=True)
        with suppress(LancensError):
            rounds[-1].apply(plan)
    files = digests(tmp_path)
    ours = [
        name for name in entries(server.uri) if name not in before and not any(name in made.places for made in rounds)
    ]
    with raw(server.uri) as client:
        for name in ours:
            wire = name[:-1]
            if len(name) == (2 if server.impl == "hive2" else 3):
                client.drop_table(wire[0] if len(wire) == 1 else f"@{wire[0]}#{wire[1]}", name[-1], True)
    databases = [name for name in ours if len(name) == (1 if server.impl == "hive2" else 2)]
    seen = [name for name in databases if name[:-1] in ((), ("hive",))]
    if server.version != "4.1" and server.auto_created:
        spark_sql(server.uri, ["SHOW DATABASES", *(f"DROP DATABASE {name[-1]}" for name in seen)], tmp_path / "spark")
    with raw(server.uri) as client:
        for name in databases:
            if name in frozenset(entries(server.uri)):
                client.drop_database(name[0] if len(name) == 1 else f"@{name[0]}#{name[1]}", True, False)
    after = digests(tmp_path)
    assert {name: after.get(name) for name in files} == files
