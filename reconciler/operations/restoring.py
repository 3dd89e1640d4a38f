"""The blocks that bring back what a run removed, of what its journal says was there."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from reconciler.display import printable
from reconciler.errors import PlanFileError
from reconciler.names import EVERYTHING, Identifier, address
from reconciler.planner.entries import Action
from reconciler.state import Capabilities, LiveNamespace, LiveTable, Snapshot

__all__ = ["removed_blocks"]

_REMOVALS = {Action.DEREGISTER_TABLE.value, Action.DROP_NAMESPACE.value}
_ANY = Capabilities()
_HEAD = """\
# What run {run} removed. Put these blocks back into the manifest, and apply.
"""
_MOVED = """\
# Of `moved`, take out the lines from {origins} first: they say that these names are old ones.
"""


def removed_blocks(path: Path) -> str:
    """Return the part of a manifest that asks for everything that the run with the journal at ``path`` removed.

    Tables have their location, so that they are registered again where their data is. A sensitive value, which a
    journal does not hold, is a placeholder or is named in a comment. A namespace that the run gave another name is not
    removed.

    Raises:
        PlanFileError: the file is no journal, or one of a version that does not say enough; or nothing was removed.
    """
    from reconciler.applier import Status, read_journal
    from reconciler.manifest.export import ExportCatalog, to_yaml

    record = read_journal(path)
    moved = {
        str(outcome.get("from"))
        for outcome in record.outcomes.values()
        if outcome["action"] == Action.CREATE_NAMESPACE and "from" in outcome
    }
    namespaces: defaultdict[str, dict[Identifier, LiveNamespace]] = defaultdict(dict)
    tables: defaultdict[str, dict[Identifier, LiveTable]] = defaultdict(dict)
    for position, outcome in sorted(record.outcomes.items()):
        intent = record.intents.get(position)
        if intent is None or outcome["action"] not in _REMOVALS or outcome["status"] != Status.DONE:
            continue
        before, names, catalog = intent.get("before"), intent.get("identifier"), intent.get("catalog")
        if not isinstance(before, dict) or not isinstance(names, list) or not isinstance(catalog, str):
            raise PlanFileError(f"{path}: what was removed is not in this journal, which an earlier lancens wrote")
        identifier = tuple(map(str, names))
        if outcome["action"] == Action.DEREGISTER_TABLE:
            tables[catalog][identifier] = LiveTable(identifier, str(before.get("location", "")), before["properties"])
        elif outcome["address"] not in moved:
            namespaces[catalog][identifier] = LiveNamespace(identifier, before["properties"])
    catalogs = sorted({*namespaces, *tables})
    if not catalogs:
        raise PlanFileError(f"{path}: this run removed nothing")
    text = to_yaml(
        str(record.header.get("manifest")),
        [
            ExportCatalog(name, None, {}, Snapshot(namespaces[name], tables[name]), EVERYTHING, capabilities=_ANY)
            for name in catalogs
        ],
    )
    above = (
        address(name, identifier[:depth])
        for name, gone in tables.items()
        for identifier in gone
        for depth in range(1, len(identifier))
    )
    lines = sorted(moved.intersection(above))
    head = _HEAD.format(run=path.stem) + (_MOVED.format(origins=", ".join(map(printable, lines))) if lines else "")
    return head + text[text.index("catalogs:") :]
