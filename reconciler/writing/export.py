"""Write a manifest of the live state, which :func:`reconciler.manifest.load` reads back as the same state."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import PurePath

from reconciler.arrow_types import TypeSyntaxError, check_column_name, make_column
from reconciler.manifest.reader import MAX_DEPTH, UNPRINTABLE
from reconciler.manifest.variables import escape, is_literal, parse_template
from reconciler.model import display, locations, ownership
from reconciler.model.backend_config import plain_key
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Column, Schema
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import Identifier, Scope, check_name
from reconciler.model.redaction import is_secret_config, is_sensitive, is_stand_in
from reconciler.model.tags import TagTarget

HEADER = """\
# yaml-language-server: $schema=./manifest.schema.json
# `lancens schema > manifest.schema.json` writes the schema that editors check and complete with.
version: 1
"""
ID_COMMENT = "# tells this manifest from others of its name; never change it, and never copy it to another manifest"
_INDENT = "  "
# Each namespace is two levels of nesting, below three others.
_MAX_LEVELS = (MAX_DEPTH - 8) // 2
_MAX_KEY_LENGTH = 1000  # A longer key needs YAML's `?`.
_PLAIN = re.compile(r"(?:[A-Za-z_]|\.{0,2}/)(?:[A-Za-z0-9_./%+=-]|:(?=[A-Za-z0-9_./-]))*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


@dataclass(frozen=True, slots=True)
class ExportCatalog:
    """One catalog to write.

    Args:
        name: its name in the manifest.
        impl: the name of its implementation; None where the manifest has ``impl`` and ``config`` already.
        config: text with placeholders, as in a manifest.
        snapshot: the live objects to write blocks for.
        scope: the part of the catalog that the manifest covers.
        location_texts: the text, with placeholders, to write instead of the live location of a table; None to write
            none.
        schemas: the columns to write, by table.
        tags: the targets of tags that lancens set, by table and name.
        remarks: the comment to write above a table.
        clones: the value of ``clone`` in the block of a table.
        as_policies: write policies instead of blocks, and prune nothing.
        templates: the text, with placeholders, to write instead of a value, by the key and value of a property.
        capabilities: those of the catalog.
        written_names: names with variables, as the manifest writes them, by what they stand for.
    """

    name: str
    impl: str | None
    config: Mapping[str, str] = field(repr=False)
    snapshot: Snapshot = field(repr=False)
    scope: Scope
    location_texts: Mapping[Identifier, str | None] = field(default_factory=dict, repr=False)
    schemas: Mapping[Identifier, Schema] = field(default_factory=dict, repr=False)
    tags: Mapping[Identifier, Mapping[str, str]] = field(default_factory=dict, repr=False)
    remarks: Mapping[Identifier, str] = field(default_factory=dict, repr=False)
    clones: Mapping[Identifier, str] = field(default_factory=dict, repr=False)
    as_policies: bool = False
    templates: Mapping[tuple[str, str], str] = field(default_factory=dict, repr=False)
    capabilities: Capabilities = field(default_factory=Capabilities)
    written_names: Mapping[str, str] = field(default_factory=dict)


def new_id() -> str:
    """Return an ``id`` for a new manifest, which tells it from others of the same name."""
    return secrets.token_hex(6)


def name_from_folder(folder: str) -> str:
    """Return the name of a new manifest in a folder."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", PurePath(folder).name).strip("-")
    return name if check_name(name) is None else "lancens"


def to_yaml(name: str, catalogs: Sequence[ExportCatalog], identity: str | None = None) -> str:
    """Return the manifest ``name``, with ``identity`` as its ``id``, of the live state of ``catalogs``.

    Namespaces with properties are claimed, others are paths. Invalid names, and values that look like secrets, are left
    out, with a comment. A secret in ``config``, or on an owned object, becomes a placeholder: planning would remove an
    owned property that is not in the manifest.
    """
    variables: set[str] = set()
    blocks = [_block_lines(scalar(catalog.name), _CatalogWriter(catalog, variables).lines()) for catalog in catalogs]
    head = [f"name: {scalar(name)}", *([f"id: {scalar(identity)}  {ID_COMMENT}"] if identity else [])]
    lines = [*head, *_block_lines("catalogs", chain.from_iterable(blocks))]
    return HEADER + "\n".join(lines) + "\n"


def scalar(text: str) -> str:
    """Return ``text`` as a YAML scalar that every reader reads as text."""
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED_WORDS:
        return text
    return _quote(text)


def _escaped_scalar(text: str) -> str:
    """Return ``text`` as a scalar without placeholders."""
    return scalar(escape(text))


def _unprintable_problem(text: str) -> str | None:
    return "it holds characters that cannot be written" if UNPRINTABLE.search(text) else None


