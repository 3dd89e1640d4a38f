"""The ``context`` of a Lance client's request, sent as headers of what is asked for it.

In the REST protocol an entry whose key starts with ``header.`` is the header of that name; other entries have no place.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING

from reconciler.backends.http import hold_secret
from reconciler.model.errors import InvalidInputError

if TYPE_CHECKING:
    from requests import PreparedRequest


_PREFIX = "header."
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")

_along: ContextVar[Mapping[str, str]] = ContextVar("headers of a context", default=MappingProxyType({}))


def headers_in(context: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that ``context`` asks for.

    Raises:
        InvalidInputError: one cannot be a header; its value is not shown.
    """
    headers = {key.removeprefix(_PREFIX): value for key, value in context.items() if key.startswith(_PREFIX)}
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise InvalidInputError(f"rest: {_PREFIX + name!r:.80} in the request's context cannot be sent as a header")
    return headers


@contextmanager
def sent_with(headers: Mapping[str, str]) -> Iterator[None]:
    """Let ``headers`` go with every request that is made inside, before those of the configuration."""
    token = _along.set(headers)
    try:
        yield
    finally:
        _along.reset(token)


def add_headers(request: PreparedRequest) -> Collection[str]:
    """Add the headers of :func:`sent_with`; return what of them no error may show."""
    headers = _along.get()
    request.headers.update(headers)
    return [value for name, value in headers.items() if hold_secret({name: value})]
