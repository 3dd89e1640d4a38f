"""Write a manifest of what is live: text that :func:`reconciler.manifest.load` reads back as the same state."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.arrow_types import TypeSyntaxError, check_column_name, make_column
from reconciler.manifest.reader import MAX_DEPTH, UNPRINTABLE
from reconciler.manifest.variables import escape, is_literal, parse_template
from reconciler.model import display, locations, ownership
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Column, Schema
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import Identifier, Scope, check_name
from reconciler.model.redaction import is_secret_config, is_sensitive, is_stand_in

HEADER = """\
# yaml-language-server: $schema=./manifest.schema.json
# `lancens schema > manifest.schema.json` writes the schema that editors check and complete with.
version: 1
"""
_INDENT = "  "
# Each namespace is two levels of nesting, and three stand above the first.
_MOST_LEVELS = (MAX_DEPTH - 8) // 2
_LONGEST_KEY = 1000  # YAML takes no longer key without a mark of its own.
_PLAIN = re.compile(r"(?:[A-Za-z_]|\.{0,2}/)(?:[A-Za-z0-9_./%+=-]|:(?=[A-Za-z0-9_./-]))*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_TEXT = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


@dataclass(frozen=True, slots=True)
class ExportCatalog:
    """One catalog to write.

    Args:
        name: its name in the manifest.
        impl: the name of its implementation; None where the manifest says ``impl`` and ``config`` already.
        config: text with placeholders, as a manifest has it.
        snapshot: what to write blocks for.
        scope: the part of the catalog that the manifest is about.
        places: what to write as a table's location, instead of where it is: None for nothing at all.
        schemas: the columns to write, of the tables that have some here.
        remarks: a comment to put above a table.
        capabilities: what the catalog can do.
    """

    name: str
    impl: str | None
    config: Mapping[str, str] = field(repr=False)
    snapshot: Snapshot = field(repr=False)
    scope: Scope
    places: Mapping[Identifier, str | None] = field(default_factory=dict, repr=False)
    schemas: Mapping[Identifier, Schema] = field(default_factory=dict, repr=False)
    remarks: Mapping[Identifier, str] = field(default_factory=dict, repr=False)
    capabilities: Capabilities = field(default_factory=Capabilities)


def to_yaml(name: str, catalogs: Sequence[ExportCatalog]) -> str:
    """Return the manifest ``name`` that describes ``catalogs`` as they are.

    Namespaces with properties are claimed, others are paths. Names that no manifest can hold, and values that look
    like secrets, are left out and said so in a comment. A secret in ``config``, or on an object with an owner's mark,
    becomes a placeholder: planning would remove an owned property that is not named.
    """
    lines = [f"name: {scalar(name)}", "catalogs:" if catalogs else "catalogs: {}"]
    variables: set[str] = set()
    for catalog in catalogs:
        lines += _CatalogWriter(catalog, variables).lines()
    return HEADER + "\n".join(lines) + "\n"


def scalar(text: str) -> str:
    """Return ``text`` as a YAML scalar that every reader takes for text."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    return _quoted_always(text)


def _value(text: str) -> str:
    """Return ``text`` as a scalar in which nothing is a placeholder."""
    return scalar(escape(text))


def _cannot_hold(text: str) -> str | None:
    return "it holds characters that cannot be written" if UNPRINTABLE.search(text) else None


