"""The smallest scenario that still fails, and how it reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from itertools import chain
from typing import Any

from tests.torture.scenario import Scenario, Table, Wanted
from tests.torture.targets.base import Path_

__all__ = ["shrunk", "told"]

_MOST = 400
"""How many smaller scenarios are tried."""


def shrunk(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """Return a scenario that fails and of which nothing can be left out, one thing at a time."""
    left = _MOST
    while True:
        for smaller in _smaller(scenario):
            left -= 1
            if left < 0:
                return scenario
            if fails(smaller):
                scenario = smaller
                break
        else:
            return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Yield scenarios with one thing less, those with the most left out first."""
    changes: Iterator[Mapping[str, Any]] = chain(
        _much(scenario),
        ({"before": rest} for rest in _without_one(scenario.before)),
        ({name: less} for name in ("manifests", "second") for less in _less_of(getattr(scenario, name))),
        ({"between": rest} for rest in _without_one(scenario.between)),
        ({"meanwhile": rest} for rest in _one_by_one(scenario.meanwhile, _without_one)),
    )
    return (replace(scenario, **change) for change in changes)


def _much(scenario: Scenario) -> Iterator[Mapping[str, Any]]:
    last = len(scenario.manifests) - 1
    if last:
        yield {name: getattr(scenario, name)[:last] for name in ("manifests", "second", "meanwhile")} | {"between": ()}
    if scenario.second:
        yield {"second": ()}
    if scenario.mirrors:
        yield {"mirrors": False}
    if scenario.between:
        yield {"between": ()}
    if any(scenario.meanwhile):
        yield {"meanwhile": ((),) * len(scenario.meanwhile)}


def _less_of(manifests: Sequence[Wanted]) -> Iterator[Sequence[Wanted]]:
    for path in sorted({path for one in manifests for path in (*one.tables, *one.namespaces)}, key=len):
        yield tuple(_without(one, path) for one in manifests)
    yield from _one_by_one(manifests, _less)


def _one_by_one(items: Sequence[Any], less: Callable[[Any], Iterator[Any]]) -> Iterator[Sequence[Any]]:
    """Yield ``items`` with one of them replaced by each that is less."""
    for position, item in enumerate(items):
        yield from ((*items[:position], smaller, *items[position + 1 :]) for smaller in less(item))


def _without_one(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return ((*items[:position], *items[position + 1 :]) for position in range(len(items)))


def _without(wanted: Wanted, gone: Path_) -> Wanted:
    """Return a manifest without an object, what is in it, and what has its name later."""
    deep = len(gone)
    tables = {
        path: table
        for path, table in wanted.tables.items()
        if path[:deep] != gone and (table.home or path)[:deep] != gone
    }
    spaces = {path: found for path, found in wanted.namespaces.items() if path[:deep] != gone}
    return replace(wanted, tables=tables, namespaces=spaces, moves=_moves(wanted.moves, tables))


def _moves(moves: Mapping[Path_, Path_], tables: Collection[Path_]) -> dict[Path_, Path_]:
    return {to: origin for to, origin in moves.items() if to in tables}


def _less(wanted: Wanted) -> Iterator[Wanted]:
    for path, table in wanted.tables.items():
        others = {one: other for one, other in wanted.tables.items() if one != path}
        yield replace(wanted, tables=others, moves=_moves(wanted.moves, others))
        for change in _plainer(table):
            yield replace(wanted, tables={**wanted.tables, path: change})
    for path, properties in wanted.namespaces.items():
        if properties is not None:
            yield replace(wanted, namespaces={**wanted.namespaces, path: None})
    for field in fields(wanted):
        if field.name not in ("namespaces", "tables", "moves") and getattr(wanted, field.name) != _default(field):
            changes: Any = {field.name: _default(field)}
            yield replace(wanted, **changes)


def _plainer(table: Table) -> Iterator[Table]:
    for field in fields(table):
        if field.name not in ("kind", "home") and getattr(table, field.name) != _default(field):
            changes: Any = {field.name: _default(field)}
            yield replace(table, **changes)


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def told(thing: object, indent: str = "  ") -> str:
    """Return what a scenario holds, without what it leaves as it is."""
    deeper = f"{indent}  "
    if is_dataclass(thing) and not isinstance(thing, type):
        held = {one.name: getattr(thing, one.name) for one in fields(thing)}
        shown = [f"{name}={told(held[name], deeper)}" for name in held if held[name] != _default_of(thing, name)]
        text = f"{type(thing).__name__}({', '.join(shown)})"
        return text if len(text) < 110 else f"{type(thing).__name__}(\n{deeper}" + f",\n{deeper}".join(shown) + ")"
    if isinstance(thing, Mapping) and any(map(is_dataclass, thing.values())):
        shown = [f"{key}: {told(value, deeper)}" for key, value in thing.items()]
        return "{" + f",\n{deeper}".join(shown) + "}"
    if isinstance(thing, list | tuple) and any(map(is_dataclass, thing)):
        return "[" + f",\n{deeper}".join(told(one, deeper) for one in thing) + "]"
    return repr(thing)


def _default_of(thing: Any, name: str) -> object:
    return next(_default(field) for field in fields(thing) if field.name == name)
