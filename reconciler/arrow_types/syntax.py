"""Parse the text of a type that Lance stores into its tree, by recursive descent."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NoReturn

from reconciler.arrow_types import tree
from reconciler.arrow_types.tree import (
    BLOB,
    DECIMALS,
    INTEGERS,
    KNOWN_EXTENSIONS,
    PLAIN,
    UNITS,
    WORD,
    ArrowType,
    ChildField,
)

_MAX_LENGTH = 100_000
_MAX_DEPTH = 60  # Arrow's C data interface, through which pylance gets a schema, ends at 64 levels.
_MAX_INT32 = 2**31 - 1
# Lance keeps a dictionary's value type as text, and reads only these back.
_DICTIONARY_VALUES = PLAIN - {"date32", "date64"}
_VARIABLE = frozenset({"string", "large_string", "binary", "large_binary", BLOB})
_EXAMPLES: Mapping[str, str] = {
    "list": "list<string>",
    "large_list": "large_list<string>",
    "fixed_size_list": "fixed_size_list<float32>[768]",
    "struct": "struct<x: float64, y: float64>",
    "map": "map<string, int32>",
    "dictionary": "dictionary<values=string, indices=int32>",
    "extension": "extension<my.point, fixed_size_list<float64>[2]>",
}
_NAMES = sorted([*PLAIN, *KNOWN_EXTENSIONS, BLOB, *UNITS, *DECIMALS, "fixed_size_binary", *_EXAMPLES])
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
    **dict.fromkeys(("char", "character", "nchar", "nvarchar", "varchar2"), "string"),
    "varbinary": "binary",
    "date": "date32",
    "dict": "map<string, string>",
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
    "numeric": "decimal128(p, s)",
    "run_end_encoded": "dictionary<values=string, indices=int32>",
    "halfvec": "fixed_size_list<float16>[n]",
    "tensor": "fixed_size_list<float32>[n]",
    "byte": "int8",
    "short": "int16",
    **dict.fromkeys(("uint", "unsigned"), "uint32 or uint64"),
    "sparse_union": "struct<…>",
    "str": "string",
    "string_view": "string",
    "text": "string",
    "time": "time64[us]",
    "union": "struct<…>",
    "varchar": "string",
    "any": "json",
    "enum": "string",
    "geometry": "binary",
    "image": "binary",
    "inet": "string",
    "money": "decimal128(p, s)",
    "object": "json",
    "real": "float32",
    "serial": "int32",
    "smallint": "int16",
    "variant": "json",
    "void": "null",
    "vector": "fixed_size_list<float32>[n]",
}
TYPE_PATTERN = "|".join(
    rf"^\s*(?:{'|'.join(sorted(names))}){end}"
    for names, end in (
        ((*PLAIN, *KNOWN_EXTENSIONS, BLOB, *_ALIASES), r"\s*$"),
        ((*UNITS, "date32", "date64", "fixed_size_binary"), r"\s*\["),
        (DECIMALS, r"\s*\("),
        (_EXAMPLES, r"\s*<"),
    )
)
"""A pattern for editors that every type matches; it does not look into nested ones."""

_NAME = rf"(?:`(?:[^`]|``)*`|{WORD.pattern})"

_TIMES = {
    **dict.fromkeys(("timestamp", "datetime", "datetime64", "timestamp_ntz"), ""),
    **dict.fromkeys(("timestamptz", "timestamp_tz", "timestamp_ltz", "datetimeoffset", "instant"), ", tz=UTC"),
}
"""Names of timestamps elsewhere, each with the zone of an Arrow type."""
_TIME_REST = re.compile(r"(?:\((\d)\))?\s*(with(?: local)? time)?", re.IGNORECASE)

_QUOTES = tuple("'\"\u201c\u201d\u201e\u2018\u2019")


class TypeSyntaxError(ValueError):
    """A text is not a type or column name that Lance stores; the message says what was expected."""


@lru_cache(512)  # the columns of many tables have few different types
def parse_tree(text: str) -> ArrowType:
    """Return the type in ``text``.

    Raises:
        TypeSyntaxError: ``text`` is not a type that Lance stores.
    """
    try:
        return _Parser(text).whole()
    except TypeSyntaxError as error:
        shown = text if len(text) <= 120 else text[:117] + "…"
        is_cut = "," not in text and any(text.count(opening) > text.count(closing) for opening, closing in ("()", "<>"))
        hint = "; inside `{…}`, a type that has a comma must be quoted" if is_cut else ""
        raise TypeSyntaxError(f"type `{shown}`: {error}{hint}") from None


def _after_type(kind: ArrowType, rest: str) -> str | None:
    """Return what to write for a type that goes on with ``rest`` as in other languages, None if it does not."""
    if rest.lower() in ("not null", "null", "nullable", "required", "?"):
        nullable = "false" if rest.lower() in ("not null", "required") else "true"
        return f"write `nullable: {nullable}` beside the type"
    if str(kind) == "float64" and rest.lower().startswith("precision"):
        return "write `float64`"
    size = re.match(r"\[(\d*)\]", rest)
    if size is None or (size[1] and not isinstance(kind, tree.ScalarType)):
        return None
    return f"did you mean `{f'fixed_size_list<{kind}>[{size[1]}]' if size[1] else f'list<{kind}>'}`?"


class _Parser:
    """Parses one type; its depth and length are bounded."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> ArrowType:
        if len(self._text) > _MAX_LENGTH:
            self._fail(f"a type has at most {_MAX_LENGTH:,} characters")
        if not self._text.strip():
            self._fail("a type is missing, such as `int64` or `string`")
        kind = self._type(0)
        rest = self._rest()
        if rest:
            self._fail(_after_type(kind, rest) or f"the type ends before `{rest}`")
        return kind

    def _type(self, depth: int) -> ArrowType:
        if depth > _MAX_DEPTH:
            self._fail(f"types nest at most {_MAX_DEPTH} levels deep")
        word = self._take(WORD.pattern)
        if word is None:
            self._fail(f"a type is expected {self._here()}")
        name = _ALIASES.get(word, word)
        if name in PLAIN or name in KNOWN_EXTENSIONS or name == BLOB:
            self._pyarrow_suffix(name)
            return tree.ScalarType(name)
        if name in UNITS:
            return self._with_unit(name)
        if name in DECIMALS:
            return self._decimal(name)
        if name == "fixed_size_binary":
            self._expect("[", f"`{name}` needs its width, such as `{name}[16]`")
            width = self._integer("the width", 0, _MAX_INT32)
            self._expect("]")
            return tree.ScalarType(name, (width,))
        if name not in _EXAMPLES:
            self._unknown(word)
        self._expect("<", f"`{name}` needs what it holds, such as `{_EXAMPLES[name]}`")
        parts = {
            "dictionary": self._dictionary,
            "extension": self._extension,
            "fixed_size_list": self._fixed_size_list,
            "map": self._map,
            "struct": self._struct,
        }
        return parts[name](depth + 1) if name in parts else self._list(name, depth + 1)

    def _unknown(self, word: str) -> NoReturn:
        lower = word.lower()
        rest = self._rest()
        if (member := re.fullmatch(r"\.(\w+)(?:\(\))?", rest)) is not None:
            self._fail(f"write `{member[1]}`")
        numbers = re.findall(r"\d+", rest)
        if lower == "number" and len(numbers) == 2:
            lower = "numeric"
        if lower == "optional" and (inner := re.match(r"[\[<(]\s*(\w+)", rest)) is not None:
            self._fail(f"write `nullable: true` beside the type `{inner[1]}`")
        nearest = self._timestamp(lower) if lower in _TIMES else _INSTEAD.get(lower) or _ALIASES.get(lower)
        if lower in ("list", "large_list"):
            nearest = f"{lower}<T>"
        if nearest is None:
            nearest = next(iter(difflib.get_close_matches(lower, _NAMES, n=1, cutoff=0.5)), None)
        if nearest is None:
            self._fail(f"unknown type `{word}`; the types are {', '.join(_NAMES)}")
        if "[n]" in nearest and len(numbers) == 1:
            nearest = nearest.replace("[n]", f"[{numbers[0]}]")
        if "<T>" in nearest and (inner := re.fullmatch(r"[<(\[]\s*(\w+)\s*[>)\]]", rest)) is not None:
            item = inner[1].lower()
            item = _ALIASES.get(item) or _INSTEAD.get(item, item)
            nearest = nearest.replace("<T>", f"<{item.partition(' or ')[0]}>")
        if "(p, s)" in nearest and len(numbers) == 2:
            nearest = nearest.replace("(p, s)", f"({', '.join(numbers)})")
        self._fail(f"Lance stores no type `{word}`; did you mean `{nearest}`?")

    def _timestamp(self, word: str) -> str:
        """Return the type of a timestamp that is written as in SQL."""
        rest = _TIME_REST.match(self._rest())
        precision, with_zone = (rest[1], rest[2]) if rest is not None else (None, None)
        unit = {"0": "s", "3": "ms", "9": "ns"}.get(precision or "", "us")
        return f"timestamp[{unit}{', tz=UTC' if with_zone else _TIMES[word]}]"

    def _pyarrow_suffix(self, name: str) -> None:
        """Take the unit that pyarrow writes after dates, which have only one."""
        suffix = {"date32": "day", "date64": "ms"}.get(name)
        if suffix is not None and self._accept("["):
            self._expect(suffix, f"the unit of `{name}` is `{suffix}`")
            self._expect("]")

    def _with_unit(self, name: str) -> ArrowType:
        units = UNITS[name]
        if name == "timestamp" and self._rest()[:1] not in ("[", ""):
            self._fail(f"did you mean `{self._timestamp(name)}`?")
        self._expect("[", f"`{name}` needs a unit, such as `{name}[{'us' if 'us' in units else units[-1]}]`")
        unit = self._take(WORD.pattern)
        if unit not in units:
            self._fail(f"the unit of `{name}` is one of {', '.join(units)}")
        arguments = [unit]
        if name == "timestamp" and self._accept(","):
            self._expect("tz =", "a time zone is written `tz=Europe/Berlin`")
            zone = (self._take(r"[^\]\x00-\x1f]+") or "").strip()
            if not zone or zone == "-":
                self._fail("a time zone is expected, such as `tz=UTC`")
            arguments.append(zone)
        self._expect("]")
        return tree.ScalarType(name, tuple(arguments))

    def _decimal(self, name: str) -> ArrowType:
        most, usage = DECIMALS[name], f"`{name}` needs precision and scale, such as `{name}(10, 2)`"
        self._expect("(", usage)
        precision = self._integer("the precision", 1, most)
        self._expect(",", usage)
        scale = self._integer("the scale", -most, most)
        self._expect(")")
        return tree.ScalarType(name, (precision, scale))

    def _list(self, name: str, depth: int) -> ArrowType:
        item = self._child(depth, self._name_ahead() or "item")
        self._expect(">")
        return tree.ListType(item, name)

    def _fixed_size_list(self, depth: int) -> ArrowType:
        item = self._child(depth, self._name_ahead() or "item")
        if item.name != "item" or not item.nullable:
            self._fail("Lance keeps neither a name nor `not null` for the items of a fixed_size_list")
        example = f"such as `{_EXAMPLES['fixed_size_list']}`"
        self._expect(">", f"the length of a fixed_size_list stands behind it, {example}")
        self._expect("[", f"a fixed_size_list needs its length, {example}")
        size = self._integer("the length", 1, _MAX_INT32)
        self._expect("]")
        self._check_fixed_size_item(item.type)
        return tree.FixedSizeListType(item.type, size)

    def _check_fixed_size_item(self, kind: ArrowType) -> None:
        """Reject items that Lance cannot write, cannot read back beside other columns, or changes."""
        otherwise = "inside of a fixed_size_list; use `list` for the outer one"
        match kind:
            case tree.ListType() | tree.MapType() | tree.StructType():
                self._fail(f"Lance stores no list, map or struct {otherwise}")
            case tree.DictionaryType():
                self._fail("Lance stores no dictionary directly in a fixed_size_list; use its value type")
            case tree.ScalarType(name) if name in _VARIABLE or (name in KNOWN_EXTENSIONS and name != "bfloat16"):
                self._fail(f"Lance does not keep `{name}` {otherwise}")
            case tree.ExtensionType():
                self._fail(f"Lance does not keep an extension {otherwise}")

    def _struct(self, depth: int) -> ArrowType:
        children: list[ChildField] = []
        if self._accept(">"):
            return tree.StructType(())
        while not children or self._accept(","):
            name = self._name_ahead()
            if name is None:
                self._fail(f"a struct field `name: type`, with a colon, is expected {self._here()}")
            if name in (child.name for child in children):
                self._fail(f"the struct has two fields `{name}`")
            if "\0" in name:
                self._fail("a field name cannot contain NUL")
            children.append(self._child(depth, name))
        self._expect(">")
        return tree.StructType(tuple(children))

    def _map(self, depth: int) -> ArrowType:
        key = self._child(depth + 1, "key").type  # Arrow has a struct between a map and its key.
        if key in (tree.ScalarType("null"), tree.ScalarType(BLOB)):
            self._fail(f"the key of a map cannot be `{key}`")
        self._expect(",", f"a map needs key and value, such as `{_EXAMPLES['map']}`")
        value = self._child(depth + 1, "value")
        if value.type == tree.ScalarType(BLOB):
            self._fail("Lance writes no `blob` into a map; use large_binary")
        self._expect(">")
        return tree.MapType(key, value)

    def _dictionary(self, depth: int) -> ArrowType:
        usage = f"a dictionary is written `{_EXAMPLES['dictionary']}`"
        self._expect("values =", usage)
        values = self._type(depth)
        if not isinstance(values, tree.ScalarType) or values.name not in _DICTIONARY_VALUES:
            self._fail(f"Lance stores no dictionary of `{values}`; use `{values}` itself, or a dictionary of string")
        indices = "int32"
        if self._accept(","):
            self._expect("indices =", usage)
            indices = self._take(WORD.pattern) or ""
            if indices not in INTEGERS:
                self._fail(f"the indices of a dictionary are one of {', '.join(INTEGERS)}")
        if self._accept(","):
            self._expect("ordered =", usage)
            if not (self._accept("0") or self._accept("false")):
                self._fail("Lance does not keep `ordered`; leave it out")
        self._expect(">")
        return tree.DictionaryType(values, indices)

    def _extension(self, depth: int) -> ArrowType:
        name = self._take(r"[\w.-]+")
        if name is None:
            self._fail(f"an extension is written `{_EXAMPLES['extension']}`")
        known = {full: short for short, full in KNOWN_EXTENSIONS.items()}
        if name in known:
            self._fail(f"write `{known[name]}` for {name}")
        if name.startswith(("arrow.", "lance.")):
            every = ", ".join([*sorted(KNOWN_EXTENSIONS), BLOB])
            self._fail(f"unknown extension `{name}`; the known ones are {every}")
        self._expect(",", f"an extension needs its storage, such as `{_EXAMPLES['extension']}`")
        storage = self._type(depth)
        if isinstance(storage, tree.ExtensionType) or str(storage) in (*KNOWN_EXTENSIONS, BLOB):
            self._fail("the storage of an extension cannot be an extension")
        metadata = ""
        if self._accept(","):
            try:
                metadata = json.loads(self._take(r'"(?:[^"\\]|\\.)*"') or "")
            except ValueError:
                self._fail("the metadata of an extension is a text in double quotes")
            if "\0" in metadata:
                self._fail("the metadata of an extension cannot contain NUL")
        self._expect(">")
        return tree.ExtensionType(name, storage, metadata)

    # ---- tokens

    def _child(self, depth: int, name: str) -> ChildField:
        kind = self._type(depth)
        required = self._take(r"not\s+null\b") is not None
        if required and kind == tree.ScalarType("null"):
            self._fail("`null` cannot be `not null`")
        return ChildField(name, kind, not required)

    def _name_ahead(self) -> str | None:
        """Take ``name:`` if it is next."""
        text = self._take(rf"{_NAME}\s*:")
        if text is None:
            return None
        name = text[:-1].rstrip()
        return name[1:-1].replace("``", "`") if name.startswith("`") else name

    def _integer(self, quantity: str, least: int, most: int) -> int:
        text = self._take(r"[+-]?\d{1,10}(?!\d)")
        if text is None:
            self._fail(f"{quantity} must be a whole number {self._here()}")
        if not least <= int(text) <= most:
            self._fail(
                f"{quantity} must be {least} or more" if most == _MAX_INT32 else f"{quantity} is {least} to {most}"
            )
        return int(text)

    def _take(self, pattern: str) -> str | None:
        """Take the text of ``pattern`` and the blanks before it, if it is next."""
        match = re.compile(rf"\s*({pattern})").match(self._text, self._at)
        if match is None:
            return None
        self._at = match.end()
        return match[1]

    def _accept(self, symbols: str) -> bool:
        """Take ``symbols`` if they are next; a blank in them matches any blanks."""
        return self._take(r"\s*".join(map(re.escape, symbols.split()))) is not None

    def _expect(self, symbols: str, otherwise: str | None = None) -> None:
        if not self._accept(symbols):
            self._fail(otherwise or f"`{symbols}` is expected {self._here()}")

    def _rest(self) -> str:
        return self._text[self._at :].lstrip()[:20]

    def _here(self) -> str:
        rest = self._rest()
        if rest[:1] in _QUOTES:
            return f"without the quotes of `{rest}`"
        return f"before `{rest}`" if rest else "at the end"

    def _fail(self, message: str) -> NoReturn:
        raise TypeSyntaxError(message)
