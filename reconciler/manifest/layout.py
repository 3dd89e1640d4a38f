"""The one layout of a manifest file: indentation, spaces and blank lines; words, quotes, order and comments stay.

Two spaces a level, lists one level in, one space behind ``:`` and ``,``, none inside of brackets, at most one blank
line, comments at the end of successive lines one below the other. Where a line breaks is the author's choice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from reconciler.errors import ManifestError, Problem
from reconciler.manifest.faults import Faults, SourceFile
from reconciler.manifest.reader import read_document

__all__ = ["laid_out"]

_STEP = 2
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")


def laid_out(name: str, data: bytes) -> bytes:
    """Return the content of the file ``name`` in the one layout; what is in it already comes back as it is.

    Raises:
        ManifestError: it is no YAML that a manifest could be, or uses a form that cannot be laid out.
    """
    faults = Faults([SourceFile(name, "", name)])
    read_document(data, 0, faults)
    faults.raise_if_any()
    text = data.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    try:
        made = _Writer(text).text()
    except (_CannotError, ValueError, RecursionError):
        made = ""
    if _meaning(made) != _meaning(text):
        raise ManifestError([Problem(name, 0, 0, "is written in a way that lancens cannot lay out")])
    return made.encode("utf-8")


class _CannotError(Exception):
    """A form of YAML that no manifest needs."""


@dataclass(slots=True)
class _Line:
    """A line to write. ``is_raw``: it is part of a value, so that every space in it counts."""

    content: str
    comment: str = ""
    is_raw: bool = False


class _Writer:
    """Writes nodes and what is between them, from the front to the back of a text; ``_at`` is how far it got."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: list[_Line] = []
        self._columns: list[tuple[int, int]] = [(0, 0)]  # of the open blocks: as they were, and as they are now
        self._left: list[tuple[int, int]] = []  # of the blocks that ended since the last gap

    def text(self) -> str:
        root = yaml.compose(self._text, Loader=yaml.CBaseLoader)
        if root is not None:
            if isinstance(root, yaml.MappingNode) and not root.flow_style:
                self._mapping(root, 0)
            else:
                self._gap(root.start_mark.index, 0)
                self._lines.append(_Line(""))
                self._value(root, 0)
        self._gap(len(self._text), 0, is_end=True)
        while self._lines and not self._lines[-1].content and not self._lines[-1].comment:
            self._lines.pop()
        return _joined(self._lines)

    # ---- blocks

    def _mapping(self, node: yaml.MappingNode, column: int, *, is_inline: bool = False) -> None:
        self._columns.append((node.start_mark.column, column))
        for key, value in node.value:
            self._gap(key.start_mark.index, column)
            if is_inline:
                is_inline = False
            else:
                self._lines.append(_Line(" " * column))
            self._scalar(key, column)
            self._skip(":")
            self._put(":")
            self._block_value(value, column)
        self._left.append(self._columns.pop())

    def _sequence(self, node: yaml.SequenceNode, column: int, *, is_inline: bool = False) -> None:
        self._columns.append((node.start_mark.column, column))
        for item in node.value:
            dash = self._find("-")
            self._gap(dash, column)
            if is_inline:
                is_inline = False
            else:
                self._lines.append(_Line(" " * column))
            self._put("-")
            self._at = dash + 1
            self._block_value(item, column, is_item=True)
        self._left.append(self._columns.pop())

    def _block_value(self, node: yaml.Node, column: int, *, is_item: bool = False) -> None:
        """Write what stands behind a key or a dash."""
        if _is_unwritten(node):
            return
        inner = column + _STEP
        between = self._text[self._at : node.start_mark.index]
        is_block = isinstance(node, yaml.CollectionNode) and not node.flow_style
        if is_block and (not is_item or "\n" in between):
            write = self._mapping if isinstance(node, yaml.MappingNode) else self._sequence
            write(node, inner)  # type: ignore[arg-type]
        elif is_block:
            self._put(" ")
            write = self._mapping if isinstance(node, yaml.MappingNode) else self._sequence
            write(node, inner, is_inline=True)  # type: ignore[arg-type]
        elif "\n" in between:
            self._gap(node.start_mark.index, inner)
            self._lines.append(_Line(" " * inner))
            self._value(node, inner)
        else:
            self._put(" ")
            self._value(node, column)

    def _value(self, node: yaml.Node, column: int) -> None:
        if isinstance(node, yaml.ScalarNode):
            self._scalar(node, column)
        elif isinstance(node, yaml.CollectionNode):
            self._flow(node, column)

    # ---- brackets

    def _flow(self, node: yaml.CollectionNode, column: int) -> None:
        start, end = node.start_mark.index, node.end_mark.index
        if self._text[start] not in "{[":
            raise _CannotError
        self._put(self._text[start])
        self._at = start + 1
        inner = column + _STEP
        for number, item in enumerate(node.value):
            if number:
                self._skip(",")
                self._put(",")
            key, value = item if isinstance(node, yaml.MappingNode) else (item, None)
            if not self._break(key.start_mark.index, inner) and number:
                self._put(" ")
            self._value(key, inner)
            if value is not None and not self._is_next(",}"):
                self._skip(":")
                self._put(":")
                if _is_unwritten(value):
                    self._put(" ")
                    continue
                if not self._break(value.start_mark.index, inner + _STEP):
                    self._put(" ")
                self._value(value, inner)
        self._break(end - 1, column)
        self._put(self._text[end - 1])
        self._at = end

    def _break(self, to: int, column: int) -> bool:
        """Go on to ``to`` inside of brackets, on another line where there is one in between; return whether."""
        between = self._text[self._at : to]
        self._at = to
        first, *others = between.split("\n")
        self._trail(first)
        for line in others[:-1]:
            comment = _COMMENT.search(line)
            if comment is not None:
                self._lines.append(_Line(" " * column + comment[0].rstrip()))
        if others:
            self._lines.append(_Line(" " * column))
        return bool(others)

    # ---- scalars

    def _scalar(self, node: yaml.Node, column: int) -> None:
        start, end = node.start_mark.index, node.end_mark.index
        raw = self._text[start:end]
        first, *others = raw.split("\n")
        if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
            self._block_scalar(first, others, column + _STEP)
            # The line break at its end is still to be seen: a gap begins with the rest of a line.
            self._at = start + len(raw.rstrip("\n ")) if "+" not in first else end - raw.endswith("\n")
            return
        self._put(first if not others else first.rstrip())
        self._lines += [_Line(" " * (column + _STEP) + line.strip() if line.strip() else "") for line in others]
        self._at = end

    def _block_scalar(self, head: str, lines: list[str], column: int) -> None:
        header, comment = head, _COMMENT.search(head)
        if comment is not None:
            header = head[: comment.start()]
            self._lines[-1].comment = comment[0].rstrip()
        self._put(header.rstrip())
        written = [line for line in lines if line.strip()]
        if not written or re.search(r"\d", header):
            raise _CannotError
        own = len(written[0]) - len(written[0].lstrip(" "))
        while lines and not lines[-1].strip() and "+" not in header:
            lines.pop()
        if lines and not lines[-1] and "+" in header:
            lines.pop()
        for line in lines:
            kept = line[own:]
            self._lines.append(_Line(" " * column + kept if kept else "", is_raw=True))

    # ---- between nodes

    def _gap(self, to: int, column: int, *, is_end: bool = False) -> None:
        """Write the comments and blank lines up to ``to``, where something at ``column`` stands."""
        between = self._text[self._at : to]
        start = self._at
        self._at = to
        first, *others = between.split("\n")
        if start == 0:
            others = [first, *others]
        else:
            self._trail(first)
        next_column = 0 if is_end else to - (self._text.rfind("\n", 0, to) + 1)
        for line in others if is_end else others[:-1]:
            comment = _COMMENT.search(line)
            if comment is None:
                if line.strip() in ("", "---") and self._lines and (self._lines[-1].content or self._lines[-1].comment):
                    self._lines.append(_Line(""))
                continue
            if start == 0 or (not is_end and comment.start() <= next_column):
                place = column
            else:
                place = max((now for was, now in (*self._columns, *self._left) if was <= comment.start()), default=0)
            self._lines.append(_Line(" " * place + comment[0].rstrip()))
        self._left.clear()

    def _trail(self, rest: str) -> None:
        """Put the comment at the end of the line written last, if there is one."""
        comment = _COMMENT.search(rest)
        if comment is not None:
            self._lines[-1].comment = comment[0].rstrip()

    def _put(self, text: str) -> None:
        self._lines[-1].content += text

    def _find(self, sign: str) -> int:
        """Return where ``sign`` is next, outside of comments."""
        at = self._at
        while True:
            here = self._text[at]
            if here == sign:
                return at
            at = self._text.index("\n", at) if here == "#" else at + 1

    def _skip(self, sign: str) -> None:
        """Go behind the next ``sign``; comments before it go to the end of the line."""
        at = self._find(sign)
        self._trail(self._text[self._at : at].replace("\n", " "))
        self._at = at + 1

    def _is_next(self, signs: str) -> bool:
        at = self._at
        while self._text[at].isspace() or self._text[at] == "#":
            at = self._text.index("\n", at) if self._text[at] == "#" else at + 1
        return self._text[at] in signs


