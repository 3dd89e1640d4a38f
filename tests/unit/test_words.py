"""Words that native readers had to read twice stay out of what a person reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
_FILES = [
    *(path for path in (ROOT / "reconciler").rglob("*.py") if "gen" not in path.parts),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "action.yml")),
]


def found_in(text: str) -> list[str]:
    """Return each banned word of ``text`` with its line and the word to use."""
    return [
        f"{number}: {match[0]} (say: {instead})"
        for number, line in enumerate(text.splitlines(), 1)
        for word, instead in _WORDS.items()
        for match in word.finditer(line)
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("It is none of these.", 1),
        ("Whoever drops it", 1),
        ("a dependency cycle", 0),
        ("CIRCLE", 1),
        ("a try\nmended", 2),
    ],
)
def test_banned_words_are_found(text: str, count: int) -> None:
    assert len(found_in(text)) == count


def test_no_file_has_a_banned_word() -> None:
    found = {str(path.relative_to(ROOT)): found_in(path.read_text("utf-8")) for path in _FILES}
    assert {path: words for path, words in found.items() if words} == {}


def test_no_test_is_named_with_a_banned_word() -> None:
    names = [
        name.replace("_", " ")
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"^ *(?:def|class) (\w+)", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert [name for name in names if found_in(name)] == []
