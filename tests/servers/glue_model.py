"""Requests and answers of Glue held against botocore's own model of the service.

AWS checks what it is sent with the same model; botocore itself checks little more than required members and types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import botocore.session
from botocore.model import OperationModel, ServiceModel, Shape

__all__ = ["answer_faults", "operation", "request_faults", "shape_faults"]

# Java writes the characters beyond the basic plane as pairs of surrogates.
_SURROGATES = r"\uD800\uDC00-\uDBFF\uDFFF"
_BEYOND = "\U00010000-\U0010ffff"


@cache
def _service() -> ServiceModel:
    return botocore.session.get_session().get_service_model("glue")


def operation(name: str) -> OperationModel | None:
    """Return the model of an operation, None for one that Glue does not have."""
    return _service().operation_model(name) if name in _service().operation_names else None


def request_faults(name: str, body: Any) -> list[str]:
    """Return what Glue would refuse in the parameters of a request."""
    model = operation(name)
    assert model is not None
    return [] if model.input_shape is None else list(_faults(model.input_shape, body, name))


def answer_faults(name: str, body: Any) -> list[str]:
    """Return what no answer of Glue can be."""
    model = operation(name)
    assert model is not None
    if model.output_shape is None:
        return [] if body in ({}, None) else [f"{name} answers nothing"]
    return list(_faults(model.output_shape, body, name))


def shape_faults(shape: Shape, value: Any) -> list[str]:
    """Return what in ``value`` does not fit ``shape``."""
    return list(_faults(shape, value, shape.name))


def _faults(shape: Shape, value: Any, path: str) -> Iterator[str]:
    kind = shape.type_name
    if kind == "structure":
        yield from _structure_faults(shape, value, path)
    elif kind == "list":
        yield from _list_faults(shape, value, path)
    elif kind == "map":
        yield from _map_faults(shape, value, path)
    elif kind == "string":
        yield from _string_faults(shape, value, path)
    elif isinstance(value, bool) != (kind == "boolean") or not isinstance(value, int | float):
        yield f"{path} is no {kind}"
    elif kind in ("integer", "long"):
        yield from _size_faults(shape, value, path)


def _list_faults(shape: Shape, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path} is not a list"
        return
    yield from _size_faults(shape, len(value), path)
    for index, item in enumerate(value):
        yield from _faults(_part(shape, "member"), item, f"{path}[{index}]")


def _map_faults(shape: Shape, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path} is not a map"
        return
    yield from _size_faults(shape, len(value), path)
    for key, item in value.items():
        yield from _faults(_part(shape, "key"), key, f"{path}.{key} (key)")
        yield from _faults(_part(shape, "value"), item, f"{path}.{key}")


def _structure_faults(shape: Shape, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path} is not a structure"
        return
    members: dict[str, Shape] = getattr(shape, "members", {})
    required: list[str] = getattr(shape, "required_members", [])
    for name in required:
        if name not in value:
            yield f"{path}.{name} is missing"
    for name, item in value.items():
        if name in members:
            yield from _faults(members[name], item, f"{path}.{name}")
        else:
            yield f"{path}.{name} is unknown"


def _string_faults(shape: Shape, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{path} is not a string"
        return
    yield from _size_faults(shape, len(value.encode()), path)
    allowed: list[str] = getattr(shape, "enum", [])
    if allowed and value not in allowed:
        yield f"{path} is none of {', '.join(allowed)}"
    pattern = shape.metadata.get("pattern")
    if pattern and not _regex(pattern).fullmatch(value):
        yield f"{path} does not fit {pattern}"


def _size_faults(shape: Shape, size: float, path: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if least is not None and size < least:
        yield f"{path} is below {least}"
    if most is not None and size > most:
        yield f"{path} is above {most}"


def _part(shape: Shape, name: str) -> Shape:
    part = getattr(shape, name)
    assert isinstance(part, Shape)
    return part


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace(_SURROGATES, _BEYOND))
