"""Where the templates of this package and of those built on it are found, and what every template may use.

Imports Jinja2, so import it only to render something.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from reconciler import display

__all__ = ["html_templates"]

_IN_BACKTICKS = re.compile("`([^`]+)`")


@cache
def html_templates(package: str) -> Environment:
    """Return the HTML templates in the folder ``templates`` of ``package``, and those that every page shares.

    All that a template shows is escaped as HTML. What is foreign goes through a filter besides, which makes the
    invisible in it visible; each but ``sentence`` is the function of that name in ``reconciler.display``.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(__package__)]),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "address": _address,
        "key": display.key,
        "name": display.name,
        "printable": display.printable,
        "sentence": _sentence,
        "value": display.value,
    }
    environment.globals["count"] = display.count
    return environment


def _address(names: Iterable[str]) -> str:
    return display.address(*names)


def _sentence(text: str) -> Markup:
    """Return foreign prose as markup in which what stands in backticks is code."""
    escaped = str(escape(display.printable(text)))
    return Markup(_IN_BACKTICKS.sub(r"<code>\1</code>", escaped))  # noqa: S704 - it was escaped before
