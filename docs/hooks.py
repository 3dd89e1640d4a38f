"""What the site does to a page: links that leave this folder lead to the file in the repository."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

_LINK = re.compile(r"(?<=\]\()\.\./[^)\s]+")


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Return the text of ``page`` as the site is to have it."""
    folder = posixpath.dirname(page.file.src_uri)

    def rewritten(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, link[0]))
        return link[0] if target.startswith("docs/") else f"{config.repo_url}/blob/main/{target}"

    return _LINK.sub(rewritten, markdown)
