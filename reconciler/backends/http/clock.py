"""What time a server says it is, from the head of any answer it gives."""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from requests import PreparedRequest


_SECONDS = 10


def server_time(address: str) -> datetime | None:
    """Return the time in the ``Date`` of the answer to a HEAD of ``address``; None where there is none.

    No credential is sent, and an answer that refuses the request has a time as well.
    """
    import requests

    try:
        # Without an `auth` of its own, requests sends what `.netrc` has for the host.
        answer = requests.head(address, timeout=_SECONDS, allow_redirects=False, auth=_nobody)
        return parsedate_to_datetime(answer.headers.get("Date", ""))
    except (requests.RequestException, ValueError):
        return None


def _nobody(request: PreparedRequest) -> PreparedRequest:
    return request
