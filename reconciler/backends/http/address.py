"""The address of a service, as a configuration gives it."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator


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


def plain_http_problem(key: str, address: str, *, has_secret: bool, allowed: bool) -> str | None:
    """Return why no secret can be sent to the ``address`` that the configuration ``key`` holds, or None when it can.

    Whoever is on the way reads what goes over plain http; only this machine's own addresses are not on any way.
    """
    parts = urlsplit(address)
    if allowed or not has_secret or parts.scheme != "http" or is_loopback(parts.hostname or ""):
        return None
    return (
        f"`{key}` is a plain http:// address, and what it is called with, such as a token, can be read on the way: use "
        "https://, or set `allow_http` to true where the network is trusted"
    )


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, as its name or address says."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _address(value: str) -> str:
    problem = endpoint_problem(value)
    if problem is not None:
        raise ValueError(problem)
    return value.rstrip("/")


Endpoint: TypeAlias = Annotated[str, AfterValidator(_address)]
"""A configured http:// or https:// address, kept without its trailing slash."""
