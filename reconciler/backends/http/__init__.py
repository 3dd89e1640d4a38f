"""The one way lancens speaks HTTP: Unity Catalog, Iceberg REST and Lance REST all go through here.

A backend makes one :class:`HttpClient` and calls :meth:`~HttpClient.json` or :meth:`~HttpClient.done`. What it gets
is a decoded JSON object or an error of ours whose text names the call, the cause and a remedy, and never
holds a secret. The vendor's own error bodies are read by the ``translate`` function the backend hands in.
"""

from reconciler.backends.http.address import Endpoint, endpoint_problem, plain_http_problem
from reconciler.backends.http.certificates import Certificates
from reconciler.backends.http.client import HttpClient, Tagged, path
from reconciler.backends.http.clock import server_time
from reconciler.backends.http.headers import hold_secret, with_headers
from reconciler.backends.http.limits import AnswerLimits
from reconciler.backends.http.login import Login, revealed
from reconciler.backends.http.oauth import service_client
from reconciler.backends.http.refusals import ForeignAnswerError, Refusal, UnknownRouteError, VendorError
from reconciler.backends.http.retry import RetryPolicy

__all__ = [
    "AnswerLimits",
    "Certificates",
    "Endpoint",
    "ForeignAnswerError",
    "HttpClient",
    "Login",
    "Refusal",
    "RetryPolicy",
    "Tagged",
    "UnknownRouteError",
    "VendorError",
    "endpoint_problem",
    "hold_secret",
    "path",
    "plain_http_problem",
    "revealed",
    "server_time",
    "service_client",
    "with_headers",
]
