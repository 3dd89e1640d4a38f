"""What ``docs/conformance.md`` shows of others' namespaces has the shape of what is checked."""

from __future__ import annotations

from pathlib import Path

from tests.clients.kits import OPERATIONS, PAGE, SHOWN, table_of


def test_the_table_has_every_implementation_and_every_operation() -> None:
    table, _, failures = table_of(PAGE.read_text("utf-8")).strip().partition("\n\n")
    assert failures == ""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert rows[0][1:] == [one.name for one in SHOWN], "run `python -m tests.clients.kits`"
    assert [row[0] for row in rows[2:]] == OPERATIONS
    assert all(cell for row in rows[2:] for cell in row)


def test_the_version_on_the_page_is_the_one_that_is_locked() -> None:
    assert "lance-namespace-impls 0.4.2" in PAGE.read_text("utf-8")
    assert "lance-namespace-impls==0.4.2" in (Path(__file__).parent / "peers.lock").read_text("utf-8")
