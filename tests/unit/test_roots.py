"""Under which roots the tables of a catalog go, as its configuration says."""

from __future__ import annotations

import pytest

from reconciler.backends import registry

LAKE = "s3://lake/tables"


@pytest.mark.parametrize(
    ("impl", "config", "roots"),
    [
        ("dir", {"root": LAKE}, [LAKE]),
        ("memory", {}, []),
        ("memory", {"root": LAKE}, [LAKE]),
        ("hive2", {"uri": "thrift://127.0.0.1:1", "root": LAKE}, [LAKE]),
        ("hive3", {"uri": "thrift://127.0.0.1:1"}, []),
        ("unity", {"endpoint": "http://127.0.0.1:1", "catalog": "main", "root": LAKE}, [LAKE]),
        ("iceberg", {"endpoint": "http://127.0.0.1:1", "root": LAKE}, [LAKE]),
        ("rest", {"uri": "http://127.0.0.1:1", "root": LAKE}, [LAKE]),
        ("glue", {"region": "eu-west-1"}, []),
    ],
)
def test_the_roots_are_the_configured_one(impl: str, config: dict[str, str], roots: list[str]) -> None:
    backend = registry.connect(impl, config)
    assert list(backend.roots()) == roots
    backend.close()
