"""Format numbers, sizes and times for people."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_LARGE_UNITS = (" M", " B", " T")  # million, billion, trillion
_FIRST_SCALED = 10_000_000
_SIZE = re.compile(r"(\d{1,15})\s*(?:([KMGT])(iB?|B)?|B)?", re.ASCII | re.IGNORECASE)


def number(value: int) -> str:
    """Return a count, such as ``1,204``, or ``12.4 M`` from ten million on."""
    return f"{value:,}" if abs(value) < _FIRST_SCALED else _scaled(value / 1_000_000, 1000, _LARGE_UNITS)


UNKNOWN = "unknown"
"""The text of a figure that storage or a service does not report."""


def size(value: int | None) -> str:
    """Return a number of bytes, such as ``1.2 GiB``."""
    return UNKNOWN if value is None else _scaled(value, 1024, tuple(f" {unit}" for unit in _SIZES))


def parse_size(text: str) -> int:
    """Return the bytes in a text such as ``4GiB``, ``4G`` (the same) or ``4GB``.

    Raises:
        ValueError: saying what is expected.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError("a number of bytes, such as 500GiB")
    exponent = " KMGT".index(match[2].upper()) if match[2] else 0
    base = 1000 if (match[3] or "").upper() == "B" else 1024
    return int(match[1]) * int(base**exponent)


def total_size(values: Iterable[int | None]) -> str:
    """Return the sum of the known sizes in bytes, and the number of unknown ones: ``1.2 GiB + 3 unknown``."""
    sizes = [*values]
    known = [value for value in sizes if value is not None]
    return with_unknown(size(sum(known)), len(sizes) - len(known)) if known or not sizes else UNKNOWN


def with_unknown(amount: str, unknown: int) -> str:
    """Return the text of a sum with the number of unknown figures that it leaves out."""
    return f"{amount} + {unknown:,} {UNKNOWN}" if unknown else amount


def size_unit(value: int) -> int:
    """Return the number of bytes in the unit of :func:`size` for ``value``."""
    unit = 1
    while value >= unit * 1024:
        unit *= 1024
    return unit


def _scaled(value: float, step: int, units: tuple[str, ...]) -> str:
    """Return ``value``, which is in the first unit, in the unit that suits it; each is ``step`` of the one before."""
    index = 0
    # A value that would be rounded up to a whole step is written in the next unit.
    while abs(value) >= step - 0.5 and index < len(units) - 1:
        value /= step
        index += 1
    digits = 0 if float(value).is_integer() or abs(value) >= 100 else 1
    return f"{value:,.{digits}f}{units[index]}"


def change(value: int, text: str) -> str:
    """Return ``text``, the amount of a change, with the sign of ``value``."""
    return f"{'+' if value > 0 else '−'}{text}"  # noqa: RUF001 -- the minus sign is as wide as the plus


def moment(value: datetime) -> str:
    """Return a moment in UTC, such as ``2026-11-21 15:30 UTC``."""
    return f"{value:%Y-%m-%d %H:%M} UTC"


def duration(value: timedelta) -> str:
    """Return a duration, such as ``41 s`` or ``3 min 20 s``."""
    seconds = round(value.total_seconds())
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
