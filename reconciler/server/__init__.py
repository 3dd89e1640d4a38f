"""``lancens serve``: a Lance Namespace adapter, the REST protocol over any backend.

Implements the Lance Namespace specification, "Namespace Server and Adapter": :func:`make_app` returns the ASGI
application, :func:`run` serves it until the process is told to stop.
"""

from reconciler.server.app import make_app
from reconciler.server.catalogs import ManyCatalogs, OneCatalog, ServedCatalogs
from reconciler.server.running import ListenAddress, run
from reconciler.server.settings import Settings
from reconciler.server.tokens import TokenFile, Tokens

__all__ = [
    "ListenAddress",
    "ManyCatalogs",
    "OneCatalog",
    "ServedCatalogs",
    "Settings",
    "TokenFile",
    "Tokens",
    "make_app",
    "run",
]
