"""Insert blocks into an existing manifest file, and keep every other byte of it.

A YAML library would change the layout when it writes. Here the parser finds the places where something is missing, and
the text is inserted there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import yaml

from reconciler.manifest.problems import Problems, SourceFile
from reconciler.manifest.reader import NULLS, read_document
from reconciler.model import locations
from reconciler.model.errors import ManifestError, Problem

Plain: TypeAlias = "str | list[Plain] | dict[str, Plain]"
_NameOf: TypeAlias = Callable[[str, Sequence[str]], str]

_BYTE_ORDER_MARK = "\ufeff"
_COLON = re.compile(r"\s*:")
_UP_TO_VARIABLE = re.compile(r"(.*\}[^/]*).*", re.DOTALL)


def graft(
    name: str, data: bytes, added: str, expand: Callable[[str], str] = str, folding: Collection[str] = ()
) -> bytes:
    """Insert the keys below ``catalogs`` of ``added`` that a manifest file lacks; return its new content.

    The file wins if both have a key. All its lines stay, comments included, except for ``{}`` and ``null``.

    Args:
        name: of the file, for errors.
        data: its content.
        added: a manifest from :func:`reconciler.writing.export.to_yaml`.
        expand: returns the name that a key with placeholders stands for.
        folding: the catalogs that fold names to lower case, as ``added`` has them.

    Raises:
        ManifestError: the file cannot be read, or cannot be extended in place.
    """
    problems = Problems([SourceFile(name, "")])
    read_document(data, 0, problems)
    problems.raise_if_any()
    text = data.decode("utf-8")
    mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
    text = text.removeprefix(mark)
    lines = added.splitlines()
    base, extra = _compose(text), _compose(added)
    if extra is None:
        return data
    splices = _Splices(text, expand, folding)
    if base is None:  # an empty file, or one of comments
        splices.append(lines)
        expected = _plain(extra, splices.name_of)
    else:
        below = [entry for entry in _entries(extra, lines, len(lines)) if entry.key.value == "catalogs"]
        _graft(base, below, splices)
        added_catalogs = {entry.key.value: _plain(entry.value, splices.name_of, (entry.key.value,)) for entry in below}
        expected = _merge(_plain(base, splices.name_of), added_catalogs)
    grafted = splices.result()
    try:
        is_right = _plain(_compose(grafted), splices.name_of) == expected
    except yaml.YAMLError:
        is_right = False
    if not is_right:
        raise ManifestError(
            [Problem(name, 0, 0, "cannot be extended in place; write the blocks to a file of their own with -o")]
        )
    return (mark + grafted).encode("utf-8")


def variable_values(texts: Iterable[str], expand: Callable[[str], str], folder: str) -> dict[tuple[str, str], str]:
    """Return the templates in ``texts`` whose values come from variables alone, by key and value.

    For a `location`, the template ends with the last name that has a variable, and is relative to ``folder``.
    """
    templates: dict[tuple[str, str], str] = {}
    nodes: list[yaml.Node | None] = [_compose(text) for text in texts]
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.SequenceNode):
            nodes += node.value
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            nodes.append(value)
            template = value.value if isinstance(value, yaml.ScalarNode) else ""
            if key.value == "location":
                template = _UP_TO_VARIABLE.sub(r"\1", template)
            resolved = expand(template) if "${var:" in template else template
            if resolved != template:
                resolved = locations.absolute(resolved, folder) if key.value == "location" else resolved
                templates.setdefault((key.value, resolved), template)
    return templates


class _Splices:
    """Collects insertions and replacements in ``text``; :meth:`result` applies them."""

    def __init__(self, text: str, expand: Callable[[str], str], folding: Collection[str]) -> None:
        self.text = text
        self._expand, self._folding = expand, folding
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        self._insertions: list[tuple[int, int, str]] = []

    def name_of(self, key: str, path: Sequence[str]) -> str:
        """Return the name that ``key`` in the block at ``path`` stands for."""
        name = self._expand(key)
        return name.lower() if len(path) > 1 and path[1] in self._folding else name

    def replace(self, start: int, end: int, with_: str) -> None:
        self._insertions.append((start, end, with_))

    def after_line(self, index: int, lines: Sequence[str]) -> None:
        """Insert lines after the line of ``index``."""
        at = self.text.find("\n", index)
        at = len(self.text) if at < 0 else at
        if at and self.text[at - 1 : at + 1] == "\r\n":
            at -= 1
        self.replace(at, at, "".join(self._line_end + line for line in lines))

    def append(self, lines: Sequence[str]) -> None:
        gap = "" if not self.text or self.text.endswith("\n") else self._line_end
        self.replace(len(self.text), len(self.text), gap + "".join(line + self._line_end for line in lines))

    def result(self) -> str:
        pieces, at = [], 0
        for start, end, text in sorted(self._insertions, key=lambda splice: splice[:2]):
            pieces += [self.text[at:start], text]
            at = end
        return "".join([*pieces, self.text[at:]])


@dataclass(frozen=True, slots=True)
class _Entry:
    """A key and its value in the added text, with their lines."""

    key: yaml.ScalarNode
    value: yaml.Node
    lines: Sequence[str]
    first: int
    end: int

    def indented(self, column: int) -> list[str]:
        """Return its lines, indented to ``column``."""
        indent = self.key.start_mark.column
        return [" " * column + line[indent:] for line in self.lines[self.first : self.end]]


def _entries(node: yaml.MappingNode, lines: Sequence[str], end: int) -> Iterator[_Entry]:
    """Yield the entries of a block that ends before the line ``end``, each with the comments above it."""
    starts: list[int] = []
    for key, _ in node.value:
        first, column = key.start_mark.line, key.start_mark.column
        above = starts[-1] if starts else node.start_mark.line - 1
        while first - 1 > above and lines[first - 1].startswith(" " * column + "#"):
            first -= 1
        starts.append(first)
    for (key, value), first, after in zip(node.value, starts, [*starts[1:], end], strict=False):
        yield _Entry(key, value, lines, first, after)


def _graft(into: yaml.MappingNode, entries: Iterable[_Entry], splices: _Splices, path: tuple[str, ...] = ()) -> None:
    existing = {splices.name_of(key.value, path): (key, value) for key, value in into.value}
    missing = []
    for entry in entries:
        name = splices.name_of(entry.key.value, path)
        if name not in existing:
            missing.append(entry)
        elif isinstance(entry.value, yaml.MappingNode):
            key, value = existing[name]
            below = _entries(entry.value, entry.lines, entry.end)
            if isinstance(value, yaml.MappingNode) and value.value:
                _graft(value, below, splices, (*path, name))
            elif _is_nothing(value) and entry.value.value:
                _fill(key, value, entry, into, splices)
    if missing:
        _insert(into, missing, splices)


def _is_nothing(node: yaml.Node) -> bool:
    if isinstance(node, yaml.ScalarNode):
        return not node.style and node.value in NULLS
    return isinstance(node, yaml.MappingNode) and not node.value


def _fill(key: yaml.Node, value: yaml.Node, entry: _Entry, into: yaml.MappingNode, splices: _Splices) -> None:
    """Replace ``{}`` or null by an entry's content."""
    start, end = value.start_mark.index, value.end_mark.index
    colon = _COLON.match(splices.text, key.end_mark.index)
    if start == end:  # the mark of an empty value is at the next token
        start = end = colon.end() if colon else key.end_mark.index
    if "#" in splices.text[start:end]:
        return  # a comment within the brackets
    if into.flow_style or (isinstance(entry.value, yaml.MappingNode) and entry.value.flow_style):
        gap = "" if splices.text[start - 1] == " " else " "
        splices.replace(start, end, f"{'' if colon else ':'}{gap}{_flow_text(entry.value)}")
        return
    while start < end and splices.text[start - 1] == " ":
        start -= 1
    splices.replace(start, end, "")
    indented = entry.indented(key.start_mark.column)
    at = next(number for number, line in enumerate(indented) if not line.lstrip().startswith("#"))
    splices.after_line(end, indented[at + 1 :])


