"""A world of its own for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from reconciler.model.capabilities import Capabilities
from tests.unit.applier.world import World


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[[Capabilities], World]]:
    with ExitStack() as stack:

        def make(capabilities: Capabilities) -> World:
            world = World(tmp_path / "journals", capabilities)
            stack.enter_context(world.storage.installed())
            return world

        yield make


@pytest.fixture
def world(make_world: Callable[[Capabilities], World]) -> World:
    return make_world(Capabilities())
