"""A directory catalog read in parts: together they are the whole, and a part costs what is in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lance
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.backends.base import snapshot_within
from reconciler.backends.dir import DirBackend
from reconciler.backends.dir.manifest import DirManifest
from reconciler.backends.dir.rows import Row, StoredLocations
from reconciler.model.live import Snapshot
from reconciler.model.names import ChildrenOf, Identifier, Only, Scope, join
from tests.soak import count

_names = st.sampled_from(["a", "b", "ab", "a%", "a_", "it's", 'q"q', "größer", "東京", "back\\slash", "*", "**", "`c`"])
_identifiers = st.lists(_names, min_size=1, max_size=4).map(tuple)
_entries = st.lists(_names | st.sampled_from(["", "tab\t", ".."]), min_size=1, max_size=4).map(tuple)
_types = st.sampled_from(["table", "table", "namespace", "view"])
_more = [f"more{number}" for number in range(1_001)]
_many = [(f"missing{number}",) for number in range(50)]
_scopes = st.one_of(
    st.lists(st.just(()) | _identifiers, max_size=4).map(ChildrenOf),
    st.lists(_identifiers, max_size=4).map(lambda namespaces: ChildrenOf([*namespaces, *_many])),
    st.lists(_identifiers, max_size=4).map(Only),
    st.lists(_identifiers, max_size=4).map(
        lambda names: Only([*names, *((*name, one) for name in names for one in _more)])
    ),
    st.builds(ChildrenOf, st.lists(_identifiers, max_size=4), st.lists(_identifiers, max_size=4)),
)
_directories = st.lists(_names.map(lambda name: f"{name}.lance"), max_size=3)


def _fill(root: Path, entries: dict[Identifier, str], directories: Iterable[str]) -> None:
    rows = [
        Row(join(identifier), kind, f"data/{number}.lance" if kind == "table" else None, f'{{"n":"{number}"}}')
        for number, (identifier, kind) in enumerate(entries.items())
    ]
    DirManifest(StoredLocations(str(root)), {}).update(lambda contents: (contents.put(*rows), None))
    for name in directories:
        (root / name / "_versions").mkdir(exist_ok=True, parents=True)


def _scan(root: Path, scope: Scope) -> Snapshot:
    """Scan over a connection of its own, which has read nothing yet."""
    return DirBackend(root=str(root)).scan(scope)


@pytest.mark.soak
@given(st.dictionaries(_entries, _types, max_size=12), _directories)
@settings(max_examples=count(40, 1_000))
def test_the_namespaces_read_one_by_one_are_the_whole_catalog(
    entries: dict[Identifier, str], directories: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _fill(root, entries, directories)
        whole = DirBackend(root=folder).scan()
        parts = [_scan(root, ChildrenOf([namespace])) for namespace in ((), *whole.namespaces)]
    assert {found: live for part in parts for found, live in part.namespaces.items()} == whole.namespaces
    assert {found: live for part in parts for found, live in part.tables.items()} == whole.tables
    assert {note for part in parts for note in part.notes} == set(whole.notes)
    assert sum(len(part.tables) for part in parts) == len(whole.tables)


@pytest.mark.soak
@given(st.dictionaries(_entries, _types, max_size=12), _directories, _scopes)
@example({("a",): "table", ("", "a"): "table"}, [], Only([("a",)]))
@settings(max_examples=count(60, 2_000))
def test_a_part_is_what_the_scope_selects_of_the_whole(
    entries: dict[Identifier, str], directories: list[str], scope: Scope
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _fill(root, entries, directories)
        whole, part = DirBackend(root=folder).scan(), _scan(root, scope)
    wanted = snapshot_within(scope, whole.namespaces.values(), whole.tables.values())
    assert (part.namespaces, part.tables) == (wanted.namespaces, wanted.tables)
    assert set(part.notes) <= set(whole.notes)


@pytest.mark.parametrize("names", [("a",), ("it's",), ('q"q',), ("a%", "_b"), ("größer", "東京"), ("back\\slash",)])
def test_one_namespace_is_all_that_is_read_of_a_large_catalog(
    tmp_path: Path, names: Identifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries: dict[Identifier, str] = {(*names[:depth],): "namespace" for depth in range(1, len(names) + 1)}
    entries |= {(*names, f"t{number}"): "table" for number in range(3)}
    entries |= {("other", f"t{number}"): "table" for number in range(1_000)}
    entries |= {(f"{names[0]}{beside}", "t"): "table" for beside in ("", "$", "%", "x", " ")}
    entries |= {(f"{names[0][:-1]}_", "t"): "table"}
    _fill(tmp_path, entries, ())
    read: list[int] = []
    genuine = lance.LanceDataset.to_table

    def counted(dataset: lance.LanceDataset, **options: Any) -> Any:
        rows = genuine(dataset, **options)
        read.append(rows.num_rows)
        return rows

    monkeypatch.setattr(lance.LanceDataset, "to_table", counted)
    found = _scan(tmp_path, ChildrenOf([names]))
    assert set(found.tables) == {table for table, kind in entries.items() if kind == "table" and table[:-1] == names}
    assert len(read) == 1
    assert read[0] <= len(entries) - 1_000


@given(st.dictionaries(_entries, _types, max_size=30), st.integers(0, 3))
def test_large_namespaces_are_those_with_many_tables(entries: dict[Identifier, str], most: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _fill(Path(folder), entries, [])
        backend = DirBackend(root=folder)
        tables = backend.scan().tables
        large = backend.large_namespaces(most)
        for namespace in backend.scan().namespaces:
            there = {table[-1] for table in tables if table[:-1] == namespace}
            if len(there) > most:
                assert there <= set(large[namespace])
            assert set(backend.child_namespaces(namespace)) == {
                one[-1] for one in backend.scan().namespaces if one[:-1] == namespace
            }
