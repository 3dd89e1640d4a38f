"""The contract of a backend stays small: what one catalog can do more has a class of its own."""

from __future__ import annotations

import inspect

import pytest

from reconciler.backends import optional, registry
from reconciler.backends.base import Backend

SHIPPED_HAVE = (optional.ChecksAtCommit,)
"""What every shipped catalog has, and a vendor's may not."""
OPTIONAL = [one for _, one in inspect.getmembers(optional, inspect.isclass) if one.__module__ == optional.__name__]


def test_a_backend_has_fewer_than_fifteen_methods_to_implement() -> None:
    methods = [name for name, one in vars(Backend).items() if inspect.isfunction(one) and not name.startswith("_")]
    implemented = [name for name in methods if not getattr(getattr(Backend, name), "__final__", False)]
    assert len(implemented) < 15, implemented


@pytest.mark.parametrize("ability", OPTIONAL, ids=lambda one: one.__name__)
def test_every_ability_has_a_catalog_that_has_it_and_one_that_has_not(ability: type) -> None:
    shipped = [registry.backend_class(impl) for impl in registry.names()]
    has = {issubclass(one, ability) for one in shipped}
    assert has == ({True} if ability in SHIPPED_HAVE else {True, False})


@pytest.mark.parametrize("ability", OPTIONAL, ids=lambda one: one.__name__)
def test_no_backend_has_the_methods_of_an_ability_without_inheriting_it(ability: type) -> None:
    """The function of the method's name would ask it, and `isinstance` would say that it cannot."""
    for impl in registry.names():
        backend = registry.backend_class(impl)
        if not issubclass(backend, ability):
            own = [name for name, one in vars(ability).items() if inspect.isfunction(one)]
            assert [name for name in own if hasattr(backend, name)] == []
