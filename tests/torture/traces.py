"""What an apply leaves beside what it was asked for: journals, texts, and fields of entries that it does not manage."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.torture.manifests import SECOND
from tests.torture.tally import Violation
from tests.torture.targets.base import CANARY, THEIR_SECRET

__all__ = ["Foreign", "Journals", "expect_no_secret", "is_unclean", "key_of"]

_ENTRY = re.compile("(second )?(table|namespace) ")
_UNCLEAN = ("Traceback (most recent call last)", "fault of lancens", CANARY)
_THEIRS = json.dumps(dict(THEIR_SECRET)).strip("{}")


def is_unclean(text: str) -> bool:
    """Return whether a text shows the insides of lancens, or a secret."""
    return any(part in text for part in _UNCLEAN)


def expect_no_secret(folder: Path, state: Mapping[str, Any]) -> None:
    """Check that no secret is in a file that lancens has written to ``folder``, or in an entry but where others set it.

    Raises:
        Violation: one is there.
    """
    files = [*folder.glob("*.json"), *folder.glob("journal/*")]
    shown = [str(file) for file in files if CANARY in file.read_text("utf-8", "replace")]
    shown += [key for key, entry in state.items() if CANARY in json.dumps(entry).replace(_THEIRS, "")]
    if shown:
        raise Violation(f"a secret is shown in {shown}")


def key_of(catalog: str, kind: str, identifier: Collection[str]) -> str:
    """Return the key of an object in the state of a play."""
    return f"{'second ' * (catalog == SECOND)}{kind} {'/'.join(identifier)}"


class Journals:
    """The journals in ``folder``, each read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: set[Path] = set()

    def forget(self) -> None:
        """Leave out the journals that are there."""
        self._read.update(self._folder.glob("*.jsonl"))

    def expect(self, before: Mapping[str, Any], after: Mapping[str, Any], exempt: Collection[str]) -> None:
        """Check that the new journals have what changed, and that what they call done is done.

        Raises:
            Violation: a change has no intent, or what an outcome calls done is not.
        """
        intended: set[str] = set()
        there: set[str] = set()
        gone: set[str] = set()
        for line in self._new_lines():
            kind = "namespace" if line.get("action", "").endswith("-namespace") else "table"
            match line:
                case {"entry": "intent", "catalog": catalog, "identifier": identifier}:
                    intended.add(key_of(catalog, kind, identifier))
                    origin, *names = line.get("from", "").split("/")
                    intended.add(key_of(origin, kind, names))
                case {"entry": "outcome", "status": "done", "catalog": catalog, "identifier": identifier}:
                    ended = {"deregister-table": gone, "drop-namespace": set()}.get(line["action"], there)
                    ended.add(key_of(catalog, kind, identifier))  # a namespace that others use stays, with a note
        changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
        if missing := {key for key in changed if _ENTRY.match(key)} - intended - set(exempt):
            raise Violation(f"written and in no journal: {sorted(missing)}")
        if vain := ((there - gone - after.keys()) | (gone & after.keys() - there)) - set(exempt):
            raise Violation(f"done by a journal and not by the server: {sorted(vain)}")

    def _new_lines(self) -> Iterator[Mapping[str, Any]]:
        for file in set(self._folder.glob("*.jsonl")) - self._read:
            lines = file.read_text("utf-8").splitlines(keepends=True)
            yield from (json.loads(line) for line in lines if line.endswith("\n"))  # a killed process cuts the last one
        self.forget()


class Foreign:
    """What entries have that lancens does not manage, by their keys."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._kept = {key: entry["kept"] for key, entry in state.items() if entry and "kept" in entry}

    def changed(self, state: Mapping[str, Any], keys: Collection[str]) -> None:
        """Look at ``keys`` again, which others have changed."""
        for key in keys:
            self._kept.pop(key, None)
            if "kept" in state.get(key, ()):
                self._kept[key] = state[key]["kept"]

    def expect(self, state: Mapping[str, Any], moves: Mapping[str, str]) -> None:
        """Check that entries still have it; ``moves`` are the old keys of those that were renamed, by their new ones.

        Raises:
            Violation: something of it is lost or changed.
        """
        origins = {key: moves.get(key, key) for key in state}
        lost = [
            f"{key}: {name} was {value!r} and is {state[key].get('kept', {}).get(name)!r}"
            for key, origin in origins.items()
            for name, value in self._kept.get(origin, {}).items()
            if state[key].get("kept", {}).get(name) != value
        ]
        if lost:
            raise Violation("lost of what lancens does not manage:\n" + "\n".join(f"  {line}" for line in lost))
        self._kept = {key: entry["kept"] for key, entry in state.items() if entry and "kept" in entry}
