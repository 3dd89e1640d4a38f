"""The comments that the Action keeps up to date: one for each step that plans, and one for each that applies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.action.api import GitHub

_EDITOR = """query($id: ID!) { node(id: $id) { ... on IssueComment { author { login } editor { login } } } }"""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment by the token's own user."""

    id: int
    node_id: str
    body: str
    url: str

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Comment:
        """Return what GitHub's REST API says of a comment."""
        return cls(int(document["id"]), str(document["node_id"]), str(document["body"]), str(document["html_url"]))


def find_comments(github: GitHub, number: int, marker: str) -> Iterator[Comment]:
    """Yield the comments on a pull request that begin with ``marker`` and are by the token's own user, oldest first.

    The marker alone proves nothing: everybody who may comment can write it.
    """
    for document in github.pages(f"/issues/{number}/comments"):
        body = document.get("body") or ""
        if body.startswith(marker) and (document.get("user") or {}).get("login") == github.login:
            yield Comment.of(document)


def is_untouched(github: GitHub, comment: Comment) -> bool:
    """Return whether nobody but its author has edited ``comment``: people with write access can."""
    node = github.graphql(_EDITOR, id=comment.node_id)["node"]
    return bool(node) and (node["editor"] is None or node["editor"] == node["author"])


def put_comment(github: GitHub, number: int, marker: str, text: str, *, create: bool = True) -> str:
    """Make ``text`` the comment with ``marker``, in place where there is one, and return its address.

    Without ``create``, a comment that is not there is not made, and the address is empty.
    """
    body = f"{marker}\n{text}"
    there = next(find_comments(github, number, marker), None)
    if there is None:
        return str(github.post(f"/issues/{number}/comments", {"body": body})["html_url"]) if create else ""
    if there.body != body:
        github.patch(f"/issues/comments/{there.id}", {"body": body})
    return there.url
