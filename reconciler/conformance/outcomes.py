"""How a check ends otherwise than well."""

from __future__ import annotations


class FaultError(AssertionError):
    """The namespace does not do what the contract says; the message says what was expected and what came."""


class NotApplicable(Exception):  # noqa: N818 - it is not an error
    """The namespace cannot do this and says so; the message says what."""


class NotAsked(NotApplicable):
    """The check is for backends of lancens: the specification does not say, or has no operation for, what it asks."""
