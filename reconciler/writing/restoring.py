"""Write the blocks that restore what a run removed, from its journal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.applier.journal_reader import JournalRecord, read_journal
from reconciler.applier.report import Status
from reconciler.model.display import printable
from reconciler.model.errors import PlanFileError
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, address
from reconciler.planner.entries import Action
from reconciler.writing.export import ExportCatalog, to_yaml

_REMOVALS = {Action.DEREGISTER_TABLE.value, Action.DROP_NAMESPACE.value}
_COMMENTS = (
    "# Possibly removed, as the outcome is unknown: {addresses}\n",
    "# First delete the entries of `moved` from {addresses}: they make these names old ones.\n",
)


def removed_blocks(journal: str) -> str:
    """Return the blocks of the objects that the run with this journal, a path or URI, removed.

    Objects whose removal has no known outcome are included, and named in a comment. Tables have their location, so that
    apply registers them where their data is. A journal holds no secrets: they become placeholders or comments. A
    namespace that the run renamed is not removed.

    Raises:
        PlanFileError: the file is not a complete journal, or the run removed nothing.
    """
    record = read_journal(journal)
    moved = {
        str(outcome.get("from"))
        for outcome in record.outcomes.values()
        if outcome["action"] == Action.CREATE_NAMESPACE and "from" in outcome
    }
    namespaces: defaultdict[str, dict[Identifier, LiveNamespace]] = defaultdict(dict)
    tables: defaultdict[str, dict[Identifier, LiveTable]] = defaultdict(dict)
    possibly: list[str] = []
    for intent, is_certain in _removals(record):
        before, names, catalog = intent.get("before"), intent.get("identifier"), intent.get("catalog")
        if not isinstance(before, dict) or not isinstance(names, list) or not isinstance(catalog, str):
            raise PlanFileError(f"{journal}: what was removed is not in this journal, which an earlier lancens wrote")
        identifier = tuple(map(str, names))
        if intent["action"] != Action.DROP_NAMESPACE:
            tables[catalog][identifier] = LiveTable(identifier, str(before.get("location", "")), before["properties"])
        elif intent["address"] not in moved:
            namespaces[catalog][identifier] = LiveNamespace(identifier, before["properties"])
        else:
            continue
        if not is_certain:
            possibly.append(intent["address"])
    catalogs = sorted({*namespaces, *tables})
    if not catalogs:
        raise PlanFileError(f"{journal}: this run removed nothing")
    text = to_yaml(
        str(record.header.get("manifest")),
        [ExportCatalog(name, None, {}, Snapshot(namespaces[name], tables[name]), EVERYTHING) for name in catalogs],
    )
    above = (
        address(name, identifier[:depth])
        for name, gone in tables.items()
        for identifier in gone
        for depth in range(1, len(identifier))
    )
    head = f"# What run {record.header.get('run')} removed. Put these blocks back into the manifest, and apply.\n"
    for comment, named in zip(_COMMENTS, (possibly, sorted(moved.intersection(above))), strict=True):
        if named:
            head += comment.format(addresses=", ".join(map(printable, named)))
    return head + text[text.index("catalogs:") :]


def _removals(record: JournalRecord) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Yield the intents that removed an entry, or may have, and whether that is certain."""
    for position, intent in sorted(record.intents.items()):
        is_new = "before" in intent and intent["before"] is None
        if is_new or intent["action"] not in _REMOVALS:
            continue
        outcome = record.outcomes.get(position)
        status = None if outcome is None else Status(outcome["status"])
        # A retried removal finds nothing where the first request succeeded.
        if status in (None, Status.FAILED, Status.ALREADY, Status.DONE):
            yield intent, status is Status.DONE
