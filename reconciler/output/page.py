"""What every page of lancens has in common: its frame, its policy and its look.

A page is one file that asks for nothing from anywhere. A content security policy forbids every request and every
script and style but those of this package, so that a name that looks like markup stays a name.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources


def render_page(package: str, name: str, **shown: object) -> str:
    """Return a page, ready to be written as UTF-8.

    Args:
        package: where its template ``templates/NAME.html`` is, what it adds to the look of all pages (``NAME.css``),
            and what it runs at the end of its body (``NAME.js``).
        name: what those three are called.
        shown: what the template shows.
    """
    from reconciler.output.templating import html_templates

    style, script = _asset(__package__, "page.css") + _asset(package, f"{name}.css"), _asset(package, f"{name}.js")
    policy = (
        f"default-src 'none'; style-src {_source_hash(style)}; script-src {_source_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    template = html_templates(package).get_template(f"{name}.html")
    return template.render(shown, policy=policy, style=style, script=script)


def _asset(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
