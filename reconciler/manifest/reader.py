"""YAML text to nodes, refusing what a manifest has no use for.

The C parser of libyaml is asked for its events, one at a time, so that anchors, tags and nesting are refused before
anything grows. Scalars are never resolved to numbers, dates or booleans: they keep their text.
"""

from __future__ import annotations

import re
from typing import NoReturn

import yaml

from reconciler.manifest.faults import Faults
from reconciler.manifest.nodes import Mapping, Node, Place, Scalar, Sequence, place_of

__all__ = ["MAX_DEPTH", "MAX_FILE_BYTES", "NULLS", "UNPRINTABLE", "read_document"]

MAX_FILE_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 100

_BYTE_ORDER_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
# Also the line breaks of YAML 1.1 that an editor does not count as such: lines would be numbered differently.
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


class _StopError(Exception):
    """The rest of the file cannot be read; the fault is noted already."""


def read_document(data: bytes, file: int, faults: Faults) -> Mapping | None:
    """Return the one document of a file, the file numbered ``file``; None when it cannot be used.

    An empty file is an empty mapping. Every fault goes to ``faults``.
    """
    name = faults.files[file].name
    if len(data) > MAX_FILE_BYTES:
        faults.in_file(name, f"the file is larger than {MAX_FILE_BYTES // 2**20} MB; split it and use `include`")
        return None
    text = _decoded(data, file, faults)
    if text is None:
        return None
    try:
        return _Composer(text, file, faults).document()
    except _StopError:
        return None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        context = f" {error.context}" if error.context else ""
        faults.at(place_of(file, line, column), f"not valid YAML:{context} {error.problem or ''}".rstrip())
        return None
    except yaml.YAMLError as error:
        faults.in_file(name, f"not valid YAML: {error}")
        return None


def _decoded(data: bytes, file: int, faults: Faults) -> str | None:
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            faults.at(place_of(file, 1, 1), f"the file is in {encoding}, expected UTF-8")
            return None
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        faults.at(place_of(file, line, column), f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8")
        return None
    found = UNPRINTABLE.search(text)
    if found is None:
        return text
    at = found.start()
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    faults.at(
        place_of(file, line, column),
        f"control character U+{ord(found[0]):04X}; expected printable text, or an escape in double quotes",
    )
    return None


class _Composer:
    """Builds nodes from parser events with a stack of its own, the innermost open collection on top."""

    def __init__(self, text: str, file: int, faults: Faults) -> None:
        self._loader = yaml.CSafeLoader(text.encode())
        self._file = file
        self._faults = faults
        self._stack: list[Mapping | Sequence] = []
        self._keys: list[tuple[str | None, Place]] = []  # of each open collection, in its parent
        self._key: str | None = None  # the key on top of the stack that waits for its value
        self._key_place: Place = 0
        self._root: Node | None = None

    def document(self) -> Mapping:
        try:
            while self._take(self._loader.get_event()):
                pass
        finally:
            self._loader.dispose()
        root = self._root
        if isinstance(root, Mapping):
            return root
        start = place_of(self._file, 1, 1)
        if root is not None and not (isinstance(root, Scalar) and root.is_null):
            kind = "a list" if isinstance(root, Sequence) else "text"
            self._stop(root.place, f"{kind} at the top; expected a block of keys such as `version: 1`")
        return Mapping(start, start)

    def _take(self, event: yaml.Event | None) -> bool:
        """Take one event; return whether there are more."""
        match event:
            case yaml.ScalarEvent():
                self._scalar(event, self._place(event))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                node = self._stack.pop()
                self._key, self._key_place = self._keys.pop()
                self._attach(node)
            case yaml.CollectionStartEvent():
                self._open(event, self._place(event))
            case yaml.AliasEvent():
                place = self._place(event)
                self._stop(place, f"alias `*{event.anchor}`; aliases are not used in manifests, expected the value")
            case yaml.DocumentStartEvent() if self._root is not None:
                self._stop(self._place(event), "a second document; a manifest file holds one")
            case yaml.StreamEndEvent() | None:
                return False
        return True

    def _scalar(self, event: yaml.ScalarEvent, place: Place) -> None:
        self._refuse_features(event, place)
        text = event.value
        if event.style == '"' and UNPRINTABLE.search(text):
            self._stop(place, "an escaped control character; expected printable text")
        if self._awaits_key():
            if text == "<<" and not event.style:
                self._stop(place, "a merge key `<<`; expected the keys themselves, or `include`")
            self._key, self._key_place = text, place
            return
        key_place = place if self._key is None else self._key_place
        self._attach(Scalar(place, key_place, text, not event.style and text in NULLS))

    def _open(self, event: yaml.CollectionStartEvent, place: Place) -> None:
        self._refuse_features(event, place)
        if self._awaits_key():
            self._stop(place, "a list or block as a key; expected text")
        if len(self._stack) == MAX_DEPTH:
            self._stop(place, f"nested more than {MAX_DEPTH} levels deep")
        key_place = place if self._key is None else self._key_place
        self._keys.append((self._key, self._key_place))
        self._stack.append(
            Mapping(place, key_place) if isinstance(event, yaml.MappingStartEvent) else Sequence(place, key_place)
        )
        self._key = None

    def _awaits_key(self) -> bool:
        return self._key is None and bool(self._stack) and type(self._stack[-1]) is Mapping

    def _attach(self, node: Node) -> None:
        """Put a complete node where it belongs; of two with one key the first is kept."""
        if not self._stack:
            self._root = node
            return
        parent = self._stack[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif self._key is not None:
            first = parent.entries.setdefault(self._key, node)
            if first is not node:
                shown = self._faults.shown(first.key_place)
                self._faults.at(node.key_place, f"`{self._key}` is a duplicate, first at {shown}")
            self._key = None

    def _refuse_features(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, place: Place) -> None:
        if event.anchor is not None:
            self._stop(place, f"anchor `&{event.anchor}`; anchors are not used in manifests, expected the value alone")
        if event.tag is not None:
            self._stop(place, f"tag `{event.tag}`; expected no tag, every scalar is text as written")

    def _place(self, event: yaml.Event) -> Place:
        mark = event.start_mark
        return place_of(self._file, mark.line + 1, mark.column + 1) if mark else place_of(self._file, 1, 1)

    def _stop(self, place: Place, message: str) -> NoReturn:
        self._faults.at(place, message)
        raise _StopError