class _CatalogWriter:
    """Writes one catalog's block; adds to ``variables``, the environment variables used so far."""

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
        """Yield the lines below the catalog's name."""
        catalog = self._catalog
        if catalog.impl is not None:
            yield f"impl: {scalar(catalog.impl)}"
            yield from _block_lines("config", self._config_lines())
        if not catalog.scope.is_everything:
            yield f"scope: [{', '.join(_quote(pattern) for pattern in catalog.scope.patterns)}]"
        yield from (f"# {_comment_text(note)}" for note in catalog.snapshot.notes)
        yield from self._policy_lines() if catalog.as_policies else self._child_lines(())

    def _policy_lines(self) -> Iterator[str]:
        """Yield a policy for each table with properties: its values are compared, and nobody owns the table."""
        yield "prune: never"
        policies: list[str] = []
        for _, live in sorted(self._catalog.snapshot.tables.items()):
            match = "/".join(live.id)
            properties = [*self._property_lines(live)]
            if any(_unprintable_problem(name) or set("*?") & set(name) for name in live.id) or _are_comments(
                properties
            ):
                continue
            policies += [f"- match: {_quote(escape(match))}", *(_INDENT + line for line in properties)]
        if policies:
            yield from _block_lines("policies", policies)

    def _config_lines(self) -> Iterator[str]:
        for key, text in self._catalog.config.items():
            plain = plain_key(self._catalog.impl or "", key)
            if is_secret_config(plain, text) and is_literal(parse_template(text)):
                yield from self._placeholder_lines(key, [plain])
            else:
                yield f"{scalar(key)}: {scalar(text)}"

    def _placeholder_lines(self, key: str, path: Sequence[str]) -> Iterator[str]:
        """Yield ``key`` with a placeholder instead of its value; ``path`` is its path in the catalog."""
        names = (self._catalog.name, *path)
        variable = re.sub(r"[^A-Z0-9]+", "_", "_".join(("LANCENS", *names)).upper())
        if variable in self._variables:  # `a-b` and `a_b` are two secrets
            variable += f"_{hashlib.sha256(json.dumps(names).encode()).hexdigest()[:8].upper()}"
        self._variables.add(variable)
        yield f"# `{_comment_text(key)}` is a secret; set it in the environment."
        yield f'{scalar(key)}: "${{env:{variable}}}"'

    # ---- below a namespace or the root

    def _child_lines(self, parent: Identifier) -> Iterator[str]:
        for kind, names, write in (
            ("table", self._tables, self._table_lines),
            ("namespace", self._namespaces, self._namespace_lines),
        ):
            lines = [
                line
                for name in sorted(names.get(parent, ()))
                for line in self._named_lines(kind, (*parent, name), write)
            ]
            yield from lines if _are_comments(lines) else _block_lines(f"{kind}s", lines)

    def _named_lines(
        self, kind: str, identifier: Identifier, write: Callable[[Identifier], Iterator[str]]
    ) -> Iterator[str]:
        """Yield the lines that ``write`` returns for a valid name, else a comment."""
        name, parent = identifier[-1], identifier[:-1]
        reason = check_name(name) or _unprintable_problem(name)
        if reason is None and len(parent) >= _MAX_LEVELS:
            reason = f"it is more than {_MAX_LEVELS} levels deep"
        if reason is None:
            yield from write(identifier)
        else:
            yield f"# {kind} {display.message(json.dumps(name))} is left out: {reason}"

    def _namespace_lines(self, identifier: Identifier) -> Iterator[str]:
        live = self._catalog.snapshot.namespaces.get(identifier)
        lines: list[str] = []
        if live is not None:
            kinds = self._capabilities.namespace_kinds
            if live.kind is not None and kinds is not None and live.kind != kinds[live.id not in self._namespaces]:
                lines.append(f"kind: {_escaped_scalar(live.kind)}")
            if len(identifier) > self._capabilities.fixed_levels:
                lines += self._property_lines(live)
        yield from _block_lines(self._key(identifier), [*lines, *self._child_lines(identifier)])

    def _key(self, identifier: Identifier) -> str:
        return scalar(self._catalog.written_names.get(identifier[-1], identifier[-1]))

    def _table_lines(self, identifier: Identifier) -> Iterator[str]:
        live, key = self._catalog.snapshot.tables[identifier], self._key(identifier)
        if live.id in self._catalog.remarks:
            yield f"# {_comment_text(self._catalog.remarks[live.id])}"
        location = self._catalog.location_texts.get(live.id, escape(live.location))
        columns = self._catalog.schemas.get(live.id, ())
        properties = [*_tag_lines(self._catalog.tags.get(live.id, {})), *self._property_lines(live)]
        if live.id in self._catalog.clones:
            properties.insert(0, f"clone: {self._catalog.clones[live.id]}")
        if location is not None and not columns and not properties and not _location_problem(location):
            yield f"{key}: {{location: {_quote(location)}}}"
        else:
            yield from _block_lines(key, [*_location_lines(location), *_schema_lines(columns), *properties])

    def _property_lines(self, live: LiveNamespace | LiveTable) -> Iterator[str]:
        is_owned, owned_keys = ownership.owner_of(live.properties) is not None, ownership.recorded_keys(live.properties)
        secret_keys = ownership.recorded_secrets(live.properties)
        lines: list[str] = []
        for key, value in sorted(live.properties.items()):
            if ownership.is_reserved_key(key):
                continue
            key_problem = _key_problem(key)
            is_secret = key in secret_keys or is_sensitive(key, value) or is_stand_in(value)
            problem = key_problem or ("its value looks like a secret" if is_secret else _unprintable_problem(value))
            if isinstance(live, LiveNamespace) and key in self._catalog.capabilities.namespace_places:
                problem = problem or locations.problem(value)
            if problem is None:
                text = self._catalog.templates.get((key, value)) or escape(value)
                lines.append(f"{scalar(key)}: {scalar(text)}")
            elif key_problem is None and (is_owned or key in owned_keys):
                lines += self._placeholder_lines(key, [*live.id, key])
            else:
                yield f"# property {display.message(json.dumps(key[:_MAX_KEY_LENGTH]))} is left out: {problem}"
        if lines:
            yield from _block_lines("properties", lines)


