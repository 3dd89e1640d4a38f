"""Print banned words in what people read, which native readers had to read twice: ``python -m tests.words``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.size import sources

ROOT = Path(__file__).parents[1]
BANNED = {
    r"(?i:amiss)": "wrong, missing",
    r"(?i:oddit(y|ies))": "mismatch",
    r"(?i:whoever)": "the user, the caller",
    r"(?<!there )is none": "is not one",
    r"(is|are|be|been) told as": "is reported as",
    r"(?i:made anew)": "rebuilt, made again",
    r"comes? to (be|what|the same|its end)": "becomes, ends",
    r"(?i:stands? at)": "is at",
    r"(?i:circles?)": "cycle",
    r"a try": "an attempt",
    r"(?i:mended)": "fixed",
    r"(has|have) a say": "decides",
}
"""What is banned, and the word to use."""

_WORDS = {re.compile(rf"\b{banned}\b"): instead for banned, instead in BANNED.items()}
_ANY = re.compile("|".join(word.pattern for word in _WORDS))
"""One search of a line for all of them, which most lines do not pass."""


def banned() -> Iterator[str]:
    """Yield each banned word with its place and the word to use; tests are read for their names alone."""
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), ROOT / "action.yml"]
    for path in [*sources(), *pages, *(ROOT / "tests").rglob("*.py")]:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            name = re.match(r" *(?:def|class) (\w+)", line)
            text = line if "tests" not in path.parts[len(ROOT.parts) :] else name[1].replace("_", " ") if name else ""
            for word, instead in _WORDS.items() if _ANY.search(text) else ():
                for match in word.finditer(text):
                    yield f"{path.relative_to(ROOT)}:{number}: {match[0]} (say: {instead})"


if __name__ == "__main__":
    lines = [*banned()]
    print("\n".join(lines), end="\n" if lines else "")
    sys.exit(1 if lines else 0)
