"""The one issue that is open for as long as the catalogs differ from the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.action.api import GitHub

LABEL = "lancens-drift"
"""The label by which the issue is found among all that are open."""


def _find(github: GitHub, marker: str) -> Mapping[str, Any] | None:
    for document in github.pages("/issues", state="open", labels=LABEL):
        ours = (document.get("user") or {}).get("login") == github.login
        if ours and (document.get("body") or "").startswith(marker):
            return dict(document)
    return None


def put_issue(github: GitHub, marker: str, title: str, text: str) -> str:
    """Open the issue with ``marker``, or bring the one that is open up to date; return its address."""
    content = {"title": title, "body": f"{marker}\n{text}"}
    there = _find(github, marker)
    if there is None:
        return str(github.post("/issues", {**content, "labels": [LABEL]})["html_url"])
    if any(there[key] != value for key, value in content.items()):
        github.patch(f"/issues/{there['number']}", content)
    return str(there["html_url"])


def close_issue(github: GitHub, marker: str, reason: str) -> str:
    """Close the issue with ``marker`` where one is open, saying why; return its address, empty where there is none."""
    there = _find(github, marker)
    if there is None:
        return ""
    github.post(f"/issues/{there['number']}/comments", {"body": reason})
    github.patch(f"/issues/{there['number']}", {"state": "closed", "state_reason": "completed"})
    return str(there["html_url"])
