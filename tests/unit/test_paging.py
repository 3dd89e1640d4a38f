"""Lists in pages: every entry once, to the end, and never for ever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import pytest

from reconciler.backends import paging
from reconciler.backends.paging import paged_entries
from reconciler.model.errors import InternalError


def pages(*given: tuple[Sequence[str], str | None]) -> Callable[[str | None, int], tuple[Sequence[str], str | None]]:
    return lambda token, number: given[number - 1] if (number == 1) == (token is None) else ((), None)


def test_every_entry_comes_once_and_an_empty_page_is_not_the_end() -> None:
    fetch = pages((["a", "b"], "1"), ([], "2"), (["b", "c"], "3"), (["d"], ""))
    assert list(paged_entries("unity: list", fetch, str)) == ["a", "b", "c", "d"]


def test_a_token_that_comes_again_is_an_error_even_after_others() -> None:
    with pytest.raises(InternalError, match=r"^unity: list, page 3: .*same page token"):
        list(paged_entries("unity: list", pages((["a"], "1"), (["b"], "2"), (["c"], "1")), str))


def test_a_list_without_anything_new_is_given_up_however_its_tokens_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "MAX_PAGES_WITHOUT_NEW", 20)
    asked: list[int] = []

    def fetch(_: str | None, number: int) -> tuple[list[str], str]:
        asked.append(number)
        return [f"t{min(number, 30)}"], str(number)

    with pytest.raises(InternalError, match=r"page 50: .*20 pages in a row"):
        list(paged_entries("unity: list", fetch, str))
    assert len(asked) == 50


def test_pages_that_hold_nothing_for_this_caller_are_read_to_the_next_that_does() -> None:
    def fetch(_: str | None, number: int) -> tuple[list[str], str | None]:
        return (["far"], None) if number == 900 else ([], str(number))

    assert list(paged_entries("unity: list", fetch, str)) == ["far"]


def test_a_list_that_always_has_something_new_is_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "MAX_PAGES", 40)
    listed = paged_entries("rest: list", lambda _, number: ([f"t{number}"], str(number)), str)
    assert len(list(islice(listed, 40))) == 40
    with pytest.raises(InternalError, match=r"page 40: .*the list never ends"):
        next(listed)
