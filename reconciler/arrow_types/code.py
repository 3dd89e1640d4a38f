"""Types and columns as the Python that makes them with pyarrow, for the calls that a person is told to run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from reconciler.arrow_types.conversion import to_arrow_column, to_arrow_field, to_arrow_type
from reconciler.arrow_types.syntax import parse_tree
from reconciler.arrow_types.tree import Child
from reconciler.model.columns import Column
from reconciler.model.redaction import redact_properties


class _Code(str):
    """Python, where any other text is a value to write as a literal."""

    __slots__ = ()


class _WrittenPyarrow:
    """Stands in for pyarrow: each of its functions returns the Python that calls it."""

    def __getattr__(self, function: str) -> Callable[..., _Code]:
        def written(*values: object, **options: object) -> _Code:
            given = [*map(_literal, values), *(f"{name}={_literal(value)}" for name, value in options.items())]
            return _Code(f"pa.{function}({', '.join(given)})")

        return written


_WRITTEN = _WrittenPyarrow()


def column_code(column: Column) -> str:
    """Return the Python that makes the pyarrow field of ``column``; sensitive metadata is replaced.

    Raises:
        TypeSyntaxError: its type is none that Lance stores.
    """
    return str(to_arrow_column(_WRITTEN, replace(column, metadata=redact_properties(column.metadata))))


def type_code(text: str) -> str:
    """Return the Python that makes the pyarrow type of canonical text ``text``, without what a field's metadata says.

    Raises:
        TypeSyntaxError: it is none that Lance stores.
    """
    return str(to_arrow_type(_WRITTEN, parse_tree(text)))


def field_code(child: Child) -> str:
    """Return the Python that makes the pyarrow field of ``child``."""
    return str(to_arrow_field(_WRITTEN, child))


def text_code(text: str) -> str:
    """Return ``text`` as a Python literal, in the double quotes of an example where it can be read so."""
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else ascii(text)


def mapping_code(texts: Mapping[str, str]) -> str:
    """Return ``texts`` as a Python literal."""
    return f"{{{', '.join(f'{text_code(key)}: {text_code(value)}' for key, value in texts.items())}}}"


def _literal(value: object) -> str:
    match value:
        case _Code():
            return str(value)
        case str():
            return text_code(value)
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case dict():
            return mapping_code(value)
    return repr(value)
