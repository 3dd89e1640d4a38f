"""Desired state and live state in, a plan out. Pure: no I/O, no clock, no backend."""
