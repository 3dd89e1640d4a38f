"""Independent changes of a directory end the same together as one by one, whatever goes wrong with their commits."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import lance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.backends.dir import DirBackend
from reconciler.backends.dir.contents import ManifestRows
from reconciler.backends.dir.manifest import DirManifest
from reconciler.model.errors import BackendError, ServiceUnavailableError
from reconciler.model.live import PropertyChanges
from tests.soak import count

MOST = 12
Change = Callable[[DirBackend, int], object]

_properties = st.dictionaries(st.sampled_from(["k", "l"]), st.text("x'é", max_size=2), max_size=2)


def _insert(properties: dict[str, str]) -> Change:
    return lambda backend, number: backend.insert_table(("a", f"new{number}"), f"new{number}", properties)


def _alter(properties: dict[str, str], moves: bool) -> Change:
    def change(backend: DirBackend, number: int) -> object:
        place = f"moved{number}" if moves else None
        return backend.alter_table(("a", f"t{number}"), PropertyChanges(properties, frozenset({"old"})), place)

    return change


def _namespace(properties: dict[str, str]) -> Change:
    return lambda backend, number: backend.insert_namespace((f"n{number}",), properties)


def _alter_namespace(properties: dict[str, str]) -> Change:
    return lambda backend, number: backend.alter_namespace((f"s{number}",), PropertyChanges(properties))


_changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(_insert, _properties),
    st.builds(_alter, _properties, st.booleans()),
    st.just(lambda backend, number: backend.remove_table(("a", f"t{number}"))),
    st.just(lambda backend, number: backend.rename_table(("a", f"t{number}"), ("b", f"named{number}"))),
    st.builds(_namespace, _properties),
    st.builds(_alter_namespace, _properties),
    st.just(lambda backend, number: backend.remove_namespace((f"s{number}",))),
    st.just(lambda backend, number: backend.insert_table(("missing", f"t{number}"), "x", {})),
)
_faults = st.lists(st.sampled_from(["none", "somebody", "refused", "lost"]), max_size=6)
_DONE_ALREADY = {"TABLE_ALREADY_EXISTS", "TABLE_NOT_FOUND", "NAMESPACE_ALREADY_EXISTS", "NAMESPACE_NOT_FOUND"}
"""What a change ends with that is made again, as the answer of its first commit was lost."""


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Catalogs with something for each change to be about, to be copied, by the number of other tables."""
    places = {size: tmp_path_factory.mktemp(f"with_{size}") for size in (0, 3_000)}
    for size, place in places.items():
        _make(place, size)
    return places


def _make(root: Path, size: int) -> None:
    """Make such a catalog; its list of tables is in two fragments."""
    backend = DirBackend(root=str(root))
    for name in ("a", "b", *(f"s{number}" for number in range(MOST))):
        backend.insert_namespace((name,), {"old": "1"})
    for number in range(MOST):
        backend.insert_table(("a", f"t{number}"), f"t{number}", {"old": "1", "k": "1"})
    rows = lance.dataset(str(root / "__manifest")).to_table()
    more = rows.slice(0, 1).to_pylist()[0]
    others = [
        {**more, "object_id": f"b${number:05}", "object_type": "table", "location": "x"} for number in range(size)
    ]
    if others:
        lance.write_dataset(type(rows).from_pylist(others, rows.schema), str(root / "__manifest"), mode="append")


def _copy(catalog: Path, root: Path) -> DirBackend:
    shutil.copytree(catalog, root)
    return DirBackend(root=str(root))


def _failing(faults: Sequence[str], root: Path, theirs: list[str]) -> Any:
    """Return what stands for a commit that is refused, whose answer is lost, or that somebody is faster than.

    What that one has made is in ``theirs``.
    """
    left, genuine = list(faults), DirManifest.commit

    def commit(manifest: DirManifest, before: ManifestRows, after: ManifestRows) -> bool:
        fault = left.pop() if left else "none"
        if fault == "refused":
            raise ServiceUnavailableError("storage: not now")
        if fault == "somebody":
            place = str(root / "__manifest")
            theirs.append(f"b$theirs{len(left)}")
            row = {"object_id": theirs[-1], "object_type": "table", "location": "y"}
            seen = lance.dataset(place)
            lance.write_dataset(type(before.original).from_pylist([row], seen.schema), place, mode="append")
        done = genuine(manifest, before, after)
        if fault == "lost":
            raise ServiceUnavailableError("storage: no answer")
        return done

    return mock.patch.object(DirManifest, "commit", commit)


def _carried_out(change: Change, backend: DirBackend, number: int) -> str | None:
    """Make a change, again after each commit that failed, and return the code of the error that it ends with."""
    for _ in range(MOST):
        try:
            change(backend, number)
        except ServiceUnavailableError:
            continue
        except BackendError as error:
            return error.code.name
        return None
    raise AssertionError("more faults than were drawn")


def _together(backend: DirBackend, changes: Sequence[Change]) -> list[str | None]:
    """Make changes at once."""
    with ThreadPoolExecutor(MOST) as pool:
        with backend._manifest._lock:
            sent = [pool.submit(_carried_out, change, backend, number) for number, change in enumerate(changes)]
            while len(backend._manifest._waiting) < len(changes):
                threading.Event().wait(0.001)
        return [one.result() for one in sent]


def _seen(root: Path) -> dict[str, dict[str, object]]:
    """Return the rows as pylance reads them."""
    rows = lance.dataset(str(root / "__manifest")).to_table().to_pylist()
    found = {row["object_id"]: row for row in rows}
    assert len(found) == len(rows), "no name is there twice"
    return found


@pytest.mark.soak
@given(st.lists(_changes, min_size=1, max_size=MOST), _faults, st.sampled_from([0, 3_000]))
@settings(max_examples=count(20, 1_000), deadline=None)
def test_batches_end_as_one_by_one(
    catalogs: dict[int, Path], changes: list[Change], faults: list[str], others: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one, two = Path(folder, "one"), Path(folder, "two")
        alone, together = _copy(catalogs[others], one), _copy(catalogs[others], two)
        expected = [_carried_out(change, alone, number) for number, change in enumerate(changes)]
        theirs: list[str] = []
        with _failing(faults, two, theirs):
            answers = _together(together, changes)
        found = _seen(two)
        assert [name for name in theirs if found.pop(name, None) is None] == []
        assert found == _seen(one)
        for answer, wanted in zip(answers, expected, strict=True):
            is_told_late = "lost" in faults and wanted is None and answer in _DONE_ALREADY
            assert answer == wanted or is_told_late
