"""Sentences made of clauses, each left out if a parameter it names is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from string import Formatter
from typing import TypeAlias

from reconciler.model import display
from reconciler.model.reasons import Params

_Clause: TypeAlias = str | tuple[str, ...]
"""A clause, or several, of which the first is said that can be."""

Sentence: TypeAlias = str | list[_Clause] | Callable[[Params], str]

_MOST_NAMED = 3


class Names(tuple[str, ...]):
    """Names in a sentence: the first few and a count; ``code`` adds backticks."""

    def __format__(self, spec: str) -> str:
        shown = [f"`{name}`" if spec == "code" else name for name in self[:_MOST_NAMED]]
        more = f" and {len(self) - _MOST_NAMED:,} more" if len(self) > _MOST_NAMED else ""
        return f"{', '.join(shown)}{more}"


class Count(int):
    """A number in a sentence.

    ``{count:table}`` counts tables, ``{count:is|are}`` picks singular or plural.
    """

    def __format__(self, spec: str) -> str:
        if "|" in spec:
            return spec.split("|")[self != 1]
        return display.count(self, spec) if spec.isalpha() else super().__format__(spec)


def said(sentence: Sentence, params: Params) -> str:
    """Return a sentence with its parameters, without clauses that lack one."""
    if callable(sentence):
        return sentence(params)
    values = {key: _wrapped(value) for key, value in params.items()}
    return "".join(_clauses([sentence] if isinstance(sentence, str) else sentence, values))


def _wrapped(value: object) -> object:
    if isinstance(value, tuple | list):
        return Names(value)
    return Count(value) if isinstance(value, int) else value


def _clauses(clauses: Iterable[_Clause], values: Mapping[str, object]) -> Iterator[str]:
    for clause in clauses:
        for alternative in (clause,) if isinstance(clause, str) else clause:
            if _named(alternative) <= values.keys():
                yield alternative.format_map(values)
                break


@cache
def _named(clause: str) -> frozenset[str]:
    return frozenset(name for _, name, _, _ in Formatter().parse(clause) if name)


def renaming(params: Params) -> str:
    """Return how to rename columns that may exist under other names; or nothing."""
    if "renames" not in params:
        return ""
    names = ", ".join(f"`{old}` is `{new}`" for old, new in params["renames"].items())
    return f"; if {names} under its old name, write `renamed_from` or rename it: `{params.get('rename_code')}`"
