"""The events of GitHub that are trusted with the repository's secrets.

A manifest decides where credentials are sent, so trust depends on who wrote the commit that is checked out.
``action.yml`` refuses by the same table before anything is installed, ``docs/security.md`` shows it, and tests keep the
three equal. An event that is not in the table is refused.
https://docs.github.com/en/actions/reference/workflows-and-actions/events-that-trigger-workflows
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final


class Trust(StrEnum):
    """What a run may do with the manifest that it checked out.

    ``FULL``: everything. ``VALIDATE``: check it, without resolving, reading or applying anything. ``NONE``: nothing,
    the step is refused.
    """

    FULL = "full"
    VALIDATE = "validate"
    NONE = "none"


EVENTS: Final[Mapping[str, tuple[Trust, Trust]]] = {
    # Only people with write access can start these, on a commit of the repository.
    "push": (Trust.FULL, Trust.FULL),
    "schedule": (Trust.FULL, Trust.FULL),
    "workflow_dispatch": (Trust.FULL, Trust.FULL),
    "repository_dispatch": (Trust.FULL, Trust.FULL),
    "release": (Trust.FULL, Trust.FULL),
    # The head of a pull request. GitHub gives a fork no secrets, so its manifest can be validated.
    "pull_request": (Trust.FULL, Trust.VALIDATE),
    "pull_request_review": (Trust.FULL, Trust.VALIDATE),
    "pull_request_review_comment": (Trust.FULL, Trust.VALIDATE),
    # One commit of several heads, perhaps of forks, with secrets: their authors are unknown.
    "merge_group": (Trust.VALIDATE, Trust.VALIDATE),
    # These have the repository's secrets even for a commit of a fork.
    "pull_request_target": (Trust.FULL, Trust.NONE),
    "workflow_run": (Trust.FULL, Trust.NONE),
}
"""The trust in each event: for a commit of the repository itself, and for one of a fork."""

_QUEUE_EVENT: Final = "merge_group"
_QUEUE_BRANCH: Final = "gh-readonly-queue/"


def trust_of(event: str, document: Mapping[str, Any], repository: str, branch: str = "") -> Trust:
    """Return what a run on this event may do with the manifest that it checked out.

    A merge queue starts three events for one commit: ``merge_group``, a push to its branch, and ``workflow_run``. All
    have the trust of ``merge_group``.

    Args:
        event: the name of the event, ``GITHUB_EVENT_NAME``.
        document: the event's document. A head without a repository, such as that of a deleted fork, counts as a
            fork's.
        repository: in which the workflow runs, as ``owner/name``.
        branch: the branch that the run is for, ``GITHUB_REF_NAME``.
    """
    own_trust, fork_trust = EVENTS.get(event, (Trust.NONE, Trust.NONE))
    trust = (
        own_trust if own_trust is fork_trust or _head_repository(event, document) == repository.lower() else fork_trust
    )
    return EVENTS[_QUEUE_EVENT][0] if trust is Trust.FULL and _is_from_merge_queue(document, branch) else trust


def _is_from_merge_queue(document: Mapping[str, Any], branch: str) -> bool:
    """Return whether a merge queue made the commit.

    The branch of this run, or of the run that triggered it, tells.
    """
    run = document.get("workflow_run")
    triggering_run = run if isinstance(run, Mapping) else {}
    branches = (branch, str(triggering_run.get("head_branch")))
    return triggering_run.get("event") == _QUEUE_EVENT or any(name.startswith(_QUEUE_BRANCH) for name in branches)


def _head_repository(event: str, document: Mapping[str, Any]) -> str | None:
    """Return the repository of the commit in lower case, or None if the event names none."""
    try:
        if event == "workflow_run":
            return str(document["workflow_run"]["head_repository"]["full_name"]).lower()
        return str(document["pull_request"]["head"]["repo"]["full_name"]).lower()
    except (LookupError, TypeError):
        return None