def _location_problem(location: str) -> str | None:
    return locations.table_problem(location) or _unprintable_problem(location)


def _location_lines(location: str | None) -> Iterator[str]:
    if location is not None:
        reason = _location_problem(location)
        yield f"# location is left out: {reason}" if reason else f"location: {scalar(location)}"


def _schema_lines(columns: Schema) -> Iterator[str]:
    """Yield all columns or, where one cannot be written, none: part of a schema is a different schema."""
    problem = next(filter(None, map(_column_problem, columns)), None)
    if problem is not None:
        yield f"# schema is left out: {_comment_text(problem)}"
    elif columns:
        yield from _block_lines("schema", map(_column_line, columns))


def _tag_lines(targets: Mapping[str, str]) -> Iterator[str]:
    if targets:
        tags = {name: TagTarget.of(target) for name, target in targets.items()}
        lines = (
            f"{scalar(name)}: {{branch: {_escaped_scalar(tag.branch)}, version: {tag.version}}}"
            for name, tag in tags.items()
        )
        yield from _block_lines("tags", lines)


def _column_line(column: Column) -> str:
    parts = [f"name: {_quote_in_brackets(column.name)}", f"type: {_quote_in_brackets(column.type)}"]
    if not column.nullable:
        parts.append("nullable: false")
    if column.metadata:
        pairs = (f"{_quote(key)}: {_quote(escape(value))}" for key, value in column.metadata.items())
        parts.append(f"metadata: {{{', '.join(pairs)}}}")
    return f"- {{{', '.join(parts)}}}"


def _column_problem(column: Column) -> str | None:
    """Return why a manifest cannot hold this column, None when it can."""
    if any(is_sensitive(*pair) for pair in column.metadata.items()):
        return f"the metadata of column {json.dumps(column.name)} looks like a secret"
    texts = (column.name, *(text for pair in column.metadata.items() for text in pair))
    if any(map(_unprintable_problem, texts)) or any(_key_problem(key) for key in column.metadata):
        return f"column {json.dumps(column.name)} holds characters that cannot be written"
    try:
        make_column(check_column_name(column.name), column.type, column.nullable, column.metadata)
    except TypeSyntaxError as error:
        return f"column {json.dumps(column.name)}: {error}"
    return None


def _quote_in_brackets(text: str) -> str:
    """Return ``text`` as a scalar that is valid inside of brackets, plain where it is one word."""
    return text if _WORD.fullmatch(text) and text.lower() not in _RESERVED_WORDS else _quote(escape(text))


def _key_problem(key: str) -> str | None:
    return "the key is empty or too long" if not key or len(key) > _MAX_KEY_LENGTH else _unprintable_problem(key)


def _block_lines(key: str, children: Iterable[str]) -> Iterator[str]:
    """Yield ``key`` with the lines below it, ``{}`` where those are comments only."""
    lines = list(children)
    yield f"{key}: {{}}" if _are_comments(lines) else f"{key}:"
    yield from (_INDENT + line for line in lines)


def _are_comments(lines: Sequence[str]) -> bool:
    return all(line.lstrip().startswith("#") for line in lines)


def _quote(text: str) -> str:
    """Return ``text`` as a quoted scalar, valid inside of brackets, with every character visible."""
    return display.message(json.dumps(text, ensure_ascii=False))


def _comment_text(text: str) -> str:
    return display.message(" ".join(UNPRINTABLE.sub("?", text).split()))
