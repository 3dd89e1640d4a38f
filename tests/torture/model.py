"""What must be on a server after each manifest: a model of its own, which knows nothing of plans and compares values.

It says what of an object is the manifest's and what is others', and asks nothing of lancens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.torture.scenario import Existing, Scenario, Wanted
from tests.torture.tally import Violation
from tests.torture.targets.base import OWNER, Path_, Room, Target

__all__ = ["Model"]

_OWN = "lancens."


class Model:
    """Of one room: what others have put there, and what the manifests so far have asked for."""

    def __init__(self, target: Target, room: Room, scenario: Scenario) -> None:
        self._target = target
        self._room = room
        self._theirs: dict[str, Mapping[str, str]] = {}
        self._ours: dict[str, set[str]] = {}
        for one in scenario.before:
            if one.kind != "foreign":
                self._put(one)

    def _put(self, one: Existing) -> None:
        key = self._key("namespace" if one.kind == "namespace" else "table", one.path)
        if one.properties.get("lancens.managed-by") == OWNER:
            self._ours[key] = set()
        else:
            self._theirs[key] = {name: value for name, value in one.properties.items() if not name.startswith(_OWN)}

    def _key(self, kind: str, path: Path_) -> str:
        return f"{kind} {'/'.join(self._target.identifier(self._room, path))}"

    def expect(self, wanted: Wanted, state: Mapping[str, Any]) -> None:
        """Check what is there once ``wanted`` has been applied, and remember it.

        Raises:
            Violation: something is missing, has another value, or is still there.
        """
        asked = {self._key("table", path): table.properties for path, table in wanted.tables.items()}
        spaces = wanted.namespaces.items()
        asked |= {self._key("namespace", path): found or {} for path, found in spaces}
        for key in self._ours.keys() - asked.keys():
            self._theirs.pop(key, None)  # what the manifest has asked for once goes with its block
        problems = [*self._faults(asked, state)]
        if problems:
            raise Violation("not what the manifest and others ask for:\n" + "\n".join(f"  {one}" for one in problems))
        for key in self._ours.keys() - asked.keys():
            del self._ours[key]
        self._ours |= {key: set(properties) for key, properties in asked.items()}

    def _faults(self, asked: Mapping[str, Mapping[str, str]], state: Mapping[str, Any]) -> Iterator[str]:
        for key in sorted(asked.keys() | self._theirs.keys()):
            if key not in state:
                yield f"{key} is not there"
                continue
            found = dict(_leaves(state[key]))
            expected = {**self._theirs.get(key, {}), **asked.get(key, {})}
            yield from (
                f"{key}: {name} is {found.get(name)!r}, not {value!r}"
                for name, value in sorted(expected.items())
                if found.get(name) != value
            )
            gone = self._ours.get(key, set()) - expected.keys() if key in asked else set()
            yield from (f"{key}: {name} is still there" for name in sorted(gone & found.keys()))
        for key in sorted(self._ours.keys() - asked.keys()):
            inside = key.replace("namespace ", "table ", 1) + "/"
            if key in state and not any(one.startswith(inside) for one in state):
                yield f"{key} is still there"


def _leaves(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key below ``value`` that has a text."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            if isinstance(one, str):
                yield key, one
            else:
                yield from _leaves(one)
