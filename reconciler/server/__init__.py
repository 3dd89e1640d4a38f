"""``lancens serve``: a Lance Namespace adapter, REST over any backend.

Implements the Lance Namespace specification, "Namespace Server and Adapter": :func:`app.make_app` returns the ASGI
application, :func:`running.run` serves it until the process is told to stop.
"""
