"""Match identifiers with many globs at once.

The globs form a tree of their segments, so that a match takes as long for a thousand of them as for one. Segments with
wildcards are looked up by one of their literal parts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias

_WILDCARDS = re.compile(r"[*?]+")
_MOST_KNOWN = 2**14
"""How many namespaces are remembered: enough for scans, which read one namespace after the other."""

_Part: TypeAlias = tuple[Literal["start", "end", "within"], str]
"""A literal part of a segment, and where in a name it is."""


def matches_name(segment: str, name: str) -> bool:
    """Return whether one segment of a glob matches a name."""
    return segment == name if _WILDCARDS.search(segment) is None else _name_pattern(segment).fullmatch(name) is not None


@lru_cache(_MOST_KNOWN)
def _name_pattern(segment: str) -> re.Pattern[str]:
    """Return the regular expression for one segment of a glob, which matches whole names."""
    first, *tail = (
        "".join("." if character == "?" else re.escape(character) for character in part) for part in segment.split("*")
    )
    if not tail:
        return re.compile(first, re.DOTALL)
    # Each star but the last matches lazily in an atomic group, so that matching never backtracks.
    within = "".join(f"(?>.*?{part})" for part in tail[:-1])
    return re.compile(f"{first}{within}.*{tail[-1]}", re.DOTALL)


def _literal_parts(segment: str) -> list[_Part]:
    """Return the literal parts of a segment with wildcards."""
    start, *within, end = _WILDCARDS.split(segment)
    parts: list[_Part] = [("start", start), ("end", end), *(("within", text) for text in within)]
    return [part for part in parts if part[1]]


@dataclass(slots=True, eq=False)
class _Node:
    """The globs that begin with the same segments.

    Args:
        repeats: whether the last of these segments is ``**``, which matches further names.
        ends: what the globs that end here stand for.
        literal, wild, star, double_star: what follows a literal segment, one with wildcards, ``*`` and ``**``.
        by_part: ``wild`` by where a literal part is, its length, and the part; empty before the first match.
    """

    repeats: bool = False
    ends: list[int] = field(default_factory=list)
    literal: dict[str, _Node] = field(default_factory=dict)
    wild: dict[str, _Node] = field(default_factory=dict)
    star: _Node | None = None
    double_star: _Node | None = None
    by_part: list[tuple[str, int, dict[str, list[tuple[str, _Node]]]]] = field(default_factory=list)

    def child(self, segment: str) -> _Node:
        """Return the node after ``segment``, new or not."""
        if segment == "**":
            if not self.repeats and self.double_star is None:
                self.double_star = _Node(repeats=True)
            return self.double_star or self
        if not segment.strip("*") and segment:
            self.star = self.star or _Node()
            return self.star
        return (self.wild if _WILDCARDS.search(segment) else self.literal).setdefault(segment, _Node())

    @property
    def is_leaf(self) -> bool:
        """Whether no glob goes on."""
        return not (self.repeats or self.literal or self.wild or self.star or self.double_star)

    def after_wild(self, name: str) -> list[_Node]:
        """Return the nodes after segments with wildcards that match a name, some perhaps twice."""
        nodes: list[_Node] = []
        for side, length, segments in self.by_part or self._index():
            last = max(len(name) - length, 0)
            for start in range(last + 1) if side == "within" else (0 if side == "start" else last,):
                candidates = segments.get(name[start : start + length], ())
                nodes += [node for segment, node in candidates if _name_pattern(segment).fullmatch(name)]
        return nodes

    def _index(self) -> list[tuple[str, int, dict[str, list[tuple[str, _Node]]]]]:
        """Fill ``by_part``: each segment by the part that the fewest others have."""
        parts = {segment: _literal_parts(segment) for segment in self.wild}
        shared = Counter(part for literals in parts.values() for part in literals)
        by_part: defaultdict[tuple[str, int], defaultdict[str, list[tuple[str, _Node]]]]
        by_part = defaultdict(lambda: defaultdict(list))
        for segment, literals in parts.items():
            side, text = min(
                literals,
                key=lambda part: (shared[part], part[0] == "within", -len(part[1])),
                default=("start", ""),
            )
            by_part[side, len(text)][text].append((segment, self.wild[segment]))
        self.by_part = [(side, length, dict(segments)) for (side, length), segments in by_part.items()]
        return self.by_part


class Globs:
    """Globs that are matched together, each with the number that it stands for."""

    def __init__(self, patterns: Iterable[tuple[str, int]]) -> None:
        """Read ``patterns``; the empty one matches the root alone."""
        self._patterns = tuple(patterns)
        self._root = _Node()
        self._known: dict[tuple[str, ...], Collection[_Node]] = {}
        for pattern, number in self._patterns:
            node = self._root
            for segment in pattern.split("/") if pattern else ():
                node = node.child(segment)
            node.ends.append(number)

    def __reduce__(self) -> tuple[type[Globs], tuple[tuple[tuple[str, int], ...]]]:
        """Return what pickles need: not what was matched."""
        return Globs, (self._patterns,)

    def matching(self, identifier: Sequence[str]) -> list[int]:
        """Return the number of each glob that matches ``identifier``."""
        numbers: list[int] = []
        for node in self._after(identifier):
            numbers += node.ends
        return numbers

    def contain(self, identifier: Sequence[str]) -> bool:
        """Return whether a glob matches ``identifier``."""
        return any(node.ends for node in self._after(identifier))

    def reach(self, identifier: Sequence[str]) -> bool:
        """Return whether a glob can match something strictly below ``identifier``."""
        return not all(node.is_leaf for node in self._after(identifier))

    def tell_names_apart(self, namespace: Sequence[str]) -> bool:
        """Return whether globs may match some names directly in ``namespace`` and not others."""
        return any(node.literal or node.wild for node in self._after_namespace(namespace))

    def _after(self, identifier: Sequence[str]) -> Collection[_Node]:
        """Return the nodes after ``identifier``: the states of an NFA, so that matching is never exponential."""
        return (
            _next(self._after_namespace(identifier[:-1]), identifier[-1]) if identifier else self._after_namespace(())
        )

    def _after_namespace(self, namespace: Sequence[str]) -> Collection[_Node]:
        key = tuple(namespace)
        nodes = self._known.get(key)
        if nodes is None:
            nodes = _with_double_stars({self._root: None})
            for name in key:
                nodes = _next(nodes, name)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = nodes
        return nodes


def _next(nodes: Iterable[_Node], name: str) -> Collection[_Node]:
    """Return the nodes after ``nodes`` and a name."""
    following: dict[_Node, None] = {}
    for node in nodes:
        if node.repeats:
            following[node] = None
        if (after := node.literal.get(name)) is not None:
            following[after] = None
        if node.star is not None:
            following[node.star] = None
        if node.wild:
            following |= dict.fromkeys(node.after_wild(name))
    return _with_double_stars(following)


def _with_double_stars(nodes: dict[_Node, None]) -> Collection[_Node]:
    """Add the nodes after a ``**`` that follows one of ``nodes``: it may match no name."""
    for node in tuple(nodes):
        if node.double_star is not None:
            nodes[node.double_star] = None
    return nodes
