"""What every test runs under."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import botocore.client
import botocore.loaders
import pytest
from hypothesis import HealthCheck, settings

from tests.cost import Cost
from tests.servers.spark_classes import driver_environment

# A busy machine makes any example slow; what an example costs is not what these tests are about. A sample is the same
# in each run, so that what fails was changed: a soak draws anew.
settings.register_profile(
    "sample", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "soak", settings.get_profile("sample"), max_examples=5_000, derandomize=False, print_blob=True
)
settings.load_profile("soak" if os.environ.get("LANCENS_SOAK") else "sample")

os.environ.update(driver_environment())

# Collecting and drawing make many objects that stay, and little garbage.
gc.set_threshold(20_000, 10, 10)

# What tests write need not outlast them, and on a disk they wait for it. A container's memory is often small.
_MEMORY, _ROOM = Path("/dev/shm"), 4 * 2**30
if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


def pytest_configure(config: pytest.Config) -> None:
    """Note in the reports what each test costs."""
    config.pluginmanager.register(Cost())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what a person does in a browser to `make servers`, with everything else that runs from end to end."""
    for item in items:
        if isinstance(item, pytest.Function) and "browser" in item.fixturenames:
            item.add_marker(pytest.mark.end_to_end)


def pytest_collection_finish() -> None:
    """Leave modules and tests alone, which are no garbage: to look through them took a part of what tests cost."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _models_read_once() -> Iterator[None]:
    """Let botocore read each model of a service and make its class once, and not for every client.

    That takes most of what a client costs. All clients are of boto3's sessions, which have one way to make a class.
    """
    creator: Any = botocore.client.ClientCreator
    classes: dict[str, object] = {}
    loader, read = botocore.loaders.Loader, botocore.loaders.JSONFileLoader().load_file
    listed = loader.list_available_services
    services = cache(lambda kind: listed(loader([loader.BUILTIN_DATA_PATH]), kind))
    make_class = creator._create_client_class

    def made(self: Any, service: str, model: object) -> object:
        return classes.get(service) or classes.setdefault(service, make_class(self, service, model))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.loaders.JSONFileLoader, "load_file", staticmethod(cache(read)))
        patch.setattr(loader, "list_available_services", lambda _, type_name: services(type_name))
        patch.setattr(creator, "_create_client_class", made)
        yield
