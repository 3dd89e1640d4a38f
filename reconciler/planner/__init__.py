"""Make a plan of desired and live state. Pure: no I/O, no clock, no backend."""
