"""What no output may show: values that look like secrets, and the config values known to be secrets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

__all__ = ["REDACTED", "is_sensitive_key", "is_stand_in", "redact_properties", "redact_value", "scrub"]

REDACTED = "(redacted)"
_SENSITIVE = re.compile(
    r"secret|passw|token|credential|access[-_. ]?key|private[-_. ]?key|api[-_. ]?key|sas[-_.]", re.IGNORECASE
)
_STAND_IN = re.compile(r"\(redacted [0-9a-f]{8}\)")
_SHORTEST_SECRET = 4


def is_sensitive_key(key: str) -> bool:
    """Return whether the value of a property named ``key`` is never shown."""
    return _SENSITIVE.search(key) is not None


def is_stand_in(value: str) -> bool:
    """Return whether ``value`` is what :func:`redact_value` puts in the place of a secret."""
    return _STAND_IN.fullmatch(value) is not None


def redact_value(key: str, value: str) -> str:
    """Return ``value``, or a stand-in that still tells two values apart when ``key`` looks like a secret's.

    A stand-in is returned as it is, so that a saved plan read back has the digest it was saved with.
    """
    if not is_sensitive_key(key) or is_stand_in(value):
        return value
    return f"(redacted {hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:8]})"


def redact_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return ``properties`` with every sensitive value replaced."""
    return {key: redact_value(key, value) for key, value in properties.items()}


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Return ``text`` with every known secret replaced; the longest first, so that none is left in part."""
    for secret in sorted((secret for secret in secrets if len(secret) >= _SHORTEST_SECRET), key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return text
