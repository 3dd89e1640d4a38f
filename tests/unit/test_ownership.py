"""The marks kept in live properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import ownership


@given(st.frozensets(st.text(max_size=8).filter(lambda key: not ownership.is_reserved_key(key))))
def test_keys_survive_the_way_through_a_property(keys: frozenset[str]) -> None:
    text = ownership.encode_keys(keys)
    assert ownership.recorded_keys({ownership.KEYS: text}) == keys
    assert ownership.encode_keys(sorted(keys, reverse=True)) == text


@pytest.mark.parametrize("text", ["", "nonsense", "{}", "3", "null", '"tier"'])
def test_keys_that_cannot_be_read_are_none(text: str) -> None:
    assert ownership.recorded_keys({ownership.KEYS: text}) == frozenset()


def test_reserved_keys_are_never_recorded_as_ours() -> None:
    text = '["tier", "table_type", "EXTERNAL", "lancens.protect", 3]'
    assert ownership.recorded_keys({ownership.KEYS: text}) == {"tier"}


@pytest.mark.parametrize(
    ("key", "reserved"),
    [
        ("table_type", True),
        ("Table_Type", True),
        ("EXTERNAL", True),
        ("gc.enabled", True),
        ("GC.Enabled", True),
        ("external.table.purge", True),
        ("lancens.anything", True),
        ("tier", False),
        ("lancens", False),
        ("external_id", False),
    ],
)
def test_reserved_keys(key: str, reserved: bool) -> None:
    assert ownership.is_reserved_key(key) is reserved


@pytest.mark.parametrize(
    ("requested", "chosen", "location", "true"),
    [
        (None, None, "/here", True),
        (None, "/here", "/here", False),  # nothing was asked for
        ("/asked", "/here", "/here/", True),
        ("/asked", "/here", "/moved", False),
        ("/asked", None, "/here", False),  # the answer was never recorded
        ("/asked", None, "/asked", False),  # honoured
        ("/asked", "/asked", "/asked", False),
    ],
)
def test_a_request_is_true_while_the_entry_is_where_the_service_put_it(
    requested: str | None, chosen: str | None, location: str, true: bool
) -> None:
    assert ownership.is_request_true(requested, chosen, location) is true


def test_owner_and_protection() -> None:
    assert ownership.owner_of({ownership.MANAGED_BY: "store/lake"}) == "store/lake"
    assert ownership.owner_of({ownership.MANAGED_BY: ""}) is None
    assert ownership.owner_of({}) is None
    assert ownership.is_protected({ownership.PROTECT: "true"})
    assert not ownership.is_protected({ownership.PROTECT: "false"})
    assert not ownership.is_protected({})
