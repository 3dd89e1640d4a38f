"""Comments on pull requests, and the issue that reports drift, each updated in place.

Each step that plans or applies has one comment. The issue is open for as long as the catalogs differ from the manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.action.api import GitHub

LABEL = "lancens-drift"
"""The label by which the drift issue is found."""

_EDITOR = """query($id: ID!) { node(id: $id) { ... on IssueComment { author { login } editor { login } } } }"""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment that the user of the token wrote."""

    id: int
    node_id: str
    body: str
    url: str


def _own_documents(github: GitHub, documents: Iterable[Mapping[str, Any]], marker: str) -> Iterator[Mapping[str, Any]]:
    """Yield the comments or issues by the token's user that begin with ``marker``.

    The marker alone proves nothing: anybody who can comment can write it.
    """
    for document in documents:
        has_marker = (document.get("body") or "").startswith(marker)
        if has_marker and (document.get("user") or {}).get("login") == github.login:
            yield document


def find_comments(github: GitHub, number: int, marker: str) -> Iterator[Comment]:
    """Yield the own comments that begin with ``marker``, the oldest first.

    They are comments on pull request ``number`` by the user of the token.
    """
    for document in _own_documents(github, github.pages(f"/issues/{number}/comments"), marker):
        yield Comment(int(document["id"]), str(document["node_id"]), str(document["body"]), str(document["html_url"]))


def is_untouched(github: GitHub, comment: Comment) -> bool:
    """Return whether only its author has edited ``comment``, so that its text can be trusted as the author's."""
    node = github.graphql(_EDITOR, id=comment.node_id)["node"]
    return bool(node) and (node["editor"] is None or node["editor"] == node["author"])


def put_comment(github: GitHub, number: int, marker: str, text: str, *, create: bool = True) -> str:
    """Create or update the comment with ``marker`` and return its address.

    Without ``create``, a missing comment is not created, and the address is empty.
    """
    body = f"{marker}\n{text}"
    existing = next(find_comments(github, number, marker), None)
    if existing is None:
        return str(github.post(f"/issues/{number}/comments", {"body": body})["html_url"]) if create else ""
    if existing.body != body:
        github.patch(f"/issues/comments/{existing.id}", {"body": body})
    return existing.url


def _find_open_issue(github: GitHub, marker: str) -> Mapping[str, Any] | None:
    return next(_own_documents(github, github.pages("/issues", state="open", labels=LABEL), marker), None)


def put_issue(github: GitHub, marker: str, title: str, text: str) -> str:
    """Open or update the issue with ``marker`` and return its address."""
    content = {"title": title, "body": f"{marker}\n{text}"}
    existing = _find_open_issue(github, marker)
    if existing is None:
        return str(github.post("/issues", {**content, "labels": [LABEL]})["html_url"])
    if any(existing[key] != value for key, value in content.items()):
        github.patch(f"/issues/{existing['number']}", content)
    return str(existing["html_url"])


def close_issue(github: GitHub, marker: str, reason: str) -> str:
    """Close the open issue with ``marker``, and return its address if there is one."""
    existing = _find_open_issue(github, marker)
    if existing is None:
        return ""
    github.post(f"/issues/{existing['number']}/comments", {"body": reason})
    github.patch(f"/issues/{existing['number']}", {"state": "closed", "state_reason": "completed"})
    return str(existing["html_url"])
