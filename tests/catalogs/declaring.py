"""How many calls an apply of many declares sends, whatever sends them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import reconciler
from reconciler.backends.http.limits import TrafficMeter

__all__ = ["calls_of_declares"]


def calls_of_declares(
    manifest: Path, namespaces: str, block: Callable[[int], str], tables: int, monkeypatch: pytest.MonkeyPatch
) -> int:
    """Declare ``tables`` tables in a new namespace of the one catalog of ``manifest``; return the calls that took.

    ``namespaces`` are the YAML lines down to the namespace, which end with its name and a colon; ``block`` gives what
    the manifest says of each table. A second plan finds nothing to do.
    """
    head = manifest.read_text("utf-8")
    head = head[: head.index("    namespaces:")]
    depth = len(namespaces.splitlines()[-1]) - len(namespaces.splitlines()[-1].lstrip()) + 2
    lines = "".join(f"{' ' * (depth + 2)}many_{number}: {block(number)}\n" for number in range(tables))
    manifest.write_text(f"{head}{namespaces}\n{' ' * depth}tables:\n{lines}", "utf-8")
    loaded = reconciler.load(manifest)
    plan = reconciler.plan(loaded)
    sent: list[TrafficMeter] = []
    genuine = TrafficMeter.count_request

    def counted(scans: TrafficMeter) -> None:
        sent.append(scans)
        genuine(scans)

    with monkeypatch.context() as patched:
        patched.setattr(TrafficMeter, "count_request", counted)
        assert reconciler.apply(plan, loaded).ok
    assert reconciler.plan(loaded).changes == ()
    return len(sent)
