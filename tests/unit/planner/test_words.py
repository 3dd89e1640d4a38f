"""How the codes of a plan read: one page of every sentence, in `words.txt`. Other tests assert codes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reconciler.model.reasons import NoteCode, Params, ReasonCode
from reconciler.planner import words

GOLDEN = Path(__file__).with_name("words.txt")
UPDATE = "python -m tests.unit.planner.test_words"

NAMED: Params = {
    "location": "s3://lake/t.lance",
    "other_location": "s3://lake/other.lance",
    "code": "ds.run()",
    "rename_code": "ds.rename()",
    "detail": "DETAIL",
    "catalog": "CATALOG",
    "name": "NAME",
    "other": "OTHER",
    "names": ("a", "b", "c", "d", "e"),
    "count": 7,
    "more": 5,
    "limit": 9,
    "owner": "OWNER",
    "manifest": "MANIFEST",
    "file": "FILE",
    "line": "lancens.yaml:9",
    "where": "WHERE",
    "key": "KEY",
    "value": "VALUE",
    "version": 42,
    "tag": "TAG",
    "kind": "KIND",
    "other_kind": "OTHER KIND",
    "does": "GOES",
    "other_does": "COMES",
    "write": "names: {a: b}",
    "lines": ("{name: a, type: int32}",),
    "differences": ("`a` is not in the data", "`b` is int32 in the data, int64 in the block"),
    "columns": ("a", "b", "c", "d", "e"),
    "added": ("a", "b"),
    "relaxed": ("r",),
    "renames": {"old": "new"},
}
"""What the sentences name where nothing optional is left out."""

_MIRROR: Params = {"mirror": "MIRROR", "lost": "LOST"}
_OPTIONAL = ("name", "line", "key", "renames", "relaxed", "write", "manifest", "version", "tag", "kind", "count")
_COLUMNS: tuple[Params, ...] = (
    {"extra": ("e",)},
    {"evolves": True},
    {"evolves": True, "relaxed": ("r",)},
    {"renamed": ("n",), "annotated": ("m",), "rewritten": ("w",)},
    {"unclear": ("u",)},
    {"tagged": ("prod",), "untagged": ("old",)},
    {"fills": True},
    {"impossible": ("i",)},
    {"lines": ()},
    {"lines": (), "added": ()},
)


def without(*keys: str) -> Params:
    return {key: value for key, value in NAMED.items() if key not in keys}  # type: ignore[return-value]


def variants() -> Iterator[Params]:
    """Yield parameters of which more and more is left out, and some that are given for one case alone."""
    yield NAMED
    yield {**NAMED, **_MIRROR}
    for key in _OPTIONAL:
        yield without(key)
    for more in _COLUMNS:
        yield {**without("relaxed", "renames"), **more}
    yield {**NAMED, "count": 1, "more": 1, "added": ("a",), "names": ("b",)}


def page() -> str:
    left_out: Params = {**NAMED, "leave_out": "t: {absent: true}"}
    lines: list[str] = []
    for code in ReasonCode:
        lines += [f"{code}: {words.reason(code, one)}" for one in variants()]
        lines += [f"{code} -> {words.remedy(code, one)}" for one in (*variants(), left_out)]
    for note in NoteCode:
        lines += [f"{note}: {words.message(note, one)}" for one in variants()]
    return "".join(f"{line}\n" for line in dict.fromkeys(lines) if not line.endswith((" ", ": ", "-> ")))


def test_the_page_shows_how_every_code_reads() -> None:
    assert page() == GOLDEN.read_text("utf-8"), f"update it with `{UPDATE}`, and review the difference"


if __name__ == "__main__":
    GOLDEN.write_text(page(), "utf-8")
