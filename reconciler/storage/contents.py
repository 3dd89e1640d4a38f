"""How much a dataset holds, and when it was last written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reconciler.state import Storage
from reconciler.storage.probing import examine

__all__ = ["Contents", "contents_of"]


@dataclass(frozen=True, slots=True)
class Contents:
    """The rows of a dataset's latest version, and when that was committed, in UTC."""

    rows: int
    written: datetime


def contents_of(location: str, options: Mapping[str, str]) -> Contents | Storage:
    """Return what the dataset at ``location`` holds, of which only its latest manifest is read; else what is there."""
    return examine(location, options, _contents)


def _contents(dataset: Any) -> Contents:
    latest = dataset.get_version()
    return Contents(int(latest["metadata"]["total_rows"]), latest["timestamp"].astimezone(UTC))
