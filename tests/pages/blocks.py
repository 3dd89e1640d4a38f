"""What the pages have a reader type: the blocks of commands and of Python, by the section they stand in."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt

__all__ = ["PAGES", "ROOT", "Block", "Section", "calls", "first_yaml", "mentions", "sections", "untagged"]

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_COMMANDED = frozenset({"sh", "console"})
_TYPED = _COMMANDED | {"python", "diff"}
_COMMAND = re.compile(r"(\$ |[A-Z_]+=\S+ )?(lancens|make|pip|pytest|python|opa|gh|docker|curl|\.venv/bin/\w+) \S")
_SHELL = frozenset({"&&", "||", "|", ";", ">", ">>", "<"})


@dataclass(frozen=True, slots=True)
class Block:
    """A block in a fence; ``line`` is that of the fence, ``file`` what it is to be saved as."""

    language: str
    text: str
    line: int
    file: str = ""

    @property
    def commands(self) -> list[str]:
        """The command lines of a block of a shell; those of a console without what they print."""
        lines = self.text.replace("\\\n", " ").splitlines() if self.language in _COMMANDED else []
        if self.language == "console":
            return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return lines

    @property
    def printed(self) -> list[list[str]]:
        """What a console shows: for each run of lines without an ellipsis, those."""
        shown: list[list[str]] = [[]]
        for line in self.text.splitlines() if self.language == "console" else ():
            if line.strip() == "…" or line.startswith("$ "):
                shown.append([])
            else:
                shown[-1].append(line)
        return [lines for lines in shown if lines]


@dataclass(frozen=True, slots=True)
class Section:
    """What a reader types between two headings."""

    page: Path
    title: str
    blocks: tuple[Block, ...]

    def __str__(self) -> str:
        page = str(self.page.relative_to(ROOT))
        return f"{page}#{self.title}" if self.title else page


@cache
def _fences(page: Path) -> tuple[tuple[str, Block], ...]:
    """Return every block in a fence of a page, with the heading above it: none for what is below the page's own."""
    found: list[tuple[str, Block]] = []
    heading, tokens = "", MarkdownIt().parse(page.read_text("utf-8"))
    for place, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag != "h1":
            heading = tokens[place + 1].content
        elif token.type == "fence":
            language, _, title = token.info.strip().partition(" title=")
            found.append((heading, Block(language, token.content, (token.map or [0])[0] + 1, title.strip("'\""))))
    return tuple(found)


def sections() -> list[Section]:
    """Return every section of every page in which there is something to type."""
    found: dict[tuple[Path, str], list[Block]] = {}
    for page in PAGES:
        for heading, block in _fences(page):
            if block.language in _TYPED or block.file:
                found.setdefault((page, heading), []).append(block)
    return [Section(page, heading, tuple(blocks)) for (page, heading), blocks in found.items()]


def untagged() -> list[str]:
    """Return the places of the blocks that have commands and do not say so, by which nothing here would find them."""
    return [
        f"{page.relative_to(ROOT)}:{block.line}"
        for page in PAGES
        for _, block in _fences(page)
        if block.language not in _TYPED and any(map(_COMMAND.match, block.text.splitlines()))
    ]


def first_yaml(page: Path) -> str:
    """Return the first manifest on a page."""
    return next(block.text for _, block in _fences(page) if block.language == "yaml")


def calls(page: Path) -> Iterator[list[str]]:
    """Yield the arguments of every call of ``lancens`` in the blocks of a page, those of workflows included."""
    for _, block in _fences(page):
        if block.language == "yaml":
            yield from _arguments(re.findall(r"^\s*(?:- )?run: (lancens .*)$", block.text, flags=re.MULTILINE))
        else:
            yield from _arguments(block.commands)


def mentions(page: Path) -> Iterator[list[str]]:
    """Yield the arguments of every ``lancens`` that the text of a page names; what may be left out is written, too."""
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(page.read_text("utf-8")):
        spans = [child.content for child in token.children or () if child.type == "code_inline"]
        yield from _arguments([re.sub(r"[][]", "", text) for text in spans if text.startswith("lancens ")])


def _arguments(lines: Iterable[str]) -> Iterator[list[str]]:
    for line in lines:
        words = shlex.split(line, comments=True)
        while "lancens" in words:
            words = words[words.index("lancens") + 1 :]
            end = next((place for place, word in enumerate(words) if word in _SHELL), len(words))
            yield words[:end]
