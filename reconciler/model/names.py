"""Identifiers, and scopes that select them.

An identifier is the list of names from below the root namespace to the object (Lance Namespace specification,
"Object Identifier"). In text, a Lance client joins the names by ``$``, and a person by ``/`` with the catalog first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

Identifier: TypeAlias = tuple[str, ...]

DELIMITER = "$"
_MAX_NAME_LENGTH = 255
_USUAL_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{_MAX_NAME_LENGTH}}}")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def join(identifier: Sequence[str]) -> str:
    """Return the string identifier of a Lance client, such as ``features$eu$users``."""
    return DELIMITER.join(identifier)


def split(text: str) -> Identifier:
    """Return the identifier in ``text``, the inverse of :func:`join`; the empty text is the root."""
    return tuple(text.split(DELIMITER)) if text else ()


def folded(identifier: Sequence[str]) -> Identifier:
    """Return the identifier in lower case, as a service that folds case keeps it."""
    return tuple(name.lower() for name in identifier)


def address(catalog: str, identifier: Sequence[str]) -> str:
    """Return the address that a person reads and types, such as ``lake/features/eu/users``."""
    return "/".join((catalog, *identifier))


def check_name(name: str) -> str | None:
    """Return why no catalog accepts ``name``, None when it is valid.

    Catalogs add rules of their own (see ``Capabilities.name_rule``).
    """
    if _USUAL_NAME.fullmatch(name):
        return None
    if not name:
        return "a name cannot be empty"
    if len(name) > _MAX_NAME_LENGTH:
        return f"a name has at most {_MAX_NAME_LENGTH} characters, this one has {len(name)}"
    if name in (".", ".."):
        return f"`{name}` is a relative path, not a name"
    for character in (DELIMITER, "/"):
        if character in name:
            return f"a name cannot contain `{character}`, which separates names in identifiers"
    if _UNPRINTABLE.search(name):
        return "a name cannot contain control characters"
    return None


def _segment_regex(segment: str) -> re.Pattern[str]:
    first, *tail = ("".join("." if one == "?" else re.escape(one) for one in part) for part in segment.split("*"))
    if not tail:
        return re.compile(first, re.DOTALL)
    # Each star but the last matches lazily in an atomic group, so that matching never backtracks.
    within = "".join(f"(?>.*?{part})" for part in tail[:-1])
    return re.compile(f"{first}{within}.*{tail[-1]}", re.DOTALL)


ANY_NAME = _segment_regex("*")


@dataclass(frozen=True, slots=True)
class _Glob:
    """One pattern: ``*`` and ``?`` match inside a name, ``**`` any number of whole names, none included."""

    segments: tuple[re.Pattern[str] | None, ...]

    @classmethod
    def parse(cls, pattern: str) -> _Glob:
        parts = pattern.split("/") if pattern else ()  # the empty one is the root
        return cls(tuple(None if part == "**" else _segment_regex(part) for part in parts))

    def states(self, identifier: Sequence[str]) -> frozenset[int]:
        """Return the positions in the pattern after ``identifier``; an NFA, so that matching is never exponential."""
        current = self._skip({0})
        for name in identifier:
            step: set[int] = set()
            for position in current:
                if position == len(self.segments):
                    continue
                segment = self.segments[position]
                if segment is None:
                    step.add(position)
                elif segment.fullmatch(name):
                    step.add(position + 1)
            current = self._skip(step)
        return current

    def _skip(self, positions: set[int]) -> frozenset[int]:
        for start in tuple(positions):
            position = start
            while position < len(self.segments) and self.segments[position] is None:
                position += 1
                positions.add(position)
        return frozenset(positions)


@dataclass(frozen=True)
class Scope:
    """A set of identifiers, given by globs; ``Scope(("**",))`` is everything."""

    patterns: tuple[str, ...]

    @cached_property
    def _globs(self) -> tuple[_Glob, ...]:
        return tuple(_Glob.parse(pattern) for pattern in self.patterns)

    @cached_property
    def is_everything(self) -> bool:
        """Whether every identifier is selected, so that callers can skip the match."""
        return "**" in self.patterns

    @cached_property
    def outermost(self) -> frozenset[str]:
        """The literal names on the outermost level, to request where that level cannot be listed."""
        first = {pattern.partition("/")[0] for pattern in self.patterns}
        return frozenset(name for name in first if not set(name) & set("*?"))

    def contains(self, identifier: Sequence[str]) -> bool:
        """Return whether ``identifier`` itself is selected."""
        if self.is_everything:
            return True
        return any(len(glob.segments) in glob.states(identifier) for glob in self._globs)

    def reaches(self, identifier: Sequence[str]) -> bool:
        """Return whether an identifier strictly below ``identifier`` can be selected."""
        if self.is_everything:
            return True
        return any(any(at < len(glob.segments) for at in glob.states(identifier)) for glob in self._globs)

    def names_in(self, namespace: Sequence[str]) -> tuple[re.Pattern[str], ...]:
        """Return the patterns of the names directly in ``namespace`` that are selected."""
        rests = (glob.segments[at:] for glob in self._globs for at in glob.states(namespace))
        return tuple(rest[0] or ANY_NAME for rest in rests if rest and not any(rest[1:]))

    def folded(self) -> Scope:
        """Return the scope for a catalog that folds names to lower case."""
        return Scope(tuple(pattern.lower() for pattern in self.patterns))

    def below(self, name: str) -> Scope:
        """Return the scope relative to the outermost name ``name``."""
        return Scope(tuple(rest for pattern in self.patterns for rest in _below(pattern, name)))


def _below(pattern: str, name: str) -> Iterable[str]:
    first, _, rest = pattern.partition("/")
    if first == "**":
        yield pattern
        if rest:
            yield from _below(rest, name)
    elif _segment_regex(first).fullmatch(name):
        yield rest or "**"


NOTHING = Scope(())
EVERYTHING = Scope(("**",))


class ChildrenOf(Scope):
    """The objects directly in some namespaces, named literally, but those ``without``; the empty one is the root.

    Unlike with globs, the time of a match does not depend on the number of namespaces.
    """

    def __init__(self, namespaces: Iterable[Identifier], without: Iterable[Identifier] = ()) -> None:
        self.namespaces, self.without = frozenset(namespaces), frozenset(without)
        super().__init__(tuple(sorted("/".join((*namespace, "*")) for namespace in self.namespaces)))

    @cached_property
    def outermost(self) -> frozenset[str]:
        """The outermost names of the namespaces, whatever characters they have."""
        return frozenset(namespace[0] for namespace in self.namespaces if namespace)

    @cached_property
    def _above(self) -> frozenset[Identifier]:
        return frozenset(namespace[:depth] for namespace in self.namespaces for depth in range(len(namespace) + 1))

    def contains(self, identifier: Sequence[str]) -> bool:
        """Return whether ``identifier`` is directly in one of the namespaces, and not left out."""
        return bool(identifier) and tuple(identifier[:-1]) in self.namespaces and tuple(identifier) not in self.without

    def reaches(self, identifier: Sequence[str]) -> bool:
        """Return whether ``identifier`` is one of the namespaces or above one."""
        return tuple(identifier) in self._above


class Only(Scope):
    """Some identifiers, each named literally."""

    def __init__(self, identifiers: Iterable[Identifier]) -> None:
        self.identifiers = frozenset(identifiers)
        super().__init__(tuple(sorted(map("/".join, self.identifiers))))

    @cached_property
    def is_everything(self) -> bool:
        """False: ``**`` is a literal name here."""
        return False

    @cached_property
    def outermost(self) -> frozenset[str]:
        """The outermost names of the identifiers, whatever characters they have."""
        return frozenset(name[0] for name in self.identifiers if name)

    @cached_property
    def _above(self) -> frozenset[Identifier]:
        return frozenset(name[:depth] for name in self.identifiers for depth in range(len(name)))

    def contains(self, identifier: Sequence[str]) -> bool:
        """Return whether ``identifier`` is one of them."""
        return tuple(identifier) in self.identifiers

    def reaches(self, identifier: Sequence[str]) -> bool:
        """Return whether ``identifier`` is above one of them."""
        return tuple(identifier) in self._above
