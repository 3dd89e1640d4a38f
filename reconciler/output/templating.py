"""Render Jinja2 templates of pages and Markdown, with the filters that make foreign text safe.

A page is one file that requests nothing. A content security policy forbids every request and every script and style but
those of this package, so a name that looks like markup stays a name.

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
_LONGEST_VALUE = 200


def render_page(package: str, name: str, **variables: object) -> str:
    """Return a page, ready to be written as UTF-8.

    Args:
        package: the package of its template ``templates/NAME.html``, its style ``NAME.css`` and its script ``NAME.js``.
        name: the NAME in those three.
        variables: those of the template.
    """
    style = _read_asset(__package__, "page.css") + _read_asset(package, f"{name}.css")
    script = _read_asset(package, f"{name}.js")
    policy = (
        f"default-src 'none'; style-src {_source_hash(style)}; script-src {_source_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return render_fragment(package, name, **variables, policy=policy, style=style, script=script)


def render_fragment(package: str, name: str, **variables: object) -> str:
    """Return a part of a page: ``templates/NAME.html`` of ``package`` with ``variables``."""
    return _html_templates(package).get_template(f"{name}.html").render(variables)


def in_frame(page: str, title: str) -> str:
    """Return a page for a notebook, in a frame of its own, so that its style and script reach nothing else."""
    return f'<iframe srcdoc="{escape(page)}" style="width:100%;height:32em;border:0" title="{escape(title)}"></iframe>'


def _read_asset(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _source_hash(text: str) -> str:
    """Return the source expression by which the content security policy allows ``text``."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _html_templates(package: str) -> Environment:
    """Return the HTML templates of ``package``, and those that every page shares.

    Everything is escaped as HTML. Foreign text must also pass a filter that makes invisible characters visible; each
    but ``sentence`` is the function of that name in ``reconciler.model.display``.
    """
    environment = _environment(ChoiceLoader([PackageLoader(package), PackageLoader(__package__)]))
    environment.filters["sentence"] = _sentence
    return environment


@cache
def markdown_templates() -> Environment:
    """Return the Markdown templates of this package.

    Everything is encoded as prose, except the results of filters from ``reconciler.output.markdown_text``. Foreign text
    must also pass a filter that makes invisible characters visible, as in HTML.
    """
    environment = _environment(PackageLoader(__package__), finalize=_encode_prose)
    for function in (markdown_text.cell, markdown_text.code, markdown_text.fenced, markdown_text.sentence):
        environment.filters[function.__name__] = _markup_filter(function)
    environment.filters["short"] = lambda text, omissions: omissions.shorten(text, _LONGEST_VALUE)
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
        "breaking": _breaking,
        "key": display.key,
        "message": display.message,
        "name": display.name,
        "printable": display.printable,
        "value": display.value,
    }
    environment.globals |= {"count": display.count, "ellipsis": display.ELLIPSIS, "wording": wording}
    return environment


def _address(names: Iterable[str]) -> str:
    return display.address(*names)


def _sentence(text: str) -> Markup:
    """Return foreign prose as markup in which text in backticks is code."""
    escaped = str(escape(display.printable(text)))
    return Markup(_IN_BACKTICKS.sub(r"<code>\1</code>", escaped))  # noqa: S704 - it is escaped


def _breaking(text: str) -> Markup:
    """Return text as markup that a browser breaks after slashes, rather than inside a word."""
    return Markup(re.sub(r"(?<![<:/])/(?=\w)", "/<wbr>", escape(text)))  # noqa: S704 - it is escaped


def _encode_prose(value: object) -> Markup:
    return value if isinstance(value, Markup) else Markup(markdown_text.prose(str(value)))  # noqa: S704 - encoded


def _markup_filter(function: Callable[..., str]) -> Callable[..., Markup]:
    """Return ``function`` as a filter whose result is not encoded again."""

    def filter_markup(*arguments: object) -> Markup:
        return Markup(function(*arguments))  # noqa: S704 - these functions make Markdown safe

    return filter_markup
