"""The names that ``reconciler.spark`` offers without importing them."""

from __future__ import annotations

import pytest

from reconciler import spark


@pytest.mark.parametrize("name", spark.__all__)
def test_each_name_is_imported_when_it_is_asked_for(name: str) -> None:
    assert getattr(spark, name).__name__ == name


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_like_that"):
        _ = spark.nothing_like_that
