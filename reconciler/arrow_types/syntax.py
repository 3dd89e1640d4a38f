"""Text to tree: a recursive descent parser that knows what Lance stores."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from typing import NoReturn

from reconciler.arrow_types.tree import (
    BLOB,
    DECIMALS,
    INTEGERS,
    KNOWN_EXTENSIONS,
    PLAIN,
    UNITS,
    WORD,
    ArrowType,
    Child,
    Dictionary,
    Extension,
    FixedSizeList,
    ListOf,
    MapOf,
    ScalarType,
    Struct,
)

_MAX_LENGTH = 100_000
_MAX_DEPTH = 60  # Arrow's C data interface, through which pylance gets a schema, ends at 64 levels.
_MAX_INT32 = 2**31 - 1
# Lance reads a dictionary's value type from a text that only these survive.
_DICTIONARY_VALUES = PLAIN - {"date32", "date64"}
_NESTED = ("list", "large_list", "fixed_size_list", "struct", "map", "dictionary", "extension")
_NAMES = sorted([*PLAIN, *KNOWN_EXTENSIONS, BLOB, *UNITS, *DECIMALS, "fixed_size_binary", *_NESTED])
_ALIASES = {
    "boolean": "bool",
    "half": "float16",
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "utf8": "string",
    "large_utf8": "large_string",
}
_INSTEAD = {
    "array": "list<T>",
    "bigint": "int64",
    "binary_view": "binary",
    "bytes": "binary",
    "date": "date32",
    "datetime": "timestamp[us]",
    "decimal": "decimal128(p, s)",
    "decimal32": "decimal128(p, s)",
    "decimal64": "decimal128(p, s)",
    "dense_union": "struct<…>",
    "embedding": "fixed_size_list<float32>[n]",
    "int": "int32 or int64",
    "integer": "int32",
    "interval": "duration[us]",
    "large_list_view": "large_list<T>",
    "list_view": "list<T>",
    "long": "int64",
    "month_day_nano_interval": "duration[ns]",
    "number": "float64",
    "run_end_encoded": "dictionary<values=string, indices=int32>",
    "sparse_union": "struct<…>",
    "str": "string",
    "string_view": "string",
    "text": "string",
    "time": "time64[us]",
    "union": "struct<…>",
    "varchar": "string",
    "vector": "fixed_size_list<float32>[n]",
}
_NUMBER = re.compile(r"[+-]?\d{1,10}(?!\d)")
_SPACE = re.compile(r"\s*")
_QUOTED_NAME = re.compile(r"`((?:[^`]|``)*)`")
_QUOTED_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_ZONE = re.compile(r"[^\]\x00-\x1f]+")
_DOTTED = re.compile(r"[\w.-]+")


class TypeSyntaxError(ValueError):
    """A text is not a type that Lance stores; the message says what was expected."""


def parse_tree(text: str) -> ArrowType:
    """Return the type that ``text`` describes.

    Raises:
        TypeSyntaxError: ``text`` is not a type, or one that Lance does not store.
    """
    try:
        return _Parser(text).whole()
    except TypeSyntaxError as error:
        shown = text if len(text) <= 120 else text[:117] + "…"
        raise TypeSyntaxError(f"type `{shown}`: {error}") from None


class _Parser:
    """Recursive descent over one type's text; the depth and the length are bounded."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> ArrowType:
        if len(self._text) > _MAX_LENGTH:
            self._fail(f"a type has at most {_MAX_LENGTH:,} characters")
        if not self._text.strip():
            self._fail("a type is missing, such as `int64` or `string`")
        kind = self._type(0)
        self._skip()
        if self._at < len(self._text):
            self._fail(f"the type ends before `{self._text[self._at : self._at + 20]}`")
        return kind

    def _type(self, depth: int) -> ArrowType:
        if depth > _MAX_DEPTH:
            self._fail(f"types nest at most {_MAX_DEPTH} levels deep")
        word = self._match(WORD)
        if word is None:
            self._fail(f"a type is expected {self._here()}")
        name = _ALIASES.get(word, word)
        if name in PLAIN or name in KNOWN_EXTENSIONS or name == BLOB:
            self._pyarrow_suffix(name)
            return ScalarType(name)
        if name in UNITS:
            return self._with_unit(name)
        if name in DECIMALS:
            return self._decimal(name)
        if name == "fixed_size_binary":
            self._expect("[", f"`{name}` needs its width, such as `{name}[16]`")
            width = self._integer("the width", 0, _MAX_INT32)
            self._expect("]")
            return ScalarType(name, (width,))
        nested: dict[str, Callable[[int], ArrowType]] = {
            "list": lambda level: ListOf(self._item(level)),
            "large_list": lambda level: ListOf(self._item(level), "large_list"),
            "fixed_size_list": self._fixed_size_list,
            "struct": self._struct,
            "map": self._map,
            "dictionary": self._dictionary,
            "extension": self._extension,
        }
        if name not in nested:
            self._unknown(word)
        self._expect("<", f"`{name}` needs what it holds, such as `{_EXAMPLES[name]}`")
        return nested[name](depth + 1)

    def _unknown(self, word: str) -> NoReturn:
        lower = word.lower()
        nearest = _INSTEAD.get(lower) or _ALIASES.get(lower)
        if nearest is None:
            close = difflib.get_close_matches(lower, _NAMES, n=1, cutoff=0.5)
            nearest = close[0] if close else None
        hint = f"did you mean `{nearest}`?" if nearest else f"the types are {', '.join(_NAMES)}"
        self._fail(f"Lance stores no type `{word}`; {hint}" if nearest else f"unknown type `{word}`; {hint}")

    def _pyarrow_suffix(self, name: str) -> None:
        """Take the unit that pyarrow writes behind dates, where there is no choice."""
        suffix = {"date32": "day", "date64": "ms"}.get(name)
        if suffix is not None and self._accept("["):
            self._expect(suffix, f"the unit of `{name}` is `{suffix}`")
            self._expect("]")

    def _with_unit(self, name: str) -> ScalarType:
        units = UNITS[name]
        self._expect("[", f"`{name}` needs a unit, such as `{name}[{units[-1]}]`")
        unit = self._match(WORD)
        if unit not in units:
            self._fail(f"the unit of `{name}` is one of {', '.join(units)}")
        zone: str | None = None
        if name == "timestamp" and self._accept(","):
            self._expect("tz", "a time zone is written `tz=Europe/Berlin`")
            self._expect("=", "a time zone is written `tz=Europe/Berlin`")
            zone = (self._match(_ZONE) or "").strip()
            if not zone or zone == "-":
                self._fail("a time zone is expected, such as `tz=UTC`")
        self._expect("]")
        return ScalarType(name, (unit,) if zone is None else (unit, zone))

    def _decimal(self, name: str) -> ScalarType:
        most = DECIMALS[name]
        self._expect("(", f"`{name}` needs precision and scale, such as `{name}(10, 2)`")
        precision = self._integer("the precision", 1, most)
        self._expect(",", f"`{name}` needs precision and scale, such as `{name}(10, 2)`")
        scale = self._integer("the scale", -most, most)
        self._expect(")")
        return ScalarType(name, (precision, scale))

    def _item(self, depth: int) -> Child:
        item = self._child(depth, self._name_ahead() or "item")
        self._expect(">")
        return item

    def _fixed_size_list(self, depth: int) -> ArrowType:
        name = self._name_ahead() or "item"
        item = self._child(depth, name)
        if name != "item" or not item.nullable:
            self._fail("Lance keeps neither a name nor `not null` for the items of a fixed_size_list")
        self._expect(">")
        self._expect("[", "a fixed_size_list needs its length, such as `fixed_size_list<float32>[768]`")
        size = self._integer("the length", 1, _MAX_INT32)
        self._expect("]")
        self._check_fixed_size_item(item.type, direct=True)
        return FixedSizeList(item.type, size)

    def _check_fixed_size_item(self, kind: ArrowType, *, direct: bool) -> None:
        """Refuse what Lance cannot write, or changes, inside of a fixed-size list."""
        match kind:
            case ListOf() | MapOf():
                self._fail("Lance stores no list or map inside of a fixed_size_list; use `list` for the outer one")
            case Dictionary() if direct:
                self._fail("Lance stores no dictionary directly in a fixed_size_list; use its value type")
            case ScalarType(name=name) if name == BLOB or (direct and name in KNOWN_EXTENSIONS and name != "bfloat16"):
                self._fail(f"Lance does not keep `{name}` inside of a fixed_size_list; use `list` for the outer one")
            case Extension() if direct:
                self._fail("Lance does not keep an extension inside of a fixed_size_list; use `list` for the outer one")
            case Extension(storage=storage):
                self._check_fixed_size_item(storage, direct=False)
            case FixedSizeList(item=Struct()) if direct:
                self._fail("Lance stores no struct two fixed_size_lists deep; use `list` for the outer one")
            case Struct(children=children):
                for child in children:
                    self._check_fixed_size_item(child.type, direct=False)

    def _struct(self, depth: int) -> ArrowType:
        children: list[Child] = []
        if self._accept(">"):
            return Struct(())
        while True:
            name = self._name_ahead()
            if name is None:
                self._fail(f"a struct field `name: type` is expected {self._here()}")
            if name in (child.name for child in children):
                self._fail(f"the struct has two fields `{name}`")
            if "\0" in name:
                self._fail("a field name cannot contain NUL")
            children.append(self._child(depth, name))
            if not self._accept(","):
                break
        self._expect(">")
        return Struct(tuple(children))

    def _map(self, depth: int) -> ArrowType:
        key = self._type(depth + 1)  # Arrow puts a struct between a map and its key.
        self._accept_words("not", "null")
        if key == ScalarType("null") or key == ScalarType(BLOB):
            self._fail(f"the key of a map cannot be `{key}`")
        self._expect(",", "a map needs key and value, such as `map<string, int32>`")
        value = self._child(depth + 1, "value")
        if value.type == ScalarType(BLOB):
            self._fail("Lance writes no `blob` into a map; use large_binary")
        self._expect(">")
        return MapOf(key, value)

    def _dictionary(self, depth: int) -> ArrowType:
        self._expect("values", f"a dictionary is written `{_EXAMPLES['dictionary']}`")
        self._expect("=", f"a dictionary is written `{_EXAMPLES['dictionary']}`")
        values = self._type(depth)
        if not isinstance(values, ScalarType) or values.name not in _DICTIONARY_VALUES:
            self._fail(f"Lance stores no dictionary of `{values}`; use `{values}` itself, or a dictionary of string")
        indices = "int32"
        if self._accept(","):
            self._expect("indices", f"a dictionary is written `{_EXAMPLES['dictionary']}`")
            self._expect("=", f"a dictionary is written `{_EXAMPLES['dictionary']}`")
            indices = self._match(WORD) or ""
            if indices not in INTEGERS:
                self._fail(f"the indices of a dictionary are one of {', '.join(INTEGERS)}")
        if self._accept(","):
            self._expect("ordered", f"a dictionary is written `{_EXAMPLES['dictionary']}`")
            self._expect("=")
            if not (self._accept("0") or self._accept("false")):
                self._fail("Lance does not keep `ordered`; leave it out")
        self._expect(">")
        return Dictionary(values, indices)

    def _extension(self, depth: int) -> ArrowType:
        name = self._match(_DOTTED)
        if name is None:
            self._fail(f"an extension is written `{_EXAMPLES['extension']}`")
        known = {full: short for short, full in KNOWN_EXTENSIONS.items()}
        if name.startswith(("arrow.", "lance.")):
            self._fail(
                f"write `{known[name]}` for {name}"
                if name in known
                else f"unknown extension `{name}`; the known ones are {', '.join([*sorted(KNOWN_EXTENSIONS), BLOB])}"
            )
        self._expect(",", f"an extension needs its storage, such as `{_EXAMPLES['extension']}`")
        storage = self._type(depth)
        if isinstance(storage, Extension) or str(storage) in (*KNOWN_EXTENSIONS, BLOB):
            self._fail("the storage of an extension cannot be an extension")
        metadata = ""
        if self._accept(","):
            quoted = self._match(_QUOTED_TEXT)
            try:
                metadata = json.loads(quoted or "")
            except ValueError:
                self._fail("the metadata of an extension is a text in double quotes")
            if "\0" in metadata:
                self._fail("the metadata of an extension cannot contain NUL")
        self._expect(">")
        return Extension(name, storage, metadata)

    # ---- tokens

    def _child(self, depth: int, name: str) -> Child:
        kind = self._type(depth)
        required = self._accept_words("not", "null")
        if required and kind == ScalarType("null"):
            self._fail("`null` cannot be `not null`")
        return Child(name, kind, not required)

    def _name_ahead(self) -> str | None:
        """Take ``name:`` where it stands next; take nothing otherwise."""
        start = self._at
        self._skip()
        quoted = _QUOTED_NAME.match(self._text, self._at)
        if quoted is not None:
            self._at = quoted.end()
            name: str | None = quoted[1].replace("``", "`")
        else:
            name = self._match(WORD)
        if name is not None and self._accept(":"):
            return name
        self._at = start
        return None

    def _accept_words(self, *words: str) -> bool:
        start = self._at
        for word in words:
            if self._match(WORD) != word:
                self._at = start
                return False
        return True

    def _integer(self, what: str, least: int, most: int) -> int:
        text = self._match(_NUMBER)
        if text is None:
            self._fail(f"{what} must be a whole number {self._here()}")
        if not least <= int(text) <= most:
            self._fail(f"{what} must be {least} or more" if most == _MAX_INT32 else f"{what} is {least} to {most}")
        return int(text)

    def _match(self, pattern: re.Pattern[str]) -> str | None:
        self._skip()
        found = pattern.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found[0]

    def _accept(self, symbol: str) -> bool:
        self._skip()
        if not self._text.startswith(symbol, self._at):
            return False
        self._at += len(symbol)
        return True

    def _expect(self, symbol: str, otherwise: str | None = None) -> None:
        if not self._accept(symbol):
            self._fail(otherwise or f"`{symbol}` is expected {self._here()}")

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        if found is not None:
            self._at = found.end()

    def _here(self) -> str:
        self._skip()
        rest = self._text[self._at : self._at + 20]
        return f"before `{rest}`" if rest else "at the end"

    def _fail(self, message: str) -> NoReturn:
        raise TypeSyntaxError(message)


_EXAMPLES: Mapping[str, str] = {
    "list": "list<string>",
    "large_list": "large_list<string>",
    "fixed_size_list": "fixed_size_list<float32>[768]",
    "struct": "struct<x: float64, y: float64>",
    "map": "map<string, int32>",
    "dictionary": "dictionary<values=string, indices=int32>",
    "extension": "extension<my.point, fixed_size_list<float64>[2]>",
}
