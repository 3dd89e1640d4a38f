"""Find names that look like another name of their namespace, and differ in characters that nobody sees."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator

from reconciler.model.names import Identifier

_LATIN = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u03bf\u03c1\u03b9\u0131",
    "aeopcyxijshdopii",
)
"""Cyrillic and Greek letters, lower case, that look like Latin ones."""


def lookalikes(names: Iterable[Identifier]) -> Iterator[tuple[Identifier, Identifier, str]]:
    """Yield each name with a name that looks the same, and the characters in which the first differs.

    Only names that are not ASCII are compared, so a million of others cost nothing.
    """
    known = list(names)
    unusual = [name for name in known if not "".join(name).isascii()]
    if not unusual:
        return
    by_look: defaultdict[Identifier, list[Identifier]] = defaultdict(list)
    for name in known:
        by_look[_look(name)].append(name)
    for name in unusual:
        for other in by_look[_look(name)]:
            if other < name:
                characters = sorted(set("".join(name)) - set("".join(other)))
                yield name, other, ", ".join(f"U+{ord(each):04X}" for each in characters)


def _look(name: Identifier) -> Identifier:
    """Return a text that is equal for names that look the same."""
    return tuple(
        "".join(
            character
            for character in unicodedata.normalize("NFKC", part).casefold().translate(_LATIN)
            if unicodedata.category(character) != "Cf"
        )
        for part in name
    )
