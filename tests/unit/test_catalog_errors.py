"""Answers of an unexpected shape are reported as errors of the service."""

from __future__ import annotations

import json

import pytest

from reconciler.backends.base import catalog_errors
from reconciler.backends.unity.columns import schema_of
from reconciler.model.errors import CatalogError, ErrorCode


@pytest.mark.parametrize("error", [IndexError("x"), KeyError("x"), RecursionError(), TypeError("x"), OverflowError()])
def test_an_answer_that_cannot_be_understood_names_the_catalog(error: Exception) -> None:
    with pytest.raises(CatalogError) as caught, catalog_errors("lake", "unity"):
        raise error
    assert str(caught.value).startswith("lake (unity): ")
    assert f"({type(error).__name__}); run with --debug" in str(caught.value)
    assert caught.value.code == ErrorCode.INTERNAL


def test_a_type_nested_without_end_is_shown_as_text() -> None:
    kind = '"int"'
    for _ in range(400):
        kind = f'{{"type":"array","elementType":{kind},"containsNull":true}}'
    column = {"name": "a", "type_json": json.dumps({"name": "a", "type": json.loads(kind), "nullable": True})}
    assert [field.type for field in schema_of([column])] == ["string"]
