"""What must be on a server after each manifest: a model of its own, which knows nothing of plans and compares values.

It says what of an object is the manifest's and what is others', and asks nothing of lancens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

from tests.torture.manifests import WATCHED, columns_of, location_of, mirrored_name, place_name
from tests.torture.others import LABEL, Act
from tests.torture.scenario import Existing, Wanted
from tests.torture.tally import Violation
from tests.torture.targets.base import OWNER, Path_, Room, Target

__all__ = ["Model", "arrow_type", "is_at", "location_in"]

_OWN, _DATA = "lancens.", "lancens.data"
_ARROW = {"fixed_size_list<float32>[4]": "fixed_size_list<item: float>[4]"}
"""How Arrow writes a type, where it is not as a manifest does."""
_CHANGING = re.compile(
    r"^file:(//)?|\b[0-9a-f]{8}_(?=\S*\$)|HASH_|_UNIQUE|_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)


def arrow_type(text: str) -> str:
    """Return a type as Arrow writes it."""
    return _ARROW.get(text, text)


class Model:
    """Of one room: what others have put there, and what the manifests so far have asked for.

    ``theirs`` are the properties of others on each object, ``ours`` those of the manifest on each that is its own, and
    ``drifted`` the values of these that others have changed, which stay on what a manifest cannot change. ``protected``
    are the tables of the manifest that it does not give up, ``watched`` those of others that a policy has changed.
    ``tags`` are those of the manifests, by the name of the dataset, and ``labelled`` the datasets that others have
    tagged. ``moved`` says of each table of the last manifest whether its data had moved.
    """

    def __init__(self, target: Target, room: Room, before: tuple[Existing, ...] = ()) -> None:
        self._target = target
        self._room = room
        self._theirs: dict[str, dict[str, str]] = {}
        self._ours: dict[str, dict[str, str]] = {}
        self._drifted: dict[str, dict[str, str]] = {}
        self._protected: set[str] = set()
        self._watched: set[str] = set()
        self._tags: dict[str, dict[str, int]] = {}
        self._labelled: set[str] = set()
        self._moved: dict[str, bool] = {}
        self.foreign = {self._key("table", one.path) for one in before if one.kind == "foreign"}
        for one in before:
            if one.kind not in ("foreign", "release"):
                self._put(one)

    def copy(self) -> Model:
        """Return a model of the same past, whose future is another one."""
        other = copy(self)
        for name in ("_theirs", "_ours", "_drifted", "_tags"):
            setattr(other, name, {key: dict(values) for key, values in getattr(self, name).items()})
        other._moved = dict(self._moved)
        for name in ("_protected", "_watched", "_labelled"):
            setattr(other, name, set(getattr(self, name)))
        return other

    def _put(self, one: Existing) -> None:
        key = self._key("namespace" if one.kind == "namespace" or one.path == ("theirs",) else "table", one.path)
        if one.properties.get("lancens.managed-by") == OWNER:
            self._ours[key] = {}
        else:
            self._theirs[key] = {name: value for name, value in one.properties.items() if not name.startswith(_OWN)}

    def _key(self, kind: str, path: Path_) -> str:
        return f"{kind} {'/'.join(self._target.identifier(self._room, path))}"

    def happened(self, act: Act) -> None:
        """Remember what somebody else has done to an entry, or tagged."""
        if act.what == "label":
            self._labelled.add(act.properties["place"])
        if not act.path:
            return
        key = self._key("namespace" if act.what == "space" else "table", act.path)
        match act.what:
            case "add" | "remake" | "space":
                self._theirs[key] = dict(act.properties)
                self._ours.pop(key, None)
                self._drifted.pop(key, None)
                self._protected.discard(key)
            case "change" | "note":
                managed = self._ours.get(key, {})
                for name, value in act.properties.items():
                    (self._drifted if name in managed else self._theirs).setdefault(key, {})[name] = value
            case "tag" if self._target.abilities.updates:
                self._theirs.setdefault(key, {}).update(act.properties)
            case "remove":
                for known in (self._theirs, self._ours, self._drifted):
                    known.pop(key, None)
                self._protected.discard(key)

    def may_have(self, wanted: Wanted) -> None:
        """Remember what ``wanted`` asks for, which is applied at the same time as the manifest after it."""
        asked = {self._key("table", path): wanted.properties_of(path) for path in wanted.tables}
        asked |= {self._key("namespace", path): dict(found or {}) for path, found in wanted.namespaces.items()}
        self._ours |= asked

    def expect(self, wanted: Wanted, state: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        """Check what is there once ``wanted`` has been applied, and remember it.

        Raises:
            Violation: something is missing, has another value, location or columns, or is there that nobody asked for.
        """
        for path, origin in wanted.moves.items():
            to, old = self._key("table", path), self._key("table", origin)
            for known in (self._theirs, self._ours, self._drifted):
                if old in known:
                    known[to] = known.pop(old)
            if old in self._protected:
                self._protected ^= {old, to}
        for space, origin in wanted.spaces.items():
            carried = self._theirs.get(self._key("namespace", origin), {})
            self._theirs.setdefault(self._key("namespace", space), dict(carried))
        asked = {self._key("table", path): wanted.properties_of(path) for path in wanted.tables}
        asked |= {self._key("namespace", path): dict(found or {}) for path, found in wanted.namespaces.items()}
        blocked = {self._key("table", path) for path in wanted.blocked}
        going = self._going(asked, wanted.prune)
        going |= {self._key("table", path) for path in wanted.absent} & (self._theirs.keys() | self._ours.keys())
        self._protect(wanted)
        for key in going:
            self._theirs.pop(key, None)
        expected = self._expected(asked, blocked, going)
        problems = [*self._faults(expected, going, asked, state), *self._misplaced(wanted, state, data)]
        problems += [*self._unwatched(wanted.policy, (self._theirs.keys() - self._ours.keys()) - asked.keys(), state)]
        moved = {self._key("table", origin) for origin in wanted.moves.values()}
        problems += [f"{key} has moved and is still there" for key in sorted(moved & state.keys())]
        if problems:
            raise Violation("not what the manifest and others ask for:\n" + "\n".join(f"  {one}" for one in problems))
        self._remember(asked, blocked, going, wanted)

    def _going(self, asked: Mapping[str, object], prune: str) -> set[str]:
        """Return what the manifest removes."""
        if prune == "never":
            return set()
        known = {*self._ours, *(self._theirs if prune == "all" else ())}
        return known - asked.keys() - self._protected

    def _protect(self, wanted: Wanted) -> None:
        for path, table in wanted.tables.items():
            if not table.differs and table.protect is not None:
                (self._protected.add if table.protect else self._protected.discard)(self._key("table", path))

    def _expected(
        self, asked: Mapping[str, Mapping[str, str]], blocked: set[str], going: set[str]
    ) -> dict[str, dict[str, str]]:
        """Return every object that is to be there, with the values that are to be on it."""
        there = (self._theirs.keys() | self._ours.keys()) - going
        kept = {
            key: {**self._theirs.get(key, {}), **self._ours.get(key, {}), **self._drifted.get(key, {})}
            for key in (there - asked.keys()) | (blocked & there)
        }
        return kept | {
            key: {**self._theirs.get(key, {}), **values} for key, values in asked.items() if key not in blocked
        }

    def _faults(
        self,
        expected: Mapping[str, Mapping[str, str]],
        going: set[str],
        asked: Mapping[str, object],
        state: Mapping[str, Any],
    ) -> Iterator[str]:
        for key, values in sorted(expected.items()):
            if key not in state:
                yield f"{key} is not there"
                continue
            found = dict(_leaves(state[key]))
            yield from (
                f"{key}: {name} is {found.get(name)!r}, not {value!r}"
                for name, value in sorted(values.items())
                if found.get(name) != value
            )
            gone = self._ours.get(key, {}).keys() - values.keys() if key in asked else set()
            yield from (f"{key}: {name} is still there" for name in sorted(gone & found.keys()))
        yield from (f"{key} is not there" for key in sorted(self.foreign - state.keys()))
        known = expected.keys() | self.foreign | going
        yield from (f"{key} is nobody's" for key in sorted(state.keys() - known) if key.startswith("table "))
        for key in sorted(going):
            inside = key.replace("namespace ", "table ", 1) + "/"
            if key in state and not any(one.startswith(inside) for one in state):
                yield f"{key} is still there"

    def _misplaced(self, wanted: Wanted, state: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[str]:
        """Yield the tables that are elsewhere than their block says, or whose data has other columns."""
        for path, table in wanted.tables.items():
            key = self._key("table", path)
            if table.differs or key not in state:
                continue
            found, place = location_in(state[key]), location_of(self._target, self._room, path, table)
            if place is not None and not is_at(place, found):
                yield f"{key} is at {found!r}, not {place!r}"
            if table.kind == "create":
                is_written = wanted.is_marked(path) or not self._is_equal(key, wanted.properties_of(path))
                if self._target.abilities.data_first and is_written and _DATA not in dict(_leaves(state[key])):
                    yield f"{key} does not say that lancens has written its data"
                columns = [f"{one['name']}: {arrow_type(one['type'])}" for one in columns_of(table)]
                names = [name for name in data if is_at(found, _CHANGING.sub("", name.removeprefix("dataset ")))]
                there = [data[name]["columns"] for name in names]
                if columns not in there:
                    yield f"{key}: its columns are {there}, not {columns}"

    def _unwatched(self, policy: str, others: set[str], state: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is wrong with the property that policies set on the tables of ``others``."""
        inside = self._key("table", ("theirs", ""))
        for key in sorted(key for key in others if key.startswith(inside) and key in state):
            value = dict(_leaves(state[key])).get(WATCHED)
            if policy and value != policy:
                yield f"{key}: {WATCHED} is {value!r}, not {policy!r}"
            if not policy and value is not None and key in self._watched:
                yield f"{key}: {WATCHED} is still there"
            (self._watched.add if policy else self._watched.discard)(key)

    def _remember(
        self, asked: Mapping[str, dict[str, str]], blocked: set[str], going: set[str], wanted: Wanted
    ) -> None:
        prune, marked = wanted.prune, {self._key("table", path) for path in wanted.tables if wanted.is_marked(path)}
        for key in (*going, *(asked.keys() - blocked)):
            self._drifted.pop(key, None)
        for key in going:
            self._ours.pop(key, None)
            self._protected.discard(key)
        if prune == "never":
            for key in self._ours.keys() - asked.keys():
                self._theirs[key] = {**self._theirs.get(key, {}), **self._ours.pop(key), **self._drifted.pop(key, {})}
        moved = {self._key("table", path): table.moved for path, table in wanted.tables.items()}
        marked |= {key for key in moved if moved[key] != self._moved.get(key, moved[key])}  # relocated
        self._moved = moved
        others = {key for key in asked if key not in marked and self._is_equal(key, asked[key])}
        self._ours |= {key: dict(values) for key, values in asked.items() if key not in blocked | others}

    def _is_equal(self, key: str, values: Mapping[str, str]) -> bool:
        """Return whether a table of others is as its block says: then nothing is written to it, not even a mark."""
        is_others = key.startswith("table ") and key in self._theirs and key not in self._ours
        return is_others and values.items() <= self._theirs[key].items()

    def expect_tagged(self, wanted: Wanted, data: Mapping[str, Any]) -> None:
        """Check the tags of every dataset that was there before, once ``wanted`` has been applied.

        Tags stay on data that an entry no longer points to.

        Raises:
            Violation: one is missing, at another version, or still there.
        """
        self._tags |= {
            place_name(path, table): dict(table.tags)
            for path, table in wanted.tables.items()
            if table.kind == "register" and not table.differs
        }
        for name, tags in self._tags.items():
            expected = {**tags, **({LABEL: 1} if name in self._labelled else {})}
            found = next(one["tags"] for key, one in data.items() if key.endswith(f"/{name}.lance"))
            if found != expected:
                raise Violation(f"the tags of {name} are {found}, not {expected}")

    # ---- a mirror ------------------------------------------------------------------------------------------------

    def expect_mirrored(self, wanted: Wanted, state: Mapping[str, Any], mirror: Mapping[str, Any]) -> None:
        """Check that a second catalog has every Lance table, where the first one has it, and no other.

        Raises:
            Violation: it has not.
        """
        problems: list[str] = []
        lance = {key for key in (self._theirs.keys() | self._ours.keys()) if key.startswith("table ")}
        named = {self._mirrored(key): key for key in lance}
        tables = {key for key in mirror if key.startswith("table ")}
        blocked = {self._mirrored(self._key("table", path)) for path in wanted.blocked}
        problems += [f"{key} is not mirrored" for key in sorted(named.keys() - tables - blocked)]
        problems += [f"{key} is mirrored from nothing" for key in sorted(tables - named.keys() - blocked)]
        for key in sorted((named.keys() & tables) - blocked):
            there, found = location_in(state[named[key]]), location_in(mirror[key])
            if not (is_at(there, found) or is_at(found, there)):
                problems.append(f"{key} is at {found}, and its source at {there}")
            values = {**self._ours.get(named[key], {}), **self._drifted.get(named[key], {})}
            has = dict(_leaves(mirror[key]))
            problems += [
                f"{key}: {name} is {has.get(name)!r}, not {value!r}"
                for name, value in sorted(values.items())
                if has.get(name) != value
            ]
        if problems:
            raise Violation("not what a mirror holds:\n" + "\n".join(f"  {one}" for one in problems))

    def _mirrored(self, key: str) -> str:
        above = len(self._target.identifier(self._room, ("",))) - 1
        names = tuple(key.removeprefix("table ").split("/")[above:])
        plain = (names[0].removeprefix(f"{self._room.token}_"), *names[1:])
        return f"table {'/'.join(mirrored_name(self._room, plain))}"


def location_in(entry: Mapping[str, Any]) -> str:
    """Return where an entry points, without what differs from one notation to another."""
    place = entry["location"] if "location" in entry else entry["StorageDescriptor"]["Location"]
    return _CHANGING.sub("", str(place))


def is_at(place: str, found: str) -> bool:
    """Return whether ``found``, which may be relative, is ``place``."""
    return bool(found) and f"/{place}".endswith(f"/{found.lstrip('/')}")


def _leaves(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key below ``value`` that has a text."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            if isinstance(one, str):
                yield key, one
            else:
                yield from _leaves(one)
