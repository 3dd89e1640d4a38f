"""Pages and templates: where they are found, what every template may use, and what every page has in common.

A page is one file that asks for nothing from anywhere. A content security policy forbids every request and every
script and style but those of this package, so that a name that looks like markup stays a name.

Imports Jinja2, so import it only to render something.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib import resources

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from reconciler.model import display
from reconciler.output import markdown_text, wording

_IN_BACKTICKS = re.compile("`([^`]+)`")


def render_page(package: str, name: str, **shown: object) -> str:
    """Return a page, ready to be written as UTF-8.

    Args:
        package: where its template ``templates/NAME.html`` is, what it adds to the look of all pages (``NAME.css``),
            and what it runs at the end of its body (``NAME.js``).
        name: what those three are called.
        shown: what the template shows.
    """
    style, script = _asset(__package__, "page.css") + _asset(package, f"{name}.css"), _asset(package, f"{name}.js")
    policy = (
        f"default-src 'none'; style-src {_source_hash(style)}; script-src {_source_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    template = _html_templates(package).get_template(f"{name}.html")
    return template.render(shown, policy=policy, style=style, script=script)


def _asset(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _html_templates(package: str) -> Environment:
    """Return the HTML templates in the folder ``templates`` of ``package``, and those that every page shares.

    All that a template shows is escaped as HTML. What is foreign goes through a filter besides, which makes the
    invisible in it visible; each but ``sentence`` is the function of that name in ``reconciler.model.display``.
    """
    environment = _environment(ChoiceLoader([PackageLoader(package), PackageLoader(__package__)]))
    environment.filters["sentence"] = _sentence
    return environment


@cache
def markdown_templates() -> Environment:
    """Return the Markdown templates of this package.

    All that a template shows is encoded as prose, but for what comes out of a filter that is a function of
    ``reconciler.output.markdown_text``. What is foreign is made visible by the other filters, as in HTML.
    """
    environment = _environment(PackageLoader(__package__), finalize=_encoded)
    for function in (markdown_text.cell, markdown_text.code, markdown_text.fenced, markdown_text.sentence):
        environment.filters[function.__name__] = _as_markup(function)
    environment.filters["short"] = markdown_text.short
    return environment


def _environment(loader: BaseLoader, finalize: Callable[[object], object] | None = None) -> Environment:
    environment = Environment(
        loader=loader,
        finalize=finalize,
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
        "value": display.value,
    }
    environment.globals |= {"count": display.count, "wording": wording}
    return environment


def _address(names: Iterable[str]) -> str:
    return display.address(*names)


def _sentence(text: str) -> Markup:
    """Return foreign prose as markup in which what stands in backticks is code."""
    escaped = str(escape(display.printable(text)))
    return Markup(_IN_BACKTICKS.sub(r"<code>\1</code>", escaped))  # noqa: S704 - it was escaped before


def _encoded(shown: object) -> Markup:
    return shown if isinstance(shown, Markup) else Markup(markdown_text.prose(str(shown)))  # noqa: S704 - encoded


def _as_markup(function: Callable[..., str]) -> Callable[..., Markup]:
    def made(*arguments: object) -> Markup:
        return Markup(function(*arguments))  # noqa: S704 - these functions make Markdown safe

    return made
