"""Ways to break lancens on purpose, which the harness has to see: ``python -m tests.torture glue --sabotage NAME``.

They act in this process, so it is the runs under faults that see them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from unittest import mock

from reconciler import storage
from reconciler.applier import check
from reconciler.applier.journal import Journal
from reconciler.applier.live import StaleField
from reconciler.backends.glue import GlueBackend, service, structures
from reconciler.backends.glue.service import Service as GlueService
from reconciler.model import ownership, redaction
from reconciler.model.live import LiveNamespace, LiveTable, PropertyChanges
from reconciler.model.names import Identifier
from reconciler.model.tags import FoundTags
from reconciler.operations import apply
from reconciler.planner import outcome, tables
from reconciler.planner.plan import Plan
from reconciler.planner.schemas import SchemaDifference
from tests.torture.targets.base import OWNER

__all__ = ["SABOTAGES"]


def _loses_others(changes: PropertyChanges, found: Mapping[str, str]) -> dict[str, str]:
    return {**{key: value for key, value in found.items() if key.startswith("lancens.")}, **changes.set}


def _keeps_removed(changes: PropertyChanges, found: Mapping[str, str]) -> dict[str, str]:
    return {**found, **changes.set}


def _keeps_values(changes: PropertyChanges, found: Mapping[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in found.items() if key not in changes.remove}
    return {**kept, **{key: found.get(key, value) for key, value in changes.set.items()}}


def _says_done(self: GlueBackend, name: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
    live = self.load_table(name)
    return LiveTable(name, location or live.location, changes.applied_to(live.properties))


_REMOVAL = outcome._removal


def _keeps(kept: type, context: Any, live: Any, *why: Any) -> Any:
    return None if isinstance(live, kept) else _REMOVAL(context, live, *why)


def _nothing(*_: object) -> None:
    return None


def _first_page(
    where: str, fetch: Callable[[str | None, int], tuple[Sequence[Any], str | None]], *_: Any
) -> Iterator[Any]:
    yield from fetch(None, 1)[0]


_WRITE_TAGS = storage.write_tags


def _clears(location: str, targets: Mapping[str, str | None], options: Mapping[str, str]) -> None:
    there = storage.find_tags(location, options, {}, ("theirs",))
    others = there.there if isinstance(there, FoundTags) else ()
    _WRITE_TAGS(location, {**dict.fromkeys(others), **targets}, options)


_READ: dict[Identifier, Any] = {}
_TABLE = GlueService.table


def _remembered(self: GlueService, name: Identifier) -> Any:
    return _READ.setdefault(name, _TABLE(self, name))


_STALE_FIELDS = check._stale_fields
_INTENT = Journal.intent
_INSERT = GlueBackend.insert_table


def _places_apart(*arguments: Any) -> Sequence[StaleField]:
    return [field for field in _STALE_FIELDS(*arguments) if field.field != "location"]


def _as_new(table: Any, wanted: LiveTable) -> Any:
    name: str = table["Name"]
    return structures.new_table(name, wanted.location, wanted.properties)


def _unmarked(self: GlueBackend, name: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
    left = {key: value for key, value in properties.items() if key != ownership.DATA}
    live = _INSERT(self, name, location, left)
    return LiveTable(name, live.location, properties)


def _loses_every_other(self: Journal, position: int, *arguments: Any) -> None:
    if position % 2:
        _INTENT(self, position, *arguments)


def _as_saved(saved: Plan, *_: object) -> Plan:
    return saved


SABOTAGES: Mapping[str, partial[AbstractContextManager[Any]]] = {
    "loses-others": partial(mock.patch.object, PropertyChanges, "applied_to", _loses_others),
    "keeps-removed": partial(mock.patch.object, PropertyChanges, "applied_to", _keeps_removed),
    "keeps-values": partial(mock.patch.object, PropertyChanges, "applied_to", _keeps_values),
    "takes-all-for-its-own": partial(mock.patch.object, ownership, "owner_of", lambda _: OWNER),
    "removes-no-table": partial(mock.patch.object, outcome, "_removal", partial(_keeps, LiveTable)),
    "removes-no-namespace": partial(mock.patch.object, outcome, "_removal", partial(_keeps, LiveNamespace)),
    "leaves-locations": partial(mock.patch.object, tables, "is_relocated", lambda *_: False),
    "adds-no-columns": partial(mock.patch.object, SchemaDifference, "grows", False),
    "says-done": partial(mock.patch.object, GlueBackend, "alter_table", _says_done),
    "skips-fingerprints": partial(mock.patch.object, check, "_stale_fields", lambda *_: ()),
    "ignores-page-tokens": partial(mock.patch.object, service, "paged_entries", _first_page),
    "sets-no-tags": partial(mock.patch.object, storage, "write_tags", _nothing),
    "clears-tags-of-others": partial(mock.patch.object, storage, "write_tags", _clears),
    "compares-no-places": partial(mock.patch.object, check, "_stale_fields", _places_apart),
    "carries-out-forged-plans": partial(mock.patch.object, apply, "replan", _as_saved),
    "loses-lines-of-journals": partial(mock.patch.object, Journal, "intent", _loses_every_other),
    "drops-fields-of-others": partial(mock.patch.object, structures, "with_state", _as_new),
    "drops-data-marks": partial(mock.patch.object, GlueBackend, "insert_table", _unmarked),
    "shows-secrets": partial(mock.patch.object, redaction, "is_sensitive_key", lambda _: False),
    "writes-what-it-read-first": partial(mock.patch.object, GlueService, "table", _remembered),
}
"""What each of them breaks, by its name on the command line."""