class _CatalogWriter:
    """Writes one catalog's block; ``variables`` are the environment variables named so far, and are added to."""

    def __init__(self, catalog: ExportCatalog, variables: set[str]) -> None:
        self._catalog = catalog
        self._variables = variables
        self._capabilities = catalog.capabilities
        self._namespaces: defaultdict[Identifier, set[str]] = defaultdict(set)
        self._tables: defaultdict[Identifier, list[str]] = defaultdict(list)
        for identifier in catalog.snapshot.namespaces:
            self._add_path(identifier)
        for identifier in catalog.snapshot.tables:
            self._tables[identifier[:-1]].append(identifier[-1])
            self._add_path(identifier[:-1])

    def _add_path(self, identifier: Identifier) -> None:
        while identifier and identifier[-1] not in self._namespaces[identifier[:-1]]:
            self._namespaces[identifier[:-1]].add(identifier[-1])
            identifier = identifier[:-1]

    def lines(self) -> Iterator[str]:
        """Yield the catalog's lines."""
        catalog, indent = self._catalog, _INDENT * 2
        yield f"{_INDENT}{scalar(catalog.name)}:"
        if catalog.impl is not None:
            yield f"{indent}impl: {scalar(catalog.impl)}"
            yield from self._config(indent)
        if not catalog.scope.is_everything:
            yield f"{indent}scope: [{', '.join(_quoted_always(pattern) for pattern in catalog.scope.patterns)}]"
        for note in catalog.snapshot.notes:
            yield f"{indent}# {_comment(note)}"
        yield from self._children((), indent)

    def _config(self, indent: str) -> Iterator[str]:
        if not self._catalog.config:
            yield f"{indent}config: {{}}"
            return
        yield f"{indent}config:"
        for key, text in self._catalog.config.items():
            plain = key.removeprefix(f"{self._catalog.impl}.")
            if is_secret_config(plain, text) and is_literal(parse_template(text)):
                yield from self._placeholder(key, [plain], indent + _INDENT)
            else:
                yield f"{indent}{_INDENT}{scalar(key)}: {scalar(text)}"

    def _placeholder(self, key: str, path: Sequence[str], indent: str) -> Iterator[str]:
        """Yield ``key`` with a placeholder for a value that is not written; ``path`` is where it stands."""
        names = (self._catalog.name, *path)
        variable = re.sub(r"[^A-Z0-9]+", "_", "_".join(("LANCENS", *names)).upper())
        if variable in self._variables:  # `a-b` and `a_b` are two secrets
            variable += f"_{hashlib.sha256(json.dumps(names).encode()).hexdigest()[:8].upper()}"
        self._variables.add(variable)
        yield f"{indent}# `{_comment(key)}` is not shown; give it in the environment."
        yield f'{indent}{scalar(key)}: "${{env:{variable}}}"'

    # ---- what is below a namespace, or the root

    def _children(self, parent: Identifier, indent: str) -> Iterator[str]:
        tables = self._tables.get(parent)
        if tables:
            yield from self._group(
                "tables",
                [line for name in sorted(tables) for line in self._table(parent, name, indent + _INDENT)],
                indent,
            )
        namespaces = self._namespaces.get(parent)
        if namespaces:
            yield from self._group(
                "namespaces",
                [line for name in sorted(namespaces) for line in self._namespace(parent, name, indent + _INDENT)],
                indent,
            )

    def _group(self, key: str, lines: list[str], indent: str) -> Iterator[str]:
        if all(line.lstrip().startswith("#") for line in lines):
            yield from lines
            return
        yield f"{indent}{key}:"
        yield from lines

    def _left_out(self, kind: str, parent: Identifier, name: str) -> str | None:
        """Return the comment on a name that no manifest can hold, None on every other."""
        reason = check_name(name) or _cannot_hold(name)
        if reason is None and len(parent) >= _MOST_LEVELS:
            reason = f"it is more than {_MOST_LEVELS} levels deep"
        return None if reason is None else f"# {kind} {display.message(json.dumps(name))} is left out: {reason}"

    def _namespace(self, parent: Identifier, name: str, indent: str) -> Iterator[str]:
        comment = self._left_out("namespace", parent, name)
        if comment is not None:
            yield f"{indent}{comment}"
            return
        identifier = (*parent, name)
        live = self._catalog.snapshot.namespaces.get(identifier)
        inner = indent + _INDENT
        lines: list[str] = []
        if live is not None:
            lines += self._kind(live, inner)
            if len(identifier) > self._capabilities.fixed_levels:
                lines += self._properties(live, inner)
        lines += self._children(identifier, inner)
        yield from _block(scalar(name), lines, indent)

    def _kind(self, live: LiveNamespace, indent: str) -> Iterator[str]:
        kinds = self._capabilities.namespace_kinds
        if live.kind is not None and kinds is not None and live.kind != kinds[live.id not in self._namespaces]:
            yield f"{indent}kind: {_value(live.kind)}"

    def _table(self, parent: Identifier, name: str, indent: str) -> Iterator[str]:
        comment = self._left_out("table", parent, name)
        if comment is not None:
            yield f"{indent}{comment}"
            return
        live = self._catalog.snapshot.tables[(*parent, name)]
        if live.id in self._catalog.remarks:
            yield f"{indent}# {_comment(self._catalog.remarks[live.id])}"
        place = self._catalog.places.get(live.id, live.location)
        inner = indent + _INDENT
        columns = self._catalog.schemas.get(live.id, ())
        properties = list(self._properties(live, inner))
        if place is not None and not columns and not properties and not _place_problem(place):
            yield f"{indent}{scalar(name)}: {{location: {_quoted_always(escape(place))}}}"
            return
        lines = [*_location(place, inner), *_schema(columns, inner), *properties]
        yield from _block(scalar(name), lines, indent)

    def _properties(self, live: LiveNamespace | LiveTable, indent: str) -> Iterator[str]:
        is_owned = ownership.owner_of(live.properties) is not None
        inner = indent + _INDENT
        secret = ownership.recorded_secrets(live.properties)
        written: list[str] = []
        for key, value in sorted(live.properties.items()):
            if ownership.is_reserved_key(key):
                continue
            key_fault = _cannot_be_key(key)
            is_secret = key in secret or is_sensitive(key, value) or is_stand_in(value)
            value_fault = "its value looks like a secret" if is_secret else _cannot_hold(value)
            if key_fault is None and value_fault is None:
                written.append(f"{inner}{scalar(key)}: {_value(value)}")
            elif key_fault is None and is_owned:
                written += self._placeholder(key, [*live.id, key], inner)
            else:
                shown = display.message(json.dumps(key[:_LONGEST_KEY]))
                yield f"{indent}# property {shown} is left out: {key_fault or value_fault}"
        if written:
            yield f"{indent}properties:"
            yield from written


