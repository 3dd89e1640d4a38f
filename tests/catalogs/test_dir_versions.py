"""Tables whose versions have rows of their own in ``__manifest``, as pylance 4 to 7 can write them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pytest
from lance_namespace import ListTablesRequest

from reconciler.backends.dir import DirBackend
from reconciler.model.errors import NamespaceNotFoundError
from reconciler.model.live import PropertyChanges
from reconciler.model.names import ChildrenOf, Only
from tests.clients.environments import environment

TABLE, ROOT_TABLE = ("n", "t"), ("r",)

_ASKED = """
import json, sys, lance, lance_namespace, pyarrow

def make(at):
    at.create_namespace(lance_namespace.CreateNamespaceRequest(id=["n"]))
    for name in (["n", "t"], ["r"]):
        for mode in ("create", "append"):
            lance.write_dataset(pyarrow.table({"id": [1, 2, 3]}), namespace_client=at, table_id=name, mode=mode)

def look(at, *name):
    found = lance.dataset(namespace_client=at, table_id=[*name])
    versions = at.list_table_versions(lance_namespace.ListTableVersionsRequest(id=[*name])).versions
    lance.write_dataset(pyarrow.table({"id": [4]}), namespace_client=at, table_id=[*name], mode="append")
    after = lance.dataset(namespace_client=at, table_id=[*name])
    return [found.count_rows(), [one.version for one in versions], after.count_rows()]

kept = {"table_version_tracking_enabled": "true", "table_version_storage_enabled": "true"}
for line in sys.stdin:
    what, root, *name = json.loads(line)
    at = lance_namespace.connect("dir", {"root": root, **kept})
    print(json.dumps({"make": make, "look": look}[what](at, *name)), flush=True)
"""

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Ask the pylance that writes such rows, in a process of its own, to make a lake or to look at a table of one."""
    command = [str(environment("pylance7") / "bin/python"), "-c", _ASKED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asks, answers = process.stdin, process.stdout

        def one(*asked: str) -> Any:
            asks.write(json.dumps(asked) + "\n")
            asks.flush()
            return json.loads(answers.readline())

        yield one
        asks.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, ask: Ask) -> Path:
    folder = tmp_path_factory.mktemp("versions") / "lake"
    ask("make", str(folder))
    return folder


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "lake"))


@pytest.fixture
def ours(lake: Path) -> DirBackend:
    return DirBackend(root=str(lake))


def _versions(lake: Path) -> list[str]:
    rows = lance.dataset(str(lake / "__manifest")).to_table(filter="object_type = 'table_version'")
    return sorted(rows.column("object_id").to_pylist())


def _of(*tables: str) -> list[str]:
    return [f"{table}${version:020}" for table in tables for version in (1, 2)]


@pytest.fixture
def seen_by_its_pylance(lake: Path, ask: Ask) -> Ask:
    """Return the rows of a table, the versions that have rows, and the rows after one more was written."""
    return partial(ask, "look", str(lake))


def test_the_versions_are_no_objects(lake: Path, ours: DirBackend) -> None:
    assert _versions(lake) == _of("n$t", "r")
    seen = ours.scan()
    assert (set(seen.namespaces), set(seen.tables), seen.notes) == ({("n",)}, {TABLE, ROOT_TABLE}, ())
    for scope in (ChildrenOf([(), ("n",)]), ChildrenOf([("n",)]), Only([TABLE]), ChildrenOf([("r",), TABLE])):
        part = ours.scan(scope)
        assert set(part.namespaces) <= {("n",)}
        assert set(part.tables) <= {TABLE, ROOT_TABLE}
        assert part.notes == ()
    assert (sorted(ours.child_namespaces(())), sorted(ours.child_tables(()))) == (["n"], ["r"])
    assert (ours.child_namespaces(("n",)), ours.child_tables(("n",)), ours.foreign_objects(("n",))) == ([], ["t"], [])
    for table in (TABLE, ROOT_TABLE):
        with pytest.raises(NamespaceNotFoundError):
            ours.load_namespace(table)


def test_they_go_with_a_table_that_is_deregistered(lake: Path, ours: DirBackend) -> None:
    ours.remove_table(TABLE)
    assert _versions(lake) == _of("r")
    ours.remove_table(ROOT_TABLE)
    assert _versions(lake) == []
    ours.remove_namespace(("n",))
    assert ours.scan() == DirBackend(root=str(lake / "elsewhere")).scan()


def test_a_table_that_is_entered_again_has_none_of_an_earlier_one(
    lake: Path, ours: DirBackend, seen_by_its_pylance: Ask
) -> None:
    """What another client left behind when it took the table away."""
    place = ours.load_table(TABLE).location
    dataset = lance.dataset(str(lake / "__manifest"))
    dataset.delete("object_id = 'n$t'")
    assert _versions(lake) == _of("n$t", "r")
    assert set(ours.scan().tables) == {ROOT_TABLE}
    ours.insert_table(TABLE, place, {})
    assert _versions(lake) == _of("r")
    assert seen_by_its_pylance(*TABLE) == [6, [], 7]


def test_they_go_along_with_a_table_that_is_renamed(lake: Path, ours: DirBackend, seen_by_its_pylance: Ask) -> None:
    ours.insert_namespace(("n", "deep"), {})
    to = ("n", "deep", "größer")
    ours.rename_table(TABLE, to)
    assert _versions(lake) == sorted(_of("n$deep$größer", "r"))
    assert seen_by_its_pylance(*to) == [6, [1, 2], 7]
    theirs = lance_namespace.connect("dir", {"root": str(lake)})
    assert theirs.list_tables(ListTablesRequest(id=["n"])).tables == []
    assert lance.dataset(namespace_client=theirs, table_id=list(to)).count_rows() == 7


def test_they_stay_when_properties_change(lake: Path, ours: DirBackend, seen_by_its_pylance: Ask) -> None:
    for table in (TABLE, ROOT_TABLE):
        ours.alter_table(table, PropertyChanges({"tier": "gold"}))
    ours.alter_namespace(("n",), PropertyChanges({"owner": "me"}))
    assert _versions(lake) == _of("n$t", "r")
    assert seen_by_its_pylance(*TABLE) == [6, [1, 2], 7]


def test_a_table_that_is_relocated_has_the_versions_of_its_new_place(
    lake: Path, ours: DirBackend, seen_by_its_pylance: Ask
) -> None:
    before = ours.load_table(TABLE).location
    shutil.copytree(before, lake / "copied.lance")
    ours.alter_table(TABLE, PropertyChanges(), str(lake / "copied.lance"))
    assert _versions(lake) == _of("r")
    assert seen_by_its_pylance(*TABLE) == [6, [], 7]
    assert (lance.dataset(before).count_rows(), lance.dataset(str(lake / "copied.lance")).count_rows()) == (6, 7)
