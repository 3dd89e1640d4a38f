"""What a run may leave in storage, told from what was there before: for the runs that are compared with no other."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tests.torture.model import is_at, location_in
from tests.torture.tally import Violation

__all__ = ["Storage"]

_RAW = "raw/"
_MARK = re.compile(r"file (.*/)?\.lance-[a-z-]+")
_CHANGING = re.compile(r"^dataset (.*HASH_)?|_UNIQUE$")


class Storage:
    """The datasets of a room that are known, each with its rows, versions and columns."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._known = _datasets(data)

    def written(self, name: str) -> None:
        """Forget what the dataset ``name`` holds, which others write to."""
        self._known = {key: held for key, held in self._known.items() if not key.endswith(f"/{name}.lance")}

    def expect(self, data: Mapping[str, Any], entries: Collection[Mapping[str, Any]], *, evolves: bool) -> None:
        """Check that known datasets hold what they did, that new ones are empty and have an entry, and no stray file.

        With ``evolves``, datasets that lancens has made may have a version more, with its column.

        Raises:
            Violation: something else is there.
        """
        problems = list(self._problems(_datasets(data), [location_in(entry) for entry in entries], evolves=evolves))
        problems += [f"{key} is left over" for key in data if key.startswith("file ") and not _MARK.fullmatch(key)]
        if problems:
            raise Violation("not what may be in storage:\n" + "\n".join(f"  {problem}" for problem in problems))
        self._known = _datasets(data)

    def _problems(self, data: Mapping[str, Any], places: Collection[str], *, evolves: bool) -> Iterator[str]:
        yield from (f"{key} has gone" for key in self._known.keys() - data.keys())
        for key, held in data.items():
            known, is_raw = self._known.get(key), _RAW in key
            if known is not None and held != known:
                more = held["versions"] - known["versions"]
                if is_raw or not evolves or held["rows"] != known["rows"] or more != 1:
                    yield f"{key} holds {held}, not {known}"
            if known is None and not is_raw:
                if held["rows"] or held["versions"] > 1 + evolves:
                    yield f"{key} is new and holds {held}"
                if not any(is_at(place, _CHANGING.sub("", key)) or is_at(key, place) for place in places):
                    yield f"{key} has no entry"


def _datasets(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: {name: value for name, value in held.items() if name != "tags"}
        for key, held in data.items()
        if key.startswith("dataset ")
    }
