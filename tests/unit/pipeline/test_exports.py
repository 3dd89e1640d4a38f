"""The names that ``reconciler.spark`` offers without importing them."""

from __future__ import annotations

import pytest

from reconciler import spark as pipeline


@pytest.mark.parametrize("name", pipeline.__all__)
def test_each_name_is_imported_when_it_is_asked_for(name: str) -> None:
    assert getattr(pipeline, name).__name__ == name


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_like_that"):
        _ = pipeline.nothing_like_that
