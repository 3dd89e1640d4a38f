"""Properties as the service keeps them: no key and no value of more than 255 characters.

A mark of lancens' own that is longer (``lancens.keys`` of a table with many properties) is kept in parts: the first
under its name, the others under ``lancens.keys.2``, ``lancens.keys.3`` and so on. To a release that does not know this,
the first part is a value it cannot read, which it takes for none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

LONGEST = 255
"""In UTF-16 code units, as the reference server's database counts."""

_OURS = "lancens."


def in_parts(properties: Mapping[str, str]) -> dict[str, str]:
    """Return ``properties`` as they are sent, long marks in parts."""
    sent: dict[str, str] = {}
    for key, value in properties.items():
        if key.startswith(_OURS):
            sent.update(zip(_names(key), _parts(value), strict=False))
        else:
            sent[key] = value
    return sent


def put_together(kept: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that ``kept`` was made of by :func:`in_parts`."""
    numbered = {key for key in kept if key.startswith(_OURS) and key.rpartition(".")[2].isdecimal()}
    whole = {key: value for key, value in kept.items() if key not in numbered}
    for key in whole.keys() if numbered else ():
        if key.startswith(_OURS):
            whole[key] = "".join(_found(kept, key))
    return whole


def _found(kept: Mapping[str, str], key: str) -> Iterator[str]:
    for name in _names(key):
        if name not in kept:
            return
        yield kept[name]


def _names(key: str) -> Iterator[str]:
    yield key
    number = 2
    while True:
        yield f"{key}.{number}"
        number += 1


def _parts(value: str) -> Iterator[str]:
    """Yield ``value`` in pieces that fit, no character cut in two; the empty text is one piece."""
    start = size = 0
    for position, character in enumerate(value):
        width = 2 if character > "\uffff" else 1
        if size + width > LONGEST:
            yield value[start:position]
            start, size = position, 0
        size += width
    yield value[start:]