def _is_unwritten(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.start_mark.index == node.end_mark.index


def _joined(lines: Sequence[_Line]) -> str:
    """Return the text of ``lines``, with comments of successive lines in one column."""
    made: list[str] = []
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and lines[end].comment:
            end += 1
        width = max((len(line.content.rstrip()) for line in lines[at:end]), default=0)
        made += [f"{line.content.rstrip():<{width}}  {line.comment}" for line in lines[at:end]]
        if end == at:
            made.append(lines[at].content if lines[at].is_raw else lines[at].content.rstrip())
            end += 1
        at = end
    return "".join(f"{line}\n" for line in made)


def _meaning(text: str) -> tuple[object, list[str]] | None:
    """Return what a text says, and its comments; None for what is no YAML."""
    try:
        root = yaml.compose(text, Loader=yaml.CBaseLoader)
    except yaml.YAMLError:
        return None
    comments: list[str] = []
    spans: list[tuple[int, int]] = []
    plain = _plain(root, spans)
    at = 0
    for start, end in [*sorted(spans), (len(text), len(text))]:
        comments += [found[0].rstrip() for line in text[at:start].split("\n") if (found := _COMMENT.search(line))]
        at = max(at, end)
    return plain, comments


def _plain(node: yaml.Node | None, spans: list[tuple[int, int]]) -> object:
    if isinstance(node, yaml.MappingNode):
        return [(_plain(key, spans), _plain(value, spans)) for key, value in node.value]
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, spans) for item in node.value]
    if not isinstance(node, yaml.ScalarNode):
        return None
    spans.append((node.start_mark.index, node.end_mark.index))
    return node.value, bool(node.style) and node.style in "'\"|>"
