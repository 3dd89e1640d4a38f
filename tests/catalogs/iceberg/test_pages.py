"""What a page of names costs: the list, and the entries that are on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lance_namespace import ListTablesRequest

from reconciler.backends.iceberg import IcebergBackend
from reconciler.namespace import CatalogNamespace
from tests.catalogs.iceberg.scripted import error, scripted_catalog, table
from tests.servers.scripted import Answer, Request, Scripted

TABLES = 80
LIST = "/v1/ware/namespaces/n/tables"


@pytest.fixture
def server() -> Iterator[Scripted]:
    """A namespace of 80 tables, each fourth of them Iceberg's own."""

    def load(request: Request) -> Answer:
        number = int(request.path.rpartition("/t")[2])
        return Answer(table(f"/nowhere/{number}", **({} if number % 4 else {"table_type": "iceberg"})))

    with scripted_catalog() as server:
        names = [f"t{number:03}" for number in range(TABLES)]
        server.routes |= {
            "GET /v1/ware/namespaces/n": Answer({"namespace": ["n"], "properties": {}}),
            f"GET {LIST}": Answer({"identifiers": [{"namespace": ["n"], "name": name} for name in names]}),
            **{f"GET {LIST}/{name}": load for name in names},
        }
        yield server


def _pages(server: Scripted, **asked: object) -> list[tuple[list[str], int]]:
    """Return the names on each page, and the calls that it took."""
    namespace = CatalogNamespace(IcebergBackend(endpoint=server.url))
    namespace.list_tables(ListTablesRequest(id=["ware", "n"], limit=1))  # and with it, what is asked once
    pages: list[tuple[list[str], int]] = []
    token = None
    while not pages or token:
        before = len(server.requests)
        answer = namespace.list_tables(ListTablesRequest(id=["ware", "n"], limit=10, page_token=token, **asked))
        pages.append((answer.tables, len(server.requests) - before))
        token = answer.page_token
    return pages


def test_a_page_loads_no_more_tables_than_may_be_on_it(server: Scripted) -> None:
    pages = _pages(server)
    assert [name for names, _ in pages for name in names] == [f"t{n:03}" for n in range(TABLES) if n % 4]
    assert {len(names) for names, _ in pages} == {10}
    # One list, a page and the entry behind it, and Iceberg's own tables that are between.
    assert max(calls for _, calls in pages) <= 1 + 11 + 5, server.paths()[-40:]
    assert sum(calls for _, calls in pages) < 1.5 * TABLES  # 6 x 81 when each page loaded every table


def test_what_has_data_is_looked_at_page_by_page(server: Scripted) -> None:
    """None of them has: every entry is loaded twice, once for each of the two questions, and never again."""
    assert _pages(server, include_declared=False)[0][0] == []
    assert len(server.requests) <= TABLES + 3 * TABLES // 4 + 20


def test_one_page_of_all_is_complete(server: Scripted) -> None:
    namespace = CatalogNamespace(IcebergBackend(endpoint=server.url))
    assert len(namespace.list_tables(ListTablesRequest(id=["ware", "n"])).tables) == 60
    server.routes[f"GET {LIST}/t001"] = error(404, "NoSuchTableException")  # it went after it was listed
    assert len(namespace.list_tables(ListTablesRequest(id=["ware", "n"])).tables) == 59
