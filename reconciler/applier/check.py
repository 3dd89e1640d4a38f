"""Before the first write: is everything that a plan touches as it was when the plan was made?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from reconciler.applier.live import load_all, load_table
from reconciler.applier.move_steps import has_moved, is_as_planned
from reconciler.applier.precondition import MovedField, Precondition, differences, precondition_of
from reconciler.backends.base import Backend, catalog_errors
from reconciler.model import display
from reconciler.model.concurrency import DEFAULT_PARALLELISM, in_parallel
from reconciler.model.display import count
from reconciler.model.errors import StalePlanError
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.redaction import scrub
from reconciler.planner.entries import Change, Fingerprint, Key
from reconciler.planner.plan import Plan
from reconciler.planner.views import ObjectView, view_of

_Found: TypeAlias = Mapping[Key, tuple[bool, Sequence[MovedField]]]
"""Of each object whether it is missing, and in what it is not as it was."""


@dataclass(slots=True)
class _Touched:
    """One object, what it was when the plan was made, and what the plan does to it; ``leaving`` takes its name away."""

    fingerprint: Fingerprint | None = None
    changes: list[Change] = field(default_factory=list)
    leaving: Change | None = None

    def planned_on(self) -> ObjectView | None:
        return self.fingerprint.view if self.fingerprint else self.changes[0].before


def check_plan(
    plan: Plan,
    backends: Mapping[str, Backend],
    parallelism: int = DEFAULT_PARALLELISM,
    *,
    secrets: Collection[str] = (),
) -> Collection[Key]:
    """Return when every object that ``plan`` touches is as planned on, or as one of its changes leaves it.

    The latter is what an apply of the same plan leaves that was interrupted, so that it can be gone on with.
    Storage is not opened here but right before each write.

    Args:
        plan: just made, or read from a file.
        backends: the connection of every catalog of the plan, by the catalog's name.
        parallelism: how many objects are read at a time.
        secrets: texts that no message may show.

    Returns:
        those that do not exist.

    Raises:
        StalePlanError: naming each object that moved and the fields that did.
        CatalogError: an object could not be read.
    """
    touched = _touched(plan)

    tables = {summary.name: summary.tables for summary in plan.catalogs}
    concerned = list(dict.fromkeys(key[0] for key in touched))

    def read(catalog: str) -> _Found:
        backend = backends[catalog]
        own = {key[1:]: one.planned_on() is not None for key, one in touched.items() if key[0] == catalog}
        with catalog_errors(catalog, backend.impl, secrets):
            found = load_all(backend, own, tables.get(catalog, 0), parallelism)
            return {
                key: (live is None, _moved(touched[key], backend, live))
                for (kind, identifier), live in found.items()
                for key in ((catalog, kind, identifier),)
            }

    found = {key: one for part in in_parallel(read, concerned, parallelism) for key, one in part.items()}
    stale = {key: fields for key in touched if (fields := found[key][1])}
    if stale:
        raise StalePlanError(*(scrub(line, secrets) for line in _lines(stale, len(touched))))
    return frozenset(key for key, (is_missing, _) in found.items() if is_missing)


def _touched(plan: Plan) -> dict[Key, _Touched]:
    """Return the objects with a fingerprint or a change, in order."""
    objects: defaultdict[Key, _Touched] = defaultdict(_Touched)
    for fingerprint in plan.fingerprints:
        objects[fingerprint.catalog, fingerprint.kind, fingerprint.identifier].fingerprint = fingerprint
    for change in plan.changes:
        objects[change.key].changes.append(change)
        if change.moved_from is not None:
            objects[change.catalog, change.kind, change.moved_from].leaving = change
    return {key: objects[key] for key in sorted(objects, key=lambda key: (key[0], key[2], key[1]))}


def _moved(touched: _Touched, backend: Backend, live: LiveNamespace | LiveTable | None) -> Sequence[MovedField]:
    fingerprint = touched.fingerprint
    safeguard = backend.capabilities.safeguard
    if fingerprint and fingerprint.is_of(view_of(live, fingerprint.managed_keys, safeguard)):
        return ()
    if touched.leaving is not None and _is_leaving(touched.leaving, live, backend):
        return ()
    if isinstance(live, LiveTable) and any(
        change.moved_from is not None and has_moved(change, live, backend) for change in touched.changes
    ):
        return ()
    views = ((change, view_of(live, change.managed_keys, safeguard)) for change in touched.changes)
    if any(precondition_of(change, view) is not Precondition.STALE for change, view in views):
        return ()
    keys = fingerprint.managed_keys if fingerprint else touched.changes[0].managed_keys
    about = fingerprint or touched.changes[0]
    return differences(about, touched.planned_on(), view_of(live, keys, safeguard)) or [
        MovedField("state", "what the plan's fingerprint was taken of", "something else")
    ]


def _is_leaving(change: Change, live: LiveNamespace | LiveTable | None, backend: Backend) -> bool:
    """Return whether a move has begun: what has the old name is marked, or has gone and has the new one."""
    if isinstance(live, LiveTable):
        return is_as_planned(change, live, backend)
    moved = None if live is not None else load_table(backend, change.identifier)
    return moved is not None and has_moved(change, moved, backend)


def _lines(stale: Mapping[Key, Sequence[MovedField]], total: int) -> Sequence[str]:
    rows = [
        (display.address(catalog, *identifier), display.printable(moved.field), display.printable(str(moved)))
        for (catalog, _, identifier), fields in stale.items()
        for moved in fields
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"  {where:<{widths[0]}}   {what:<{widths[1]}}   {text}" for where, what, text in rows]
    return [
        f"The plan is stale: {len(stale)} of {count(total, 'object')} moved since it was made.",
        *lines,
        "Plan again, or apply the manifest. Nothing was changed.",
    ]
