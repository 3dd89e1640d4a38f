"""Names that the service holds twice, after two creates at the same moment: always an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import pytest
import yaml

import reconciler
from reconciler.applier.report import ApplyReport
from reconciler.backends.http.listing import DoubledNameError
from reconciler.backends.unity import UnityBackend
from reconciler.model.errors import BackendError, TableAlreadyExistsError
from reconciler.model.names import Scope
from tests.catalogs.unity.conftest import CATALOG, Unity
from tests.servers.unity import required_home

SCHEMA = (CATALOG, "s0")
TABLE = (*SCHEMA, "t")
TWICE = r"the table `main\$s0\$t` is there twice.*two creates at the same moment.*taken out of its database"
ATTEMPTS = 40
ResultT = TypeVar("ResultT")


@pytest.fixture
def real(unity: Unity) -> Unity:
    """The real server, which alone lets two creates at the same moment succeed."""
    required_home()
    return unity


@pytest.fixture
def two(real: Unity) -> Iterator[tuple[UnityBackend, UnityBackend]]:
    """Two connections, as two processes have."""
    with ExitStack() as stack:
        backends = real.connect(), real.connect()
        for backend in backends:
            stack.callback(backend.close)
        yield backends


def together(*calls: Callable[[], ResultT]) -> list[ResultT | BackendError | reconciler.LancensError]:
    """Return what each of ``calls`` returns or raises; they start at the same moment."""
    barrier = Barrier(len(calls))

    def run(call: Callable[[], ResultT]) -> ResultT | BackendError | reconciler.LancensError:
        barrier.wait()
        try:
            return call()
        except (BackendError, reconciler.LancensError) as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


# ---- reading -----------------------------------------------------------------------------------------------------


def test_a_scan_names_the_table_and_the_way_out(unity: Unity) -> None:
    unity.fill(3)
    unity.contract.double(*TABLE)
    with pytest.raises(DoubledNameError, match=TWICE):
        unity.connect().scan()


def test_the_second_row_is_found_behind_the_end_of_a_page(unity: Unity) -> None:
    """The server goes on behind the last name of a page, so that the row is on none."""
    unity.fill(99)
    unity.contract.double(*TABLE)
    with pytest.raises(DoubledNameError, match=TWICE):
        unity.connect().scan()


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (("twice",), "the catalog `twice` is there twice"),
        ((CATALOG, "twice"), r"the schema `main\$twice` is there twice.*have the other one dropped"),
    ],
)
def test_a_scan_names_the_schema_or_the_catalog(unity: Unity, names: tuple[str, ...], line: str) -> None:
    unity.contract.double(*names)
    with pytest.raises(DoubledNameError, match=line):
        unity.connect(catalog=names[0]).scan()


def test_lists_and_calls_say_so_too(unity: Unity) -> None:
    unity.fill(1)
    unity.contract.double(*TABLE)
    unity.contract.double(CATALOG, "twice")
    backend = unity.connect()
    attempts: list[Callable[[], object]] = [
        lambda: backend.child_tables(SCHEMA),
        lambda: backend.child_namespaces((CATALOG,)),
        lambda: backend.load_table(TABLE),
        lambda: backend.remove_table(TABLE),
        lambda: backend.insert_table(TABLE, "s3://lake/t.lance", {}),
    ]
    for attempt in attempts:
        with pytest.raises(DoubledNameError, match=r"twice|unique result"):
            attempt()


def test_what_is_not_in_the_scope_does_not_matter(unity: Unity) -> None:
    unity.fill(2, 1)
    unity.contract.double(*TABLE)
    unity.contract.double(CATALOG, "twice")
    snapshot = unity.connect().scan(Scope((f"{CATALOG}/s0/t000*", f"{CATALOG}/s1/*")))
    assert sorted(table[-1] for table in snapshot.tables) == ["t0000", "t0000", "t0001"]


def test_a_row_that_two_pages_show_is_one(stand_in: Unity) -> None:
    stand_in.fill(3)
    row = dict(stand_in.contract.table(*SCHEMA, "t0000"))
    stand_in.server.fail_once("/tables?", 200, {"tables": [row], "next_page_token": "more"})
    stand_in.server.fail_once("/tables?", 200, {"tables": [row], "next_page_token": None})
    assert set(stand_in.connect().scan().tables) == {(*SCHEMA, "t0000")}


def test_a_table_re_created_between_two_pages_is_listed_once(stand_in: Unity) -> None:
    stand_in.fill(2)
    row = dict(stand_in.contract.table(*SCHEMA, "t0000"))
    stand_in.server.fail_once("/tables?", 200, {"tables": [{**row, "table_id": "old"}], "next_page_token": "more"})
    stand_in.server.fail_once("/tables?", 200, {"tables": [row], "next_page_token": None})
    assert len(stand_in.connect().scan().tables) == 2


# ---- making ------------------------------------------------------------------------------------------------------


def test_a_table_made_twice_at_once_never_ends_well_twice(real: Unity, two: tuple[UnityBackend, UnityBackend]) -> None:
    real.fill(0)
    seen_double = False
    for attempt in range(ATTEMPTS):
        name = (*SCHEMA, f"t{attempt}")
        ended = together(*[partial(backend.insert_table, name, "s3://lake/t.lance", {}) for backend in two])
        errors = [error for error in ended if isinstance(error, BackendError)]
        assert errors
        assert all(isinstance(error, TableAlreadyExistsError | DoubledNameError) for error in errors), errors
        if any(isinstance(error, DoubledNameError) for error in errors):
            seen_double = True
            assert "by somebody else too: the table" in str(errors[-1])
            break
    assert seen_double


def test_a_schema_made_twice_at_once_never_ends_well_twice(
    two: tuple[UnityBackend, UnityBackend],
) -> None:
    for attempt in range(ATTEMPTS):
        name = (CATALOG, f"s{attempt}")
        ended = together(*[partial(backend.insert_namespace, name, {}) for backend in two])
        errors = [error for error in ended if isinstance(error, BackendError)]
        assert errors
        if any(isinstance(error, DoubledNameError) for error in errors):
            return
    pytest.fail("no two creates were at the same moment")


def test_two_applies_at_once_do_not_both_end_well(real: Unity, tmp_path: Path) -> None:
    """What one of them made twice fails it, and no plan calls it `No changes` afterwards."""
    for attempt in range(ATTEMPTS):
        real.contract.add_schema(CATALOG, f"a{attempt}")
        path = tmp_path / f"{attempt}.yaml"
        path.write_text(manifest_of(real, f"a{attempt}"))
        manifest = reconciler.load(path)
        plans = [reconciler.plan(manifest) for _ in range(2)]
        journals = [tmp_path / f"journal-{number}" for number in range(2)]
        ended = together(*[partial(reconciler.apply, plans[n], manifest, journal=journals[n]) for n in range(2)])
        rows = real.listed(f"a{attempt}")
        if len(set(rows)) < len(rows):
            assert not all(isinstance(report, ApplyReport) and report.ok for report in ended)
            assert "it was made, but by somebody else too" in str(ended)
            with pytest.raises(reconciler.CatalogError, match="is there twice"):
                reconciler.plan(manifest)
            return
        assert reconciler.plan(manifest).changes == ()
    pytest.fail("no two creates were at the same moment")


def manifest_of(unity: Unity, schema: str) -> str:
    """Return a manifest of six tables to be declared."""
    tables = {f"t{number}": {"location": f"/lake/{number}.lance"} for number in range(6)}
    catalog = {
        "impl": "unity",
        "config": unity.config(),
        "scope": [f"{CATALOG}/{schema}/*"],
        "namespaces": {CATALOG: {"namespaces": {schema: {"tables": tables}}}},
    }
    return yaml.safe_dump({"version": 1, "name": "shop", "catalogs": {"governed": catalog}})
