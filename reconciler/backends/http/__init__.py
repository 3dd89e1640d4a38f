"""The one way lancens speaks HTTP: for Unity Catalog, Iceberg and Lance REST.

A backend makes one :class:`~reconciler.backends.http.client.HttpClient`. It returns a decoded JSON object or raises an
error of ours, whose text names the call, the cause and a remedy, and holds no secret.
"""
