"""Sentences of clauses with parameters; a clause is left out if one of its parameters is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from string import Formatter
from typing import TypeAlias

from reconciler.model import display
from reconciler.model.reasons import Params

_Clause: TypeAlias = str | tuple[str, ...]
"""A clause, or alternatives, of which the first one with all its parameters is used."""

Sentence: TypeAlias = str | list[_Clause] | Callable[[Params], str]
"""One clause that always has its parameters, several clauses in a row, or a function that writes the sentence."""

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


def fill_in(sentence: Sentence, params: Params) -> str:
    """Return the text of ``sentence`` with ``params`` filled in, without clauses that lack one."""
    if callable(sentence):
        return sentence(params)
    values = {key: _formattable(value) for key, value in params.items()}
    return "".join(_clauses([sentence] if isinstance(sentence, str) else sentence, values))


def _formattable(value: object) -> object:
    """Return a parameter with the formats that sentences use: :class:`Names`, :class:`Count` or as it is."""
    if isinstance(value, tuple | list):
        return Names(value)
    return Count(value) if isinstance(value, int) else value


def _clauses(clauses: Iterable[_Clause], values: Mapping[str, object]) -> Iterator[str]:
    """Yield the text of each clause that has all its parameters in ``values``."""
    for clause in clauses:
        for alternative in (clause,) if isinstance(clause, str) else clause:
            if _parameters_of(alternative) <= values.keys():
                yield alternative.format_map(values)
                break


@cache
def _parameters_of(clause: str) -> frozenset[str]:
    """Return the names of the parameters in ``clause``."""
    return frozenset(name for _, name, _, _ in Formatter().parse(clause) if name)


def rename_hint(params: Params) -> str:
    """Return a clause on how to keep columns that may only have a new name; empty if there are none."""
    if "renames" not in params:
        return ""
    names = ", ".join(f"`{old}` is `{new}`" for old, new in params["renames"].items())
    return f"; if {names} under its old name, write `renamed_from` or rename it: `{params.get('rename_code')}`"
