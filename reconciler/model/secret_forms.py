"""Texts that are secrets by their form, whatever they are a value of."""

from __future__ import annotations

import re
from functools import lru_cache

REDACTED = "(redacted)"
_CACHED = 2**12
_LONGEST_CACHED = 2**10
"""Longer texts are searched each time, so that those of others take no more than some MiB of a server's memory."""

_LOOKS_SECRET = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # an access key of AWS
    r"|\bgh[oprsu]_[A-Za-z0-9]{36}|\bgithub_pat_[A-Za-z0-9_]{22,}"
    r"|\bxox[abeprs]-[A-Za-z0-9-]{10,}"  # Slack
    r"|\bdapi[0-9a-f]{32}\b"  # Databricks
    r"|(?<=[A-Za-z0-9_-]{8})\.eyJ[A-Za-z0-9_-]{8,}\."  # a JSON web token, from its first dot: in linear time
    r"|\b(?:Account|SharedAccess)Key=[^;\s]{8,}"  # a connection string of Azure
    r"|[?&]sig=[^&\s]{8,}|[?&]X-Amz-Signature="  # a signed address
    r"|\b(?i:bearer|basic) [A-Za-z0-9._~+/=-]{16,}"
    r"|\w://[^/\s:@]*:[^/\s@]+@",  # user information with a password
)


def looks_secret(text: str) -> bool:
    """Return whether ``text`` has the form of a secret, or a part of it has."""
    # A plan asks six times of each value of an object.
    return _is_found_in(text) if len(text) <= _LONGEST_CACHED else _LOOKS_SECRET.search(text) is not None


@lru_cache(_CACHED)
def _is_found_in(text: str) -> bool:
    return _LOOKS_SECRET.search(text) is not None
