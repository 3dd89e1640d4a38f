"""What some catalogs can do more than others: each optional method of the contract is overridden by one of them."""

from __future__ import annotations

import inspect

import pytest

from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.backends.memory import MemoryBackend
from reconciler.model.capabilities import Capabilities
from reconciler.model.errors import ServiceUnavailableError

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


def test_the_service_is_asked_once_what_it_can_do_and_again_if_it_did_not_say() -> None:
    answers: list[Capabilities | Exception] = [ServiceUnavailableError("it is down"), Capabilities(rename_within=0)]

    class Asked(MemoryBackend):
        def ask_capabilities(self) -> Capabilities:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    backend = Asked()
    with pytest.raises(ServiceUnavailableError):
        backend.capabilities()
    assert [backend.capabilities().rename_within for _ in range(2)] == [0, 0]
    assert backend.checking(lambda _: None).capabilities().rename_within == 0
