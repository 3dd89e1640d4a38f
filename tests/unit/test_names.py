"""Identifiers and globs."""

from __future__ import annotations

import fnmatch
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.globs import Globs
from reconciler.model.names import (
    EVERYTHING,
    ChildrenOf,
    Identifier,
    Only,
    Scope,
    address,
    check_name,
    join,
    selecting,
)

literal_names = st.sampled_from(["a", "b", "*", "**", "?", "a*"])
literals = st.lists(literal_names, max_size=3).map(tuple)
names = st.text("ab*?", min_size=1, max_size=3).filter(lambda text: "*" not in text and "?" not in text)
identifiers = st.lists(st.text("ab", min_size=1, max_size=4), max_size=4).map(tuple)
patterns = st.lists(st.one_of(st.just("**"), st.text("ab*?", min_size=1, max_size=5)), min_size=1, max_size=4).map(
    "/".join
)


def _matches(pattern: list[str], identifier: Identifier) -> bool:
    """Say the same as a scope, by plain recursion."""
    if not pattern:
        return not identifier
    if pattern[0] == "**":
        return any(_matches(pattern[1:], identifier[skip:]) for skip in range(len(identifier) + 1))
    return (
        bool(identifier)
        and re.fullmatch(fnmatch.translate(pattern[0]), identifier[0]) is not None
        and _matches(pattern[1:], identifier[1:])
    )


def _plain(pattern: str) -> list[str]:
    """Several stars inside a longer segment are like one."""
    return [part if part == "**" else re.sub(r"\*+", "*", part) for part in pattern.split("/")]


def test_identifiers_are_joined_for_clients_and_for_people() -> None:
    assert join(("features", "eu", "users")) == "features$eu$users"
    assert address("lake", ("features", "eu", "users")) == "lake/features/eu/users"
    assert address("lake", ()) == "lake"


@pytest.mark.parametrize(
    "name", ["users", "no", "0123", "größer", "東京", "a b", "a.b", "x" * 255, "...", "a:b", "%24"]
)
def test_names_that_can_be(name: str) -> None:
    assert check_name(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "cannot be empty"),
        ("x" * 256, "at most 255 characters, this one has 256"),
        (".", "relative path"),
        ("..", "relative path"),
        ("a$b", "cannot contain `$`"),
        ("a/b", "cannot contain `/`"),
        ("a\nb", "control characters"),
        ("a\x00", "control characters"),
        ("\ud800", "control characters"),
        ("a\u2028b", "control characters"),
    ],
)
def test_names_that_cannot_be(name: str, reason: str) -> None:
    assert reason in (check_name(name) or "")


@given(patterns, identifiers)
def test_a_scope_contains_what_its_pattern_matches(pattern: str, identifier: Identifier) -> None:
    assert Scope((pattern,)).contains(identifier) == _matches(_plain(pattern), identifier)


@given(st.lists(patterns, max_size=6), st.lists(identifiers, max_size=6))
def test_many_globs_match_what_each_matches(patterns: list[str], identifiers: list[Identifier]) -> None:
    globs, scopes = Globs((pattern, at) for at, pattern in enumerate(patterns)), [Scope((each,)) for each in patterns]
    for identifier in identifiers:
        expected = [at for at, pattern in enumerate(patterns) if _matches(_plain(pattern), identifier)]
        assert sorted(globs.matching(identifier)) == expected
        assert globs.reach(identifier) == any(scope.reaches(identifier) for scope in scopes)
        if not globs.tell_names_apart(identifier):
            assert len({tuple(globs.matching((*identifier, name))) for name in ("a", "b", "ab", "*")}) == 1
    matched = {scope for scope in scopes if any(map(scope.contains, identifiers))}
    assert selecting(scopes, identifiers) == matched


@given(patterns, identifiers, identifiers.filter(bool))
def test_a_scope_reaches_every_ancestor_of_what_it_contains(
    pattern: str, identifier: Identifier, rest: Identifier
) -> None:
    scope = Scope((pattern,))
    if scope.contains((*identifier, *rest)):
        assert scope.reaches(identifier)


@given(patterns, identifiers.filter(lambda identifier: len(identifier) > 1))
def test_a_scope_seen_from_inside_a_name_is_the_same_scope(pattern: str, identifier: Identifier) -> None:
    scope, first = Scope((pattern,)), identifier[0]
    names_the_whole = scope.contains((first,))
    assert scope.below(first).contains(identifier[1:]) == (names_the_whole or scope.contains(identifier))


def test_a_scope_that_names_one_place_is_everything_seen_from_inside() -> None:
    assert Scope(("lake",)).below("lake").is_everything
    assert not Scope(("lake",)).below("prod").contains(("a",))


def test_a_scope_reaches_only_where_it_leads() -> None:
    scope = Scope(("analytics/**", "eu/*/users"))
    assert scope.reaches(())
    assert scope.reaches(("analytics", "deep", "deeper"))
    assert scope.reaches(("eu", "any"))
    assert not scope.reaches(("eu", "any", "users"))
    assert not scope.reaches(("other",))


def test_several_patterns_add_up() -> None:
    scope = Scope(("a/*", "b/x?"))
    assert [scope.contains(found) for found in (("a", "z"), ("b", "xy"), ("b", "x"), ("a",))] == [
        True,
        True,
        False,
        False,
    ]


def test_everything_is_everything() -> None:
    assert EVERYTHING.is_everything
    assert EVERYTHING.contains(())
    assert EVERYTHING.contains(("a", "b"))
    assert not Scope(("*/**",)).is_everything
    assert not Scope(()).contains(("a",))


def test_a_pattern_of_many_stars_takes_no_exponential_time() -> None:
    identifier = ("a",) * 60
    started = time.process_time()
    assert not Scope(("/".join(["**", "a"] * 30 + ["b"]),)).contains(identifier)
    assert time.process_time() - started < 30


@given(st.frozensets(literals, max_size=4), literals)
def test_children_of_namespaces_are_selected_whatever_their_names(
    namespaces: frozenset[Identifier], identifier: Identifier
) -> None:
    scope = ChildrenOf(namespaces)
    assert scope.contains(identifier) == (bool(identifier) and identifier[:-1] in namespaces)
    assert scope.reaches(identifier) == any(found[: len(identifier)] == identifier for found in namespaces)
    assert scope.outermost == {found[0] for found in namespaces if found}
    assert not scope.is_everything


@given(st.frozensets(literals.filter(bool), max_size=4), literals)
def test_only_what_is_named_is_selected_whatever_its_name(
    identifiers: frozenset[Identifier], identifier: Identifier
) -> None:
    scope = Only(identifiers)
    assert scope.contains(identifier) == (identifier in identifiers)
    assert scope.reaches(identifier) == any(
        found[: len(identifier)] == identifier and found != identifier for found in identifiers
    )
    assert scope.outermost == {found[0] for found in identifiers}
    assert not scope.is_everything


def test_the_outermost_names_of_patterns_are_those_without_stars() -> None:
    assert Scope(("main/**", "dev", "*/x", "p?/y", "**")).outermost == {"main", "dev"}