def _place_problem(place: str) -> str | None:
    return locations.check(place) or _cannot_hold(place)


def _location(place: str | None, indent: str) -> Iterator[str]:
    if place is not None:
        reason = _place_problem(place)
        yield f"{indent}# location is left out: {reason}" if reason else f"{indent}location: {_value(place)}"


def _schema(columns: Schema, indent: str) -> Iterator[str]:
    """Yield the columns, all of them or none: half a schema would be another one."""
    if not columns:
        return
    faults = [fault for column in columns if (fault := _column_fault(column)) is not None]
    if faults:
        yield f"{indent}# schema is left out: {_comment(faults[0])}"
        return
    yield f"{indent}schema:"
    for column in columns:
        written = [f"name: {_quoted_where_needed(column.name)}", f"type: {_quoted_where_needed(column.type)}"]
        if not column.nullable:
            written.append("nullable: false")
        if column.metadata:
            pairs = (
                f"{_quoted_always(key)}: {_quoted_always(escape(value))}" for key, value in column.metadata.items()
            )
            written.append(f"metadata: {{{', '.join(pairs)}}}")
        yield f"{indent}{_INDENT}- {{{', '.join(written)}}}"


def _column_fault(column: Column) -> str | None:
    """Return why a manifest cannot say this column, None when it can."""
    if any(is_sensitive(*pair) for pair in column.metadata.items()):
        return f"the metadata of column {json.dumps(column.name)} looks like a secret"
    texts = (column.name, *(text for pair in column.metadata.items() for text in pair))
    if any(map(_cannot_hold, texts)) or any(_cannot_be_key(key) for key in column.metadata):
        return f"column {json.dumps(column.name)} holds characters that cannot be written"
    try:
        make_column(check_column_name(column.name), column.type, column.nullable, column.metadata)
    except TypeSyntaxError as error:
        return f"column {json.dumps(column.name)}: {error}"
    return None


def _quoted_where_needed(text: str) -> str:
    """Return ``text`` as a scalar that also stands inside of brackets, plain where it is one word."""
    return text if _WORD.fullmatch(text) and text.lower() not in _NOT_TEXT else _quoted_always(escape(text))


def _cannot_be_key(key: str) -> str | None:
    return "the key is empty or too long" if not key or len(key) > _LONGEST_KEY else _cannot_hold(key)


def _block(key: str, lines: Sequence[str], indent: str) -> Iterator[str]:
    """Yield ``key`` with what is below it, an empty block where that is comments only."""
    is_empty = all(line.lstrip().startswith("#") for line in lines)
    yield f"{indent}{key}: {{}}" if is_empty else f"{indent}{key}:"
    yield from lines


def _quoted_always(text: str) -> str:
    """Return ``text`` as a scalar that also stands inside of brackets, with every character in it visible."""
    return display.message(json.dumps(text, ensure_ascii=False))


def _comment(text: str) -> str:
    return display.message(" ".join(UNPRINTABLE.sub("?", text).split()))
