"""Identifiers, and scopes that select them.

An identifier is the list of names from below the root namespace to the object (Lance Namespace specification,
"Object Identifier"). Lance clients write it with ``$`` between the names (:func:`join`), people with ``/`` and the
catalog first (:func:`address`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from reconciler.model.globs import Globs, matches_name

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
    """Return the address that people read and type, such as ``lake/features/eu/users``."""
    return "/".join((catalog, *identifier))


def check_name(name: str) -> str | None:
    """Return why no catalog accepts ``name``, None if it is valid.

    Catalogs have further rules of their own (see ``Capabilities.name_rule``).
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


@dataclass(frozen=True)
class Scope:
    """A set of identifiers: the matches of globs but those of ``excluded``; ``Scope(("**",))`` is everything."""

    patterns: tuple[str, ...]
    excluded: tuple[str, ...] = ()

    @cached_property
    def _globs(self) -> Globs:
        return Globs((pattern, 0) for pattern in self.patterns)

    @cached_property
    def _excluded_globs(self) -> Globs:
        return Globs((pattern, 0) for pattern in self.excluded)

    @cached_property
    def is_everything(self) -> bool:
        """Whether every identifier is selected, so that callers need not match each."""
        return "**" in self.patterns and not self.excluded

    @cached_property
    def outermost(self) -> frozenset[str]:
        """The outermost names without wildcards, to request from services that do not list that level."""
        outermost = {pattern.partition("/")[0] for pattern in self.patterns}
        return frozenset(name for name in outermost if not set(name) & set("*?"))

    def is_apart_from(self, other: Scope) -> bool:
        """Return whether the outermost names tell that no identifier, in any case, is in both scopes."""
        here, there = (
            [pattern.partition("/")[0].lower() for pattern in scope.patterns if pattern] for scope in (self, other)
        )
        return not any(set(name) & set("*?") for name in (*here, *there)) and set(here).isdisjoint(there)

    def contains(self, identifier: Sequence[str]) -> bool:
        """Return whether ``identifier`` itself is selected."""
        if self.is_everything:
            return True
        return self._globs.contain(identifier) and not self.excludes(identifier)

    def excludes(self, identifier: Sequence[str]) -> bool:
        """Return whether ``identifier`` itself is excluded."""
        return bool(self.excluded) and self._excluded_globs.contain(identifier)

    def reaches(self, identifier: Sequence[str]) -> bool:
        """Return whether an identifier strictly below ``identifier`` can be selected."""
        if self.is_everything:
            return True
        return self._globs.reach(identifier)

    def folded(self) -> Scope:
        """Return the scope for a catalog that folds names to lower case."""
        return Scope(*(tuple(pattern.lower() for pattern in globs) for globs in (self.patterns, self.excluded)))

    def below(self, name: str) -> Scope:
        """Return the part of the scope in the outermost namespace ``name``, for identifiers without that name."""
        patterns, excluded = (
            tuple(suffix for pattern in globs for suffix in _patterns_below(pattern, name))
            for globs in (self.patterns, self.excluded)
        )
        return NOTHING if "**" in excluded else Scope(patterns, excluded)


def _patterns_below(pattern: str, name: str) -> Iterable[str]:
    """Yield the patterns for identifiers below ``name`` that ``pattern`` selects."""
    first, _, rest = pattern.partition("/")
    if first == "**":
        yield pattern
        if rest:
            yield from _patterns_below(rest, name)
    elif matches_name(first, name):
        yield rest or "**"


def selecting(scopes: Collection[Scope], identifiers: Iterable[Identifier]) -> set[Scope]:
    """Return those of ``scopes`` that contain one of ``identifiers``."""
    by_number = dict(enumerate(scopes))
    globs = Globs((pattern, number) for number, scope in by_number.items() for pattern in scope.patterns)
    numbers = set[int]()
    for identifier in identifiers:
        numbers.update(number for number in globs.matching(identifier) if not by_number[number].excludes(identifier))
        if len(numbers) == len(by_number):
            break
    return {by_number[number] for number in numbers}


NOTHING = Scope(())
EVERYTHING = Scope(("**",))


class ChildrenOf(Scope):
    """The objects directly in ``namespaces``, except those in ``without``; the namespace ``()`` is the root.

    Names are literal, not globs, and the time of a match does not depend on the number of namespaces.
    """

    def __init__(self, namespaces: Iterable[Identifier], without: Iterable[Identifier] = ()) -> None:
        self.namespaces, self.without = frozenset(namespaces), frozenset(without)
        super().__init__(tuple(sorted("/".join((*namespace, "*")) for namespace in self.namespaces)))

    @cached_property
    def outermost(self) -> frozenset[str]:
        """The outermost names of the namespaces; ``*`` and ``?`` are literal."""
        return frozenset(namespace[0] for namespace in self.namespaces if namespace)

    @cached_property
    def _ancestors(self) -> frozenset[Identifier]:
        return frozenset(namespace[:depth] for namespace in self.namespaces for depth in range(len(namespace) + 1))

    def contains(self, identifier: Sequence[str]) -> bool:
        """Return whether ``identifier`` is directly in one of the namespaces, and not in ``without``."""
        return bool(identifier) and tuple(identifier[:-1]) in self.namespaces and tuple(identifier) not in self.without

    def reaches(self, identifier: Sequence[str]) -> bool:
        """Return whether ``identifier`` is one of the namespaces or an ancestor of one."""
        return tuple(identifier) in self._ancestors


class Only(Scope):
    """The given identifiers and nothing else; their names are literal, not globs."""

    def __init__(self, identifiers: Iterable[Identifier]) -> None:
        self.identifiers = frozenset(identifiers)
        super().__init__(tuple(sorted(map("/".join, self.identifiers))))

    @cached_property
    def is_everything(self) -> bool:
        """False: ``**`` is a literal name here."""
        return False

    @cached_property
    def outermost(self) -> frozenset[str]:
        """The outermost names of the identifiers; ``*`` and ``?`` are literal."""
        return frozenset(name[0] for name in self.identifiers if name)

    @cached_property
    def _ancestors(self) -> frozenset[Identifier]:
        return frozenset(name[:depth] for name in self.identifiers for depth in range(len(name)))

    def names_in(self, parent: Identifier) -> list[str]:
        """Return the names of the identifiers directly in ``parent``."""
        return self._names_by_parent.get(parent, [])

    @cached_property
    def _names_by_parent(self) -> dict[Identifier, list[str]]:
        by_parent: dict[Identifier, list[str]] = {}
        for identifier in filter(None, self.identifiers):
            by_parent.setdefault(identifier[:-1], []).append(identifier[-1])
        return by_parent

    def contains(self, identifier: Sequence[str]) -> bool:
        """Return whether ``identifier`` is one of them."""
        return tuple(identifier) in self.identifiers

    def reaches(self, identifier: Sequence[str]) -> bool:
        """Return whether ``identifier`` is an ancestor of one of them."""
        return tuple(identifier) in self._ancestors
