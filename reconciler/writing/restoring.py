"""Write the blocks that restore what a run removed, from its journal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.applier.journal_reader import JournalRecord
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


def removed_blocks(record: JournalRecord) -> str:
    """Return the blocks of the objects that the run with this journal removed, with comments on what it has lost.

    Objects whose removal has no known outcome are included, and named in a comment. Tables have their location, so that
    apply registers them where their data is. A journal holds no secrets: they become placeholders or comments. A
    namespace that the run renamed is not removed.

    Raises:
        PlanFileError: the run removed nothing, as far as its journal tells.
    """
    moved = {
        str(outcome.get("from"))
        for outcome in record.outcomes.values()
        if outcome["action"] == Action.CREATE_NAMESPACE and "from" in outcome
    }
    namespaces: defaultdict[str, dict[Identifier, LiveNamespace]] = defaultdict(dict)
    tables: defaultdict[str, dict[Identifier, LiveTable]] = defaultdict(dict)
    possibly: list[str] = []
    missing = [*record.missing]
    for intent, is_certain in _removals(record):
        live, catalog = _removed_object(intent), str(intent.get("catalog"))
        if live is None:
            missing.append(f"what {intent['address']} was before")
            continue
        if isinstance(live, LiveTable):
            tables[catalog][live.id] = live
        elif intent["address"] not in moved:
            namespaces[catalog][live.id] = live
        else:
            continue
        if not is_certain:
            possibly.append(intent["address"])
    catalogs = sorted({*namespaces, *tables})
    lost = [*_lost_by_moves(record)]
    if not catalogs:
        raise PlanFileError(f"run {record.run}: {_without_removals(missing, lost)}")
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
    head = f"# What run {record.run} removed. Put these blocks back into the manifest, and apply.\n"
    head += "".join(f"# Missing from the journal: {printable(part)}\n" for part in missing)
    head += "".join(f"# No block restores what {printable(move)}\n" for move in lost)
    for comment, named in zip(_COMMENTS, (possibly, sorted(moved.intersection(above))), strict=True):
        if named:
            head += comment.format(addresses=", ".join(map(printable, named)))
    return head + text[text.index("catalogs:") :]


def _without_removals(missing: Sequence[str], lost: Sequence[str]) -> str:
    """Return why there are no blocks to restore."""
    if missing:
        return f"no removal is left in its journal, which lacks {'; '.join(missing)}"
    if lost:
        return f"it removed no object, but no block restores what {'; '.join(lost)}"
    return "this run removed nothing"


def _lost_by_moves(record: JournalRecord) -> Iterator[str]:
    """Yield a clause for each moved object whose new entry lacks something of the old one."""
    for _, outcome in sorted(record.outcomes.items()):
        if outcome["status"] == Status.DONE and "from" in outcome and "lost" in outcome:
            yield f"{outcome['from']} lost as {outcome['address']}: {outcome['lost']}"


def _removed_object(intent: Mapping[str, Any]) -> LiveNamespace | LiveTable | None:
    """Return the object that an intent removes, from its state before; None if the journal lacks that."""
    before, names = intent.get("before"), intent.get("identifier")
    properties = before.get("properties") if isinstance(before, dict) else None
    if not isinstance(before, dict) or not isinstance(properties, dict) or not isinstance(names, list):
        return None
    identifier = tuple(map(str, names))
    if intent["action"] == Action.DROP_NAMESPACE:
        return LiveNamespace(identifier, properties)
    return LiveTable(identifier, str(before.get("location", "")), properties)


def _removals(record: JournalRecord) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Yield each intent that removed an entry or may have done so, with whether that is certain."""
    for position, intent in sorted(record.intents.items()):
        is_new = "before" in intent and intent["before"] is None
        if is_new or intent["action"] not in _REMOVALS:
            continue
        outcome = record.outcomes.get(position)
        status = None if outcome is None else Status(outcome["status"])
        # A retried removal finds nothing where the first request succeeded.
        if status in (None, Status.FAILED, Status.ALREADY, Status.DONE):
            yield intent, status is Status.DONE