def _insert(into: yaml.MappingNode, missing: Sequence[_Entry], splices: _Splices) -> None:
    last = into.value[-1][1] if into.value else None
    if into.flow_style:
        text = ", ".join(f"{_flow_scalar(entry.key.value)}: {_flow_text(entry.value)}" for entry in missing)
        at = into.start_mark.index + 1 if last is None else last.end_mark.index
        splices.replace(at, at, f", {text}" if last is not None else text)
        return
    column = into.value[0][0].start_mark.column
    end = _end(into)
    while end > 0 and splices.text[end - 1] in " \r\n":  # a block scalar ends after its line break
        end -= 1
    splices.after_line(end, [line for entry in missing for line in entry.indented(column)])


def _end(node: yaml.Node) -> int:
    """Return the end of a node's last text; for a parser, a block ends where the next one starts."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        key, value = node.value[-1]
        return max(int(key.end_mark.index), _end(value))
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return _end(node.value[-1])
    return int(node.end_mark.index)


def _flow_text(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "{" + ", ".join(f"{_flow_scalar(key.value)}: {_flow_text(value)}" for key, value in node.value) + "}"
    if isinstance(node, yaml.SequenceNode):
        return "[" + ", ".join(map(_flow_text, node.value)) + "]"
    return _flow_scalar(node.value)


def _flow_scalar(text: str) -> str:
    return (
        text if text.isidentifier() and text.isascii() and text not in NULLS else json.dumps(text, ensure_ascii=False)
    )


def _compose(text: str) -> yaml.MappingNode | None:
    node = yaml.compose(text, Loader=yaml.CBaseLoader)
    return node if isinstance(node, yaml.MappingNode) else None


def _plain(node: yaml.Node | None, name_of: _NameOf, path: tuple[str, ...] = ()) -> Plain:
    if isinstance(node, yaml.MappingNode):
        names = [(name_of(key.value, path), value) for key, value in node.value]
        return {name: _plain(value, name_of, (*path, name)) for name, value in names}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, name_of, path) for item in node.value]
    return {} if node is None or _is_nothing(node) else str(node.value)


def _merge(first: Plain, second: Plain) -> Plain:
    """Return both merged; ``first`` wins where they differ."""
    if not isinstance(first, dict) or not isinstance(second, dict):
        return first
    return {**second, **{key: _merge(value, second[key]) if key in second else value for key, value in first.items()}}
