"""Encode the findings and tables of an audit as JSON, for the script of the HTML page.

Invisible characters are escaped here (see ``reconciler.model.display``), so that the script inserts texts as they are.
A repeated text is written once and referenced by index; entries are stored by column.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

from reconciler.auditor.document import AuditDocument, Finding, ReportedTable
from reconciler.auditor.records import Severity
from reconciler.model import display, figures
from reconciler.model.names import Identifier
from reconciler.report.grouping import group_findings

NO_OWNER = -1
"""The index of no owner."""

KeyT = TypeVar("KeyT", bound=Hashable)


class _Indices(dict[KeyT, int], Generic[KeyT]):
    """The index of each key, in the order of first use."""

    def __missing__(self, key: KeyT) -> int:
        self[key] = len(self)
        return self[key]


class PageData:
    """Encodes an audit for the page's script; gives names the indices that links of the page use."""

    def __init__(self, document: AuditDocument) -> None:
        self._document = document
        self._catalogs = _Indices[str]()
        self._namespaces = _Indices[tuple[str, Identifier]]()
        self._owners = _Indices[str]()
        self._rules = _Indices[str]()
        self._rule_sets = _Indices[tuple[int, ...]]()
        self._texts = _Indices[str]()
        self.groups = group_findings(document.findings)
        self._group_of = {id(finding): at for at, group in enumerate(self.groups) for finding in group.findings}
        for catalog in document.coverage:
            self.catalog(catalog.name)
        for rule in document.settings.rules:
            self.rule(rule.name)

    def catalog(self, name: str) -> int:
        """Return the index of a catalog."""
        return self._catalogs[name]

    def namespace(self, catalog: str, namespace: Identifier) -> int:
        """Return the index of a namespace."""
        self.catalog(catalog)
        return self._namespaces[catalog, namespace]

    def owner(self, owner: str | None) -> int:
        """Return the index of an owner."""
        return NO_OWNER if owner is None else self._owners[owner]

    def rule(self, name: str) -> int:
        """Return the index of a rule."""
        return self._rules[name]

    def to_json(self) -> str:
        """Return the data as JSON that cannot end the script element around it."""
        document = self._document
        parts: dict[str, Any] = {
            "severities": [severity.value for severity in Severity],
            "findings": _columns(_FINDING, map(self._finding, document.findings)),
            "tables": _columns(_TABLE, map(self._table, document.tables)),
        }
        parts["groups"] = [(self._text(group.reason), self._text(group.remedy)) for group in self.groups]
        # The indices are complete only now that every entry is encoded.
        parts["catalogs"] = list(map(display.name, self._catalogs))
        parts["namespaces"] = [
            [self.catalog(catalog), display.address(catalog, *names)] for catalog, names in self._namespaces
        ]
        parts["owners"] = list(map(display.value, self._owners))
        parts["rules"] = list(map(display.printable, self._rules))
        parts["ruleSets"] = list(self._rule_sets)
        parts["texts"] = list(self._texts)
        return json.dumps(parts, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")

    def _text(self, text: str) -> int:
        return self._texts[display.printable(text)]

    def _directory_and_name(self, location: str | None) -> tuple[int, str] | tuple[None, None]:
        """Return the index of a directory, which many tables share, and the name in it."""
        if location is None:
            return None, None
        directory, slash, name = display.value(location).rpartition("/")
        return self._texts[directory + slash], name

    def _finding(self, finding: Finding) -> tuple[Any, ...]:
        source = finding.source
        return (
            self._group_of[id(finding)],
            list(Severity).index(finding.severity),
            self.rule(finding.rule),
            self.namespace(finding.catalog, finding.namespace),
            display.name(finding.name) if finding.identifier else None,
            self._text(finding.reason),
            self._text(finding.remedy),
            *self._directory_and_name(finding.location),
            self.owner(finding.owner),
            None if finding.manager is None else self._text(finding.manager),
            None if source is None else self._text(str(source)),
            None if finding.first_seen is None else self._text(figures.moment(finding.first_seen)),
            [[display.key(key), display.value(value)] for key, value in finding.details.items()] or None,
        )

    def _table(self, table: ReportedTable) -> tuple[Any, ...]:
        return (
            self.namespace(table.catalog, table.namespace),
            display.name(table.name),
            *self._directory_and_name(table.location),
            self.owner(table.owner),
            table.rows,
            table.bytes,
            table.bytes_on_disk,
            table.reclaimable,
            table.fragments,
            table.versions,
            None if table.committed is None else int(table.committed.timestamp()),
            self._rule_sets[tuple(map(self.rule, table.rules))],
        )


_FINDING = (
    *("group", "severity", "rule", "namespace", "name", "reason", "remedy"),
    *("directory", "rest", "owner", "manager", "source", "firstSeen", "details"),
)
_TABLE = (
    *("namespace", "name", "directory", "rest", "owner"),
    *("rows", "bytes", "onDisk", "reclaimable", "fragments", "versions", "committed", "rules"),
)


def _columns(names: tuple[str, ...], entries: Iterable[tuple[Any, ...]]) -> dict[str, list[Any]]:
    columns = [list(column) for column in zip(*entries, strict=True)]
    return dict(zip(names, columns or [[] for _ in names], strict=True))
