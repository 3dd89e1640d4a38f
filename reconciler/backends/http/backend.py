"""What the backends of services over HTTP have in common: one client, whose connections they count and close."""

from __future__ import annotations

from datetime import datetime

from reconciler.backends.http.client import HttpClient
from reconciler.backends.http.clock import server_time
from reconciler.backends.optional import Measures
from reconciler.model.live import Traffic


class HttpBackend(Measures):
    """A backend that speaks by ``_http``, which a subclass sets."""

    _http: HttpClient

    def traffic(self) -> Traffic:
        """Return what was sent so far, repeated requests included, and what came back."""
        return self._http.traffic

    def server_time(self) -> datetime | None:
        """Return the time in the head of the server's answers."""
        return server_time(self._http.endpoint)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
