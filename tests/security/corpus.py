"""Malformed input, made from sound input and a seed: what a cut, a flipped bit, or an attacker makes of it."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.security.hostile import EVIL, EVIL_NAME

__all__ = ["mutated", "mutated_json"]

_VALUES: Sequence[Callable[[random.Random], Any]] = (
    lambda _: None,
    lambda dice: dice.choice([True, False]),
    lambda dice: dice.choice([0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400]),
    lambda dice: dice.choice([0.5, -0.0, 1e308, float("inf"), float("nan")]),
    lambda dice: dice.choice(["", " ", "$", "/", "..", "\x00", "\ud800", "a" * 300, "1.0", "{}", "null"]),
    lambda dice: dice.choice([EVIL, EVIL_NAME]),
    lambda dice: "x" * dice.choice([1_000, 100_000]),
    lambda dice: [dice.choice(["", 1, None, [], {}])] * dice.choice([0, 1, 3, 10_000]),
    lambda _: {},
    lambda dice: {dice.choice(["", "id", "name", EVIL]): dice.choice([None, 1, "a", [], {}])},
    lambda dice: _nested(dice.choice([10, 200])),
)


_INSERTED = (
    *(b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00" * 8, b"\xed\xa0\x80", b"[" * 5000, b"{" * 300, b"9" * 5000),
    *(b"&a [*a]", b"*a", b"<<: ", b"!!python/object:os.system ", b"---\n", b"\t", b"${", b"${env:HOME}"),
    *(EVIL.encode("utf-8", "surrogatepass"), json.dumps(EVIL).encode()),
)


def _nested(depth: int) -> Any:
    value: Any = []
    for number in range(depth):
        value = [value] if number % 2 else {"a": value}
    return value


def mutated_json(dice: random.Random, sound: Any) -> Any:
    """Return a copy of ``sound`` in which some values are others, gone, doubled or moved."""
    document = {"": copy.deepcopy(sound)}
    for _ in range(dice.choice([1, 1, 1, 2, 5])):
        holder, key = dice.choice(_places(document))
        match dice.randrange(6):
            case 0 if key != "":
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 2:
                places = _places(document)
                other, at = dice.choice(places)
                holder[key] = copy.deepcopy(other[at])
            case 3 if isinstance(holder, dict) and key != "":
                holder[dice.choice(["", "x", EVIL, key.upper(), key + " "])] = holder.pop(key)
            case _:
                holder[key] = dice.choice(_VALUES)(dice)
    return document[""]


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo and len(found) < 2_000:
        holder = todo.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], (dict, list)):
                todo.append(holder[key])
    return found


def mutated(dice: random.Random, sound: bytes) -> bytes:
    """Return ``sound`` cut, flipped, doubled, or with something in it that does not belong there."""
    data = bytearray(sound)
    for _ in range(dice.choice([1, 1, 2, 8])):
        at = dice.randrange(len(data) + 1)
        end = min(len(data), at + dice.choice([1, 4, 40, 400]))
        match dice.randrange(6):
            case 0:
                del data[at:]
            case 1:
                del data[at:end]
            case 2 if at < len(data):
                data[at] ^= 1 << dice.randrange(8)
            case 3:
                data[at:at] = data[at:end] * dice.choice([1, 2, 500])
            case 4:
                data[at:at] = bytes(dice.randrange(256) for _ in range(dice.choice([1, 4, 64])))
            case _:
                data[at:at] = dice.choice(_INSERTED)
    return bytes(data)
