"""What every test without a server runs under."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True, scope="session")
def _cheap_guesses() -> Iterator[None]:
    """Let scrypt take its fewest rounds: hundreds of plans are drawn here, each with secrets of its own."""
    scrypt = hashlib.scrypt

    def cheap(password: bytes, **options: Any) -> bytes:
        return scrypt(password, **{**options, "n": 2})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashlib, "scrypt", cheap)
        yield
