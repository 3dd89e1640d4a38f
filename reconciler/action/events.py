"""Which events of GitHub are trusted with the repository's secrets, and which are not.

A manifest decides where credentials are sent, so what matters is who wrote the commit that is checked out. This table
is the only one: ``action.yml`` refuses by it before anything is installed, ``docs/security.md`` shows it, and tests
hold all three together. An event that is not in it is refused.
https://docs.github.com/en/actions/reference/workflows-and-actions/events-that-trigger-workflows
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final


class Trust(StrEnum):
    """What a run may do for what it checked out.

    ``FULL``: everything. ``VALIDATE``: the manifest is checked; nothing is resolved, read or applied for it.
    ``NONE``: the step is refused.
    """

    FULL = "full"
    VALIDATE = "validate"
    NONE = "none"


EVENTS: Final[Mapping[str, tuple[Trust, Trust]]] = {
    # What only those can start who may write to the repository, with a commit that is in it already.
    "push": (Trust.FULL, Trust.FULL),
    "schedule": (Trust.FULL, Trust.FULL),
    "workflow_dispatch": (Trust.FULL, Trust.FULL),
    "repository_dispatch": (Trust.FULL, Trust.FULL),
    "release": (Trust.FULL, Trust.FULL),
    # The head of a pull request. GitHub gives a fork no secrets, so it can be told whether its manifest is valid.
    "pull_request": (Trust.FULL, Trust.VALIDATE),
    "pull_request_review": (Trust.FULL, Trust.VALIDATE),
    "pull_request_review_comment": (Trust.FULL, Trust.VALIDATE),
    # Several heads in one commit, perhaps of forks, and secrets are there: which is which cannot be told.
    "merge_group": (Trust.VALIDATE, Trust.VALIDATE),
    # These have the repository's secrets also where what they are about is a fork's.
    "pull_request_target": (Trust.FULL, Trust.NONE),
    "workflow_run": (Trust.FULL, Trust.NONE),
}
"""The trust in each event: for a commit of the repository itself, and for one of a fork."""


def trust_of(event: str, document: Mapping[str, Any], repository: str) -> Trust:
    """Return what a run may do.

    Args:
        event: the name of the event, ``GITHUB_EVENT_NAME``.
        document: what came with it. A head whose repository it does not name, such as that of a deleted fork, is a
            fork's.
        repository: in which the workflow runs, as ``owner/name``.
    """
    own, fork = EVENTS.get(event, (Trust.NONE, Trust.NONE))
    return own if own is fork or _head_repository(event, document) == repository.lower() else fork


def _head_repository(event: str, document: Mapping[str, Any]) -> str | None:
    try:
        if event == "workflow_run":
            return str(document["workflow_run"]["head_repository"]["full_name"]).lower()
        return str(document["pull_request"]["head"]["repo"]["full_name"]).lower()
    except (LookupError, TypeError):
        return None
