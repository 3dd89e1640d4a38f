"""The words and symbols that every renderer shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.model import display
from reconciler.model.display import count
from reconciler.planner.entries import Action, Blocked, Change, Protection
from reconciler.planner.plan import Plan

Entry = Change | Protection | Blocked

SYMBOLS: Mapping[str, str] = {"+": "add", "~": "change", "-": "remove", ">": "move", "!": "protected"}
"""Every symbol, and the name renderers style it by."""

PROTECTED = "protected"
BLOCKED = "blocked"

_NAMED = 3


def entries_of(plan: Plan) -> list[Entry]:
    """Return all that a plan shows by object: what is blocked, its changes, then what is protected."""
    return [*plan.blocked, *plan.changes, *plan.guards]


def style_of(entry: Entry) -> str:
    """Return the name renderers style the entry by."""
    return BLOCKED if isinstance(entry, Blocked) else SYMBOLS[entry.symbol]


def word_of(entry: Entry) -> str:
    """Return what happens to the object in one word."""
    if isinstance(entry, Blocked):
        return BLOCKED
    return PROTECTED if isinstance(entry, Protection) else _verb(entry)


def _verb(change: Change) -> str:
    return "namespace" if change.action is Action.CREATE_NAMESPACE else change.action.verb


def headline(entry: Entry) -> str:
    """Return why it happens, with what matters most about it; foreign text in it is escaped."""
    if isinstance(entry, Protection):
        verb = entry.would.verb
        return f"kept; would be {'dropped' if verb == 'drop' else verb.removesuffix('e') + 'ed'}"
    if isinstance(entry, Blocked):
        if entry.moved_from is not None:
            return f"stays {display.address(*entry.moved_from)}"
        return "not there" if entry.before is None else "left as it is"
    reason = display.printable(entry.reason)
    if entry.action is Action.CREATE_TABLE and entry.after is not None and entry.after.columns is not None:
        schema = f"schema of {count(len(entry.after.columns), 'field')}"
        return schema if entry.before is None else f"{schema}; {reason}"
    return f"namespace, {reason}" if entry.action is Action.UPDATE_NAMESPACE else reason


def counts(plan: Plan) -> Iterator[tuple[str, int]]:
    """Yield what the last line counts, in its order; the rarer sorts only where there are any."""
    summary = plan.summary()
    yield "create", summary.create
    yield "declare", summary.declare
    if summary.register_:
        yield "register", summary.register_
    yield "update", summary.update
    if summary.move:
        yield "move", summary.move
    yield "deregister", summary.deregister
    if summary.drop:
        yield "drop", summary.drop


def closing_line(plan: Plan) -> str:
    """Return the last line: what the plan comes to."""
    protected = f" {len(plan.guards):,} protected." if plan.guards else ""
    if plan.is_empty and not plan.blocked:
        named = sum(catalog.desired_objects + (catalog.mirrored_tables or 0) for catalog in plan.catalogs)
        beside = sum(catalog.unnamed_tables for catalog in plan.catalogs)
        matching = f"{count(named, 'object')} in {count(len(plan.catalogs), 'catalog')} match the manifest"
        only_there = f"; {count(beside, 'more table')} only in the catalogs" if beside else ""
        return f"No changes. {matching}{only_there}.{protected}"
    listed = ", ".join(f"{number:,} to {word}" for word, number in counts(plan))
    blocked = f"; {len(plan.blocked):,} blocked" if plan.blocked else ""
    return f"Plan: {listed}{blocked}.{protected} No data is deleted."


def waiting_line(plan: Plan, catalog: str) -> str:
    """Return the sentence about the changes of a catalog that wait with what is blocked; empty where none do."""
    waiting = [change for change in plan.waiting if change.catalog == catalog]
    if not waiting:
        return ""
    named = ", ".join(f"{display.address(*change.identifier)} ({_verb(change)})" for change in waiting[:_NAMED])
    rest = f" and {len(waiting) - _NAMED:,} more" if len(waiting) > _NAMED else ""
    verb = "waits" if len(waiting) == 1 else "wait"
    return f"{count(len(waiting), 'change')} {verb} with what is blocked: {named}{rest}."


def read_line(plan: Plan) -> str:
    """Return the sentence about what was read, for progress on stderr."""
    parts = (
        f"{display.name(catalog.name)} ({display.name(catalog.impl)}) {count(catalog.namespaces, 'namespace')}, "
        f"{count(catalog.tables, 'table')}"
        for catalog in plan.catalogs
    )
    return f"Read {count(len(plan.catalogs), 'catalog')}: {' · '.join(parts)}"
