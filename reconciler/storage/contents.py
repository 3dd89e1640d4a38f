"""How much a dataset holds, and when it was last written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reconciler.model.live import Storage
from reconciler.storage.probing import examine

__all__ = ["RowsAndAge", "contents_of"]


@dataclass(frozen=True, slots=True)
class RowsAndAge:
    """The rows of a dataset's latest version, and when that was committed, in UTC."""

    rows: int
    written: datetime


def contents_of(location: str, options: Mapping[str, str]) -> RowsAndAge | Storage:
    """Return what the dataset at ``location`` holds, of which only its latest manifest is read; else what is there."""
    return examine(location, options, _contents)


def _contents(dataset: Any) -> RowsAndAge:
    latest = dataset.get_version()
    return RowsAndAge(int(latest["metadata"]["total_rows"]), latest["timestamp"].astimezone(UTC))
