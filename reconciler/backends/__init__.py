"""The catalogs lancens speaks to: one module a system, found through the ``lancens.backends`` entry points."""
