"""What a test cannot run without."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

__all__ = ["missing", "tool"]


def missing(reason: str) -> NoReturn:
    """Skip on a laptop; fail in CI, where nothing may go untested unnoticed."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def tool(name: str) -> str:
    """Return the path of an installed command."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        missing(f"`{name}` is not installed")
    return path
