"""What ``docs/clients.md`` shows is what the clients are tried on, with the versions they are tried in."""

from __future__ import annotations

import re
from pathlib import Path

from tests.clients.older import RELEASES
from tests.clients.page import PAGE, cells, generated, versions, with_tables
from tests.clients.trials import REFUSALS

_ROOT = Path(__file__).parents[2]


def test_the_tables_are_those_of_the_trials() -> None:
    page = PAGE.read_text("utf-8")
    assert generated(page) == generated(with_tables(page, cells())), "run `python -m tests.clients`"


def test_the_versions_are_those_that_are_locked() -> None:
    lock = (_ROOT / "requirements.lock").read_text("utf-8")
    spark = (_ROOT / "tests/clients/spark35.lock").read_text("utf-8")
    jar = (_ROOT / "tests/clients/lance-spark-pom.xml").read_text("utf-8")
    found = {name: _version(lock, name) for name in ("lancedb", "pylance")}
    found["pyspark"] = _version(spark, "pyspark")
    found["lance-spark"] = re.findall(r"<version>([\d.]+)</version>", jar)[-1]
    assert versions(PAGE.read_text("utf-8")) == found


def test_the_older_versions_are_those_that_are_locked() -> None:
    rows = re.findall(r"^\| \d{4}-\d\d \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    locks = [_ROOT / "requirements.lock", *(_ROOT / f"tests/clients/{release}.lock" for release in RELEASES)]
    names = ("lance-namespace", "pylance", "lancedb")
    assert rows == [tuple(_version(lock.read_text("utf-8"), name) for name in names) for lock in locks]


def test_each_refusal_says_why_and_what_to_do() -> None:
    for refusal in REFUSALS:
        assert refusal.note.endswith(".")
        assert len(refusal.note) > 80


def _version(lock: str, name: str) -> str:
    found = re.search(rf"^{name}==([\d.]+)", lock, re.MULTILINE)
    assert found is not None
    return found[1]
