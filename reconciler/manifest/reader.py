"""Read YAML text as nodes; refuse anchors, aliases, tags and merge keys.

libyaml's C parser yields events one at a time, so that aliases and deep nesting are refused before they fill memory.
Scalars are never resolved to numbers, dates or booleans: they keep their text.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import yaml

from reconciler.manifest.nodes import LINE_SHIFT, Mapping, Node, Position, ScalarNode, Sequence, is_block, position_of
from reconciler.manifest.problems import Problems
from reconciler.manifest.syntax import TEMPLATE, explain, without_keys

MAX_FILE_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 100
_HEAD_BYTES = 1024
_MOST_ANCHORS = 20
"""The most anchors, aliases and tags in one report."""
_MAX_SHARED_TEXTS = 4096
"""How many different texts of a file are shared, as many tables have the same keys and values."""

_BYTE_ORDER_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
# Includes the line breaks of YAML 1.1 that editors do not count, so that line numbers agree.
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


class _StopError(Exception):
    """Stops reading a file; its error is in ``Problems`` already."""


def read_document(data: bytes, file: int, problems: Problems, example: str = "such as `version: 1`") -> Mapping | None:
    """Return the block at the top of a file, empty for an empty file; None after a syntax error.

    Args:
        data: the content of the file.
        file: the index of the file in ``problems.files``.
        problems: takes the errors.
        example: of a key that the file may have, for the error about a file without keys.
    """
    name = problems.files[file].name
    if len(data) > MAX_FILE_BYTES:
        problems.add_in_file(name, f"the file is larger than {MAX_FILE_BYTES // 2**20} MB; split it and use `include`")
        return None
    try:
        return _Composer(file, problems).compose(data, example)
    except _StopError:
        return None
    except yaml.MarkedYAMLError as error:
        fault = explain(error, data.decode("utf-8", "replace").removeprefix("\ufeff"))
        problems.add_at(position_of(file, fault.line, fault.column), fault.message)
        return None
    except yaml.YAMLError as error:
        problems.add_in_file(name, f"not valid YAML: {error}")
        return None


class _Composer:
    """Builds nodes from parser events with a stack of open collections, the innermost on top."""

    _loader: yaml.CSafeLoader

    def __init__(self, file: int, problems: Problems) -> None:
        self._file = file
        self._problems = problems

    def compose(self, data: bytes, example: str) -> Mapping:
        self._loader = yaml.CSafeLoader(self._decode(data).encode())
        try:
            root = self._compose_root()
        finally:
            self._loader.dispose()
        if isinstance(root, Mapping):
            return root
        start = position_of(self._file, 1, 1)
        if root is not None and not is_block(root):
            kind = "a list" if isinstance(root, Sequence) else "text"
            expected = isinstance(root, ScalarNode) and without_keys(root.text)
            self._stop(root.position, f"{kind} at the top; {expected or f'expected a block of keys {example}'}")
        return Mapping(start, start)

    def _decode(self, data: bytes) -> str:
        for mark, encoding in _BYTE_ORDER_MARKS.items():
            if data.startswith(mark):
                self._stop(position_of(self._file, 1, 1), f"the file is in {encoding}, expected UTF-8")
        if data[:_HEAD_BYTES].lstrip().startswith(b"<"):
            expected = "a plan to apply is JSON, which `lancens plan -o plan.json` writes"
            self._stop(position_of(self._file, 1, 1), f"HTML or XML, not YAML; {expected}")
        try:
            text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
        except UnicodeDecodeError as error:
            before = data[: error.start]
            position = position_of(self._file, before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
            if b"\0" in data[:_HEAD_BYTES]:
                self._stop(position_of(self._file, 1, 1), "a binary file, not YAML")
            self._stop(position, f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8")
        match = UNPRINTABLE.search(text)
        if match is not None:
            offset = match.start()
            position = position_of(self._file, text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))
            expected = "expected printable text, or an escape in double quotes"
            self._stop(position, f"control character U+{ord(match[0]):04X}; {expected}")
        return text

    def _compose_root(self) -> Node | None:  # noqa: C901 - a call for each event would take a third longer
        """Return the root of the document, None for an empty file.

        A large manifest has millions of events, so that one loop handles them all without calls.
        """
        next_event, texts = self._loader.get_event, dict[str, str]()
        file = position_of(self._file, 0, 0)
        stack: list[tuple[Mapping | Sequence, str | None, Position]] = []  # open collections, each with its key
        entries: Mapping | None = None  # the innermost collection, when it is a mapping
        items: Sequence | None = None  # the innermost collection, when it is a sequence
        key: str | None = None  # the key that waits for its value
        key_position: Position = 0
        root: Node | None = None
        while (event := next_event()) is not None:
            mark: Any = event.start_mark  # libyaml marks every event
            position = file + ((mark.line + 1) << LINE_SHIFT) + mark.column + 1
            node: Node
            if isinstance(event, yaml.ScalarEvent):
                if event.anchor is not None or event.tag is not None:
                    self._refuse_anchor_and_tag(event, position)
                text = texts.get(event.value) or self._new_text(event, position, texts)
                if entries is not None and key is None:
                    if text == "<<" and not event.style:
                        self._stop(position, "a merge key `<<`; expected the keys themselves, or `include`")
                    key, key_position = text, position
                    continue
                node = ScalarNode(
                    position, position if key is None else key_position, text, not event.style and text in NULLS
                )
            elif isinstance(event, yaml.CollectionStartEvent):
                if entries is not None and key is None:
                    braces = isinstance(event, yaml.MappingStartEvent) and event.flow_style
                    hint = f". {TEMPLATE}, in double quotes" if braces else ""
                    self._stop(position, f"a list or block as a key; expected text{hint}")
                opened = self._new_collection(event, position, position if key is None else key_position, len(stack))
                stack.append((opened, key, key_position))
                entries, items = (opened, None) if isinstance(opened, Mapping) else (None, opened)
                key = None
                continue
            elif isinstance(event, yaml.CollectionEndEvent):
                node, key, key_position = stack.pop()
                enclosing = stack[-1][0] if stack else None
                entries, items = (enclosing, None) if isinstance(enclosing, Mapping) else (None, enclosing)
            else:
                self._check_alias_and_document(event, position, root)
                continue
            # A complete node goes into its collection; of two with one key, the first is kept.
            if items is not None:
                items.append(node)
            elif entries is None or key is None:
                root = node
            else:
                existing = entries.setdefault(key, node)
                if existing is not node:
                    earlier = self._problems.locate(existing.key_position)
                    self._problems.add_at(node.key_position, f"`{key}` is a duplicate, first at {earlier}")
                key = None
        return root

    def _new_text(self, event: yaml.ScalarEvent, position: Position, texts: dict[str, str]) -> str:
        """Return a new text, and share it in ``texts`` while there is room."""
        text: str = event.value
        if event.style == '"' and UNPRINTABLE.search(text):
            self._stop(position, "an escaped control character; expected printable text")
        if len(texts) < _MAX_SHARED_TEXTS:
            texts[text] = text
        return text

    def _new_collection(
        self, event: yaml.CollectionStartEvent, position: Position, key_position: Position, depth: int
    ) -> Mapping | Sequence:
        if event.anchor is not None or event.tag is not None:
            self._refuse_anchor_and_tag(event, position)
        if depth == MAX_DEPTH:
            self._stop(position, f"nested more than {MAX_DEPTH} levels deep")
        return (Mapping if isinstance(event, yaml.MappingStartEvent) else Sequence)(position, key_position)

    def _check_alias_and_document(self, event: yaml.Event, position: Position, root: Node | None) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._refuse_anchor_and_tag(event, position)
        if isinstance(event, yaml.DocumentStartEvent) and root is not None:
            self._stop(position, "a second document; a manifest file holds one")

    def _refuse_anchor_and_tag(self, event: yaml.NodeEvent, position: Position) -> NoReturn:
        """Report this anchor, alias or tag and all that follow, and stop."""
        self._add_anchor_and_tag(event, position)
        while len(self._problems) < _MOST_ANCHORS and (following := self._loader.get_event()) is not None:
            mark: Any = following.start_mark
            self._add_anchor_and_tag(following, position_of(self._file, mark.line + 1, mark.column + 1))
        raise _StopError

    def _add_anchor_and_tag(self, event: yaml.Event, position: Position) -> None:
        anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
        if isinstance(event, yaml.AliasEvent):
            message = f"alias `*{anchor}`; aliases are not used in manifests, expected the value"
            self._problems.add_at(position, message)
        elif anchor is not None:
            message = f"anchor `&{anchor}`; anchors are not used in manifests, expected the value alone"
            self._problems.add_at(position, message)
        if tag is not None:
            written = tag.replace("tag:yaml.org,2002:", "!!")
            hint = "; `${env:NAME}` reads the environment" if "env" in tag.lower() else ""
            hint = "; write `include: [PATH]` at the top of the file" if "include" in tag.lower() else hint
            self._problems.add_at(position, f"tag `{written}`; expected no tag, every scalar is text as written{hint}")

    def _stop(self, position: Position, message: str) -> NoReturn:
        self._problems.add_at(position, message)
        raise _StopError
