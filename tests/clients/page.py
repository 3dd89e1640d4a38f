"""The tables of ``docs/clients.md``: written by ``python -m tests.clients`` from a run of everything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.clients.catalogs import CATALOGS
from tests.clients.trials import CLIENTS, REFUSALS, Trial, refusal_of
from tests.clients.walk import OPERATIONS, Result

__all__ = ["PAGE", "cells", "generated", "versions", "with_tables"]

PAGE = Path(__file__).parents[2] / "docs/clients.md"
_BEGIN, _END = "<!-- tables: python -m tests.clients -->", "<!-- end of the tables -->"


def with_tables(page: str, results: Mapping[Trial, Sequence[Result]]) -> str:
    """Return the page with the tables of a run."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n\n{''.join(_tables(results))}{_END}{after}"


def generated(page: str) -> str:
    """Return the tables that stand on the page."""
    return page.partition(_BEGIN)[2].partition(_END)[0]


def cells() -> Mapping[Trial, Sequence[Result]]:
    """Return the results that a run has when everything is as it is to be."""
    return {
        Trial(catalog, client): [
            Result(operation, refusal.message if refusal else None)
            for operation in OPERATIONS
            for refusal in [refusal_of(Trial(catalog, client), operation)]
        ]
        for catalog in CATALOGS
        for client in CLIENTS
    }


def _tables(results: Mapping[Trial, Sequence[Result]]) -> Iterator[str]:
    for client in CLIENTS:
        yield f"### {client}\n\n"
        yield f"| | {' | '.join(OPERATIONS)} |\n|---|{'---|' * len(OPERATIONS)}\n"
        for catalog in CATALOGS:
            trial = Trial(catalog, client)
            yield f"| {catalog} | {' | '.join(_cell(trial, result) for result in results[trial])} |\n"
        yield "\n"
    for number, refusal in enumerate(REFUSALS, 1):
        yield f"{number}. {refusal.note}\n"
    yield "\n"


def _cell(trial: Trial, result: Result) -> str:
    refusal = refusal_of(trial, result.operation)
    if result.refusal is None:
        return "ok"
    return "FAILED" if refusal is None else f"n/a ({REFUSALS.index(refusal) + 1})"


def versions(page: str) -> dict[str, str]:
    """Return the versions of clients that the page names."""
    return dict(re.findall(r"^\| `(lancedb|pylance|lance-spark|pyspark)` \| ([\d.]+) \|", page, re.MULTILINE))
