"""The base of documents that show themselves in a notebook, without importing ``output/``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal


class Renderable:
    """Base of documents that users print, or leave as the last value of a notebook's cell.

    The package ``reconciler`` sets ``renderer`` when it is imported, which is before any of its modules.
    """

    __slots__ = ()
    renderer: ClassVar[Callable[[Renderable, Literal["text", "html"]], str]]

    def __repr__(self) -> str:
        name, counts = self._headline()
        numbers = "".join(f" {sort}={number}" for sort, number in counts.items() if number)
        return f"<{type(self).__name__} {name!r}{numbers and ':'}{numbers}>"

    def __str__(self) -> str:
        return type(self).renderer(self, "text")

    def _headline(self) -> tuple[str, Mapping[str, int]]:
        """Return the name of the document without secrets, and its counts by sort."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """Return the HTML for a notebook."""
        return type(self).renderer(self, "html")
