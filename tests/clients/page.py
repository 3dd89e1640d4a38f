"""The tables of ``docs/clients.md``: written by ``python -m tests.clients`` from a run of everything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.clients.catalogs import CATALOGS
from tests.clients.trials import CLIENTS, Trial, refusal_of
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
    yield f"Operations: {', '.join(OPERATIONS)}.\n\nClients: {'; '.join(CLIENTS)}.\n\n"
    yield f"Catalogs: {', '.join(CATALOGS)}.\n\n"
    yield "Every operation works with every client on every catalog, except:\n\n"
    yield "| operation | clients | catalogs | instead |\n|---|---|---|---|\n"
    for (operation, instead), trials in _refused(results).items():
        clients = [client for client in CLIENTS if any(trial.client == client for trial in trials)]
        catalogs = [catalog for catalog in CATALOGS if any(trial.catalog == catalog for trial in trials)]
        who = "; ".join(clients)
        where = "all" if catalogs == list(CATALOGS) else ", ".join(catalogs)
        yield f"| {operation} | {who} | {where} | {instead} |\n"
    yield "\n"


def _refused(results: Mapping[Trial, Sequence[Result]]) -> Mapping[tuple[str, str], Sequence[Trial]]:
    """Return the trials of each operation that was refused, by what the page says of it."""
    found: dict[tuple[str, str], list[Trial]] = {}
    for trial, ended in results.items():
        for result in ended:
            if result.refusal is not None:
                refusal = refusal_of(trial, result.operation)
                instead = refusal.note if refusal else f"FAILED: {trial}"
                found.setdefault((result.operation, instead), []).append(trial)
    return found


def versions(page: str) -> dict[str, str]:
    """Return the versions of clients that the page names."""
    return dict(re.findall(r"^\| `(lancedb|pylance|lance-spark|pyspark)` \| ([\d.]+) \|", page, re.MULTILINE))
