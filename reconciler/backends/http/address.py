"""The address of a service, as a configuration gives it."""

from __future__ import annotations

from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator

__all__ = ["Endpoint", "endpoint_problem"]


def endpoint_problem(endpoint: str) -> str | None:
    """Return why ``endpoint`` cannot be a service's address, or None when it can."""
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError as error:
        return f"is not an address: {error}"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "must be an http:// or https:// address"
    if "@" in parts.netloc:
        return "cannot hold user information; give a token by its own key"
    if parts.query or parts.fragment:
        return "cannot hold a query or fragment"
    return None


def _address(value: str) -> str:
    problem = endpoint_problem(value)
    if problem is not None:
        raise ValueError(problem)
    return value.rstrip("/")


Endpoint: TypeAlias = Annotated[str, AfterValidator(_address)]
"""A configured http:// or https:// address, kept without its trailing slash."""
