"""The checks as tests.

``LANCENS_CONFORMANCE='--impl dir --config root=/tmp/lake' pytest --pyargs reconciler.conformance``: the variable holds
what ``lancens conformance`` takes; without it the memory backend is checked. (pytest reads the options of a package's
own conftest too late for them to be arguments.)
"""

from __future__ import annotations

import argparse
import os
import shlex
from functools import partial
from pathlib import Path

import pytest

from reconciler.backends import registry
from reconciler.conformance import ConformanceCheck, checks, verify


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("LANCENS_CONFORMANCE")
    parser.add_argument("--impl", default="memory")
    parser.add_argument("--config", action="append", default=[])
    parser.add_argument("--namespace", default="")
    return parser.parse_args(shlex.split(os.environ.get("LANCENS_CONFORMANCE", "")))


@pytest.mark.parametrize("check", checks(), ids=str)
def test_conformance(check: ConformanceCheck, tmp_path: Path) -> None:
    """One promise of the contract holds."""
    options = _options()
    config: dict[str, str] = dict(pair.split("=", 1) for pair in options.config)
    verify(
        check,
        partial(registry.connect, options.impl, config),
        namespace=[name for name in options.namespace.split("$") if name],
        scratch=str(tmp_path),
    )
