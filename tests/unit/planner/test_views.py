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
