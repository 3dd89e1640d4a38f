"""Why a step failed, in the words a workflow can branch on."""

from __future__ import annotations

from enum import StrEnum

from reconciler.action.api import GitHubError
from reconciler.action.inputs import InputError
from reconciler.model.errors import (
    BlockedError,
    CatalogError,
    ConfigError,
    LancensError,
    ManifestError,
    MissingExtraError,
    PlanFileError,
    SelectionError,
    StalePlanError,
)


class FailureReason(StrEnum):
    """The output ``failure-reason``."""

    INVALID_INPUT = "invalid-input"
    INVALID_MANIFEST = "invalid-manifest"
    CATALOG_UNREADABLE = "catalog-unreadable"
    REFUSED = "refused"
    NOT_APPROVED = "not-approved"
    DUPLICATE_PLAN = "duplicate-plan"
    PLAN_CHANGED = "plan-changed"
    PARTIAL_APPLY = "partial-apply"
    APPLY_FAILED = "apply-failed"
    BLOCKED = "blocked"
    DRIFT = "drift"
    FINDINGS = "findings"
    AUDIT_FAILED = "audit-failed"
    GITHUB = "github"
    INTERNAL = "internal"


class RefusedError(LancensError):
    """The Action does not do what it was asked to; ``details`` is Markdown for the summary and the comment."""

    def __init__(self, reason: FailureReason, message: str, details: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.details = details


def reason_of(error: BaseException) -> FailureReason:
    """Return the reason that ``error`` amounts to."""
    match error:
        case RefusedError():
            return error.reason
        case ManifestError() | ConfigError():
            return FailureReason.INVALID_MANIFEST
        case CatalogError():
            return FailureReason.CATALOG_UNREADABLE
        case BlockedError():
            return FailureReason.BLOCKED
        case StalePlanError():
            return FailureReason.PLAN_CHANGED
        case InputError() | SelectionError() | MissingExtraError() | PlanFileError():
            return FailureReason.INVALID_INPUT
        case GitHubError():
            return FailureReason.GITHUB
        case LancensError():
            return FailureReason.REFUSED
        case _:
            return FailureReason.INTERNAL
