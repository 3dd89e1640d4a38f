from __future__ import annotations

from reconciler.applier.executor import Schedule
from reconciler.model.reasons import ReasonCode
from reconciler.planner.entries import Action, Change


def changes(*depends_on: tuple[int, ...]) -> list[Change]:
    return [
        Change(
            catalog="lake",
            kind="namespace",
            identifier=(f"n{position}",),
            action=Action.CREATE_NAMESPACE,
            code=ReasonCode.IN_MANIFEST,
            depends_on=needed,
        )
        for position, needed in enumerate(depends_on)
    ]


def _fits(position: int) -> bool:
    return True


def test_the_first_in_the_plan_comes_first_even_when_it_had_to_wait() -> None:
    schedule = Schedule(changes((), (0,), (), ()))
    assert [schedule.take(_fits), schedule.take(_fits)] == [0, 2]
    schedule.end(0)
    assert [schedule.take(_fits), schedule.take(_fits), schedule.take(_fits)] == [1, 3, None]


def test_it_is_over_when_the_last_has_ended() -> None:
    schedule = Schedule(changes((), (0,)))
    for position in (0, 1):
        assert schedule
        assert schedule.take(_fits) == position
        schedule.end(position)
    assert not schedule


def test_one_that_does_not_fit_is_not_taken_nor_one_after_it() -> None:
    schedule = Schedule(changes((), ()))
    assert schedule.take(lambda position: position != 0) is None
    assert [schedule.take(_fits), schedule.take(_fits)] == [0, 1]
