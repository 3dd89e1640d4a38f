"""Backends: one module or folder a system, found through entry points."""
