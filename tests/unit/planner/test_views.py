"""When what is live already is what is asked for."""

from __future__ import annotations

import pytest

from reconciler.planner.views import ObjectView


def view(location: str | None = None, **more: object) -> ObjectView:
    return ObjectView.model_validate({"properties": {"tier": "gold"}, "location": location, **more})


@pytest.mark.parametrize(
    ("live", "desired", "satisfies"),
    [
        (view("s3://lake/t"), view("s3://lake/t"), True),
        (view("s3a://lake//t/"), view("s3://lake/t"), True),
        (view("s3://lake/t"), view("s3://lake/other"), False),
        (view("s3://lake/t"), view(None), True),
        (view(None), view("s3://lake/t"), False),
        (view("s3://own/t", requested_location="s3://lake/t"), view("s3://lake/t"), True),
        (view("s3://own/t", requested_location="s3://lake/t", chosen_location="s3://own/t"), view("s3://lake/t"), True),
        (
            view("s3://moved/t", requested_location="s3://lake/t", chosen_location="s3://own/t"),
            view("s3://lake/t"),
            False,
        ),
        (view("s3://own/t", requested_location="s3://lake/other"), view("s3://lake/t"), False),
        (view("s3://lake/t", properties={}), view("s3://lake/t"), False),
        (view("s3://lake/t", managed_by="store/lake"), view("s3://lake/t"), False),
        (view("s3://lake/t", safeguards={"gc.enabled": "false"}), view("s3://lake/t"), True),
        (view("s3://lake/t"), view("s3://lake/t", safeguards={"gc.enabled": "false"}), False),
    ],
)
def test_a_live_object_is_what_is_asked_for(live: ObjectView, desired: ObjectView, satisfies: bool) -> None:
    assert live.satisfies(desired) is satisfies


def test_a_copy_of_a_document_takes_the_place_of_a_new_one_and_no_more_memory() -> None:
    first, other = ObjectView(location="s3://b/a", properties={"tier": "gold"}), ObjectView(location="s3://b/b")
    copied = first.model_copy(update={"location": "s3://b/b", "properties": {}})
    assert (copied, first.location) == (other, "s3://b/a")
    assert copied.__pydantic_fields_set__ is first.__pydantic_fields_set__ is other.__pydantic_fields_set__
    deep = first.model_copy(deep=True)
    assert deep == first
    assert deep.properties is not first.properties
