"""The rate limit against services that refuse in different ways, in simulated time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from reconciler.backends.http.rate_limit import RateLimit, rate_limit
from tests.clock import SimulatedClock

Service: TypeAlias = Callable[[float], bool]
"""Whether a service accepts a request at a time."""


def bucket(rate: float, burst: float) -> Service:
    """A service that refills ``rate`` tokens a second, up to ``burst``."""
    tokens, filled_at = burst, 0.0

    def accepts(now: float) -> bool:
        nonlocal tokens, filled_at
        tokens, filled_at = min(burst, tokens + (now - filled_at) * rate), now
        if tokens < 1:
            return False
        tokens -= 1
        return True

    return accepts


def window(rate: float, seconds: float) -> Service:
    """A service that counts the requests of each period."""
    counts: dict[int, int] = {}

    def accepts(now: float) -> bool:
        period = int(now / seconds)
        if counts.get(period, 0) >= rate * seconds:
            return False
        counts[period] = counts.get(period, 0) + 1
        return True

    return accepts


def sliding(rate: int) -> Service:
    """A service that looks back one second."""
    accepted: deque[float] = deque([float("-inf")] * rate, rate)

    def accepts(now: float) -> bool:
        if now - accepted[0] < 1:
            return False
        accepted.append(now)
        return True

    return accepts


def run(limit: RateLimit, clock: SimulatedClock, accepts: Service, requests: int) -> tuple[float, int]:
    """Send requests one after the other; return the seconds that took and how many were refused."""
    began, refused = clock.elapsed, 0
    for _ in range(requests):
        while True:
            sent_at = limit.wait()
            if accepts(clock.elapsed):
                limit.accepted(sent_at)
                break
            limit.refused(sent_at)
            refused += 1
    return clock.elapsed - began, refused


@pytest.mark.parametrize("rate", [10, 20, 200])
@pytest.mark.parametrize(
    "service",
    [
        lambda rate: bucket(rate, rate),
        lambda rate: bucket(rate, rate / 4 + 1),
        lambda rate: bucket(rate, rate * 5),
        lambda rate: window(rate, 1),
        sliding,
    ],
    ids=["bucket", "small bucket", "large bucket", "window", "sliding"],
)
def test_most_of_a_rate_is_used_and_few_requests_are_refused(service: Callable[[int], Service], rate: int) -> None:
    clock = SimulatedClock()
    requests = max(400, rate * 30)
    seconds, refused = run(RateLimit(clock), clock, service(rate), requests)
    assert requests / seconds >= 0.85 * rate
    assert refused <= (requests + refused) / 10


def test_a_service_that_never_refuses_is_never_waited_for() -> None:
    clock = SimulatedClock()
    assert run(RateLimit(clock), clock, lambda _: True, 10_000) == (0, 0)


def test_a_rate_is_found_again_after_one_refusal_that_meant_little() -> None:
    clock = SimulatedClock()
    limit = RateLimit(clock)
    limit.refused(limit.wait())
    run(limit, clock, lambda _: True, 400)
    seconds, _ = run(limit, clock, lambda _: True, 400)
    assert clock.elapsed < 15
    assert seconds < 1


def test_a_rate_that_falls_is_followed() -> None:
    clock = SimulatedClock()
    limit = RateLimit(clock)
    run(limit, clock, bucket(200, 20), 4_000)
    seconds, refused = run(limit, clock, bucket(5, 5), 200)
    assert 200 / seconds > 0.85 * 5
    assert refused < 20


def test_one_burst_of_refusals_halves_the_rate_once() -> None:
    clock = SimulatedClock()
    limit = RateLimit(clock)
    run(limit, clock, bucket(100, 100), 1_000)
    sent = [limit.wait() for _ in range(8)]
    waited_for = clock.elapsed
    for sent_at in sent:
        limit.refused(sent_at)
    limit.accepted(limit.wait())
    limit.wait()
    assert clock.elapsed - waited_for < 0.1


def test_all_requests_wait_as_long_as_the_service_asks() -> None:
    clock = SimulatedClock()
    limit = RateLimit(clock)
    limit.refused(limit.wait(), retry_after=30)
    assert limit.wait() == 30
    assert limit.wait() > 30


def test_processes_that_name_one_file_share_a_limit(tmp_path: Path) -> None:
    clock = SimulatedClock()
    accepts = bucket(20, 20)
    limits = [RateLimit(clock, tmp_path / "service") for _ in range(4)]
    refused = sum(run(limit, clock, accepts, 1)[1] for _ in range(100) for limit in limits)
    assert 400 / clock.elapsed >= 0.85 * 20
    assert 0 < refused <= 40
    assert RateLimit(clock, tmp_path / "service").accepted_at == clock.elapsed
    limits[0].refused(clock.elapsed, retry_after=30)
    began = clock.elapsed
    assert limits[1].wait() == began + 30


def test_clients_of_one_service_share_its_limit() -> None:
    limit = rate_limit("https://lake.example.com")
    assert rate_limit("https://lake.example.com") is limit
    assert rate_limit("https://other.example.com") is not limit
