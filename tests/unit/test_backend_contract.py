"""What some catalogs can do more than others: each optional method of the contract is overridden by one of them."""

from __future__ import annotations

import inspect

import pytest

from reconciler.backends import registry
from reconciler.backends.base import Backend

OPTIONAL = [
    name
    for name, method in vars(Backend).items()
    if inspect.isfunction(method)
    and not name.startswith("_")
    and not getattr(method, "__final__", False)
    and not getattr(method, "__isabstractmethod__", False)
    and name not in ("checking", "roots")
]
"""The check at commit is declared by ``checks_at_commit``; every shipped catalog has the default roots."""


@pytest.mark.parametrize("name", OPTIONAL)
def test_an_optional_method_is_overridden_by_a_catalog(name: str) -> None:
    shipped = [registry.backend_class(impl) for impl in registry.names()]
    overridden = {backend.overrides(getattr(Backend, name)) for backend in shipped}
    assert True in overridden, "a default that no catalog changes is no ability"
