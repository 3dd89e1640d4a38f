"""Why a plan does something, leaves something, or says something: codes, by which everything decides.

The words beside a code are for people alone.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class ReasonCode(StrEnum):
    """Why an object is changed, kept although it would go, or blocked."""

    # changed
    ABSENT = "absent"
    ADOPTED = "adopted"
    COLUMNS = "columns"
    DATA_FOUND = "data-found"
    DIFFERS = "differs"
    IN_MANIFEST = "in-manifest"
    LEFTOVER = "leftover"
    LOCATION_NOTED = "location-noted"
    MARKS = "marks"
    MIRRORED = "mirrored"
    MIRROR_ENDED = "mirror-ended"
    MOVED = "moved"
    NOT_IN_MANIFEST = "not-in-manifest"
    NO_DATA = "no-data"
    RELEASED = "released"
    RELOCATED = "relocated"
    SAFEGUARD = "safeguard"
    SHOWN_COLUMNS = "shown-columns"
    TAKEN_OVER = "taken-over"

    # blocked
    BAD_DEPTH = "bad-depth"
    BAD_LOCATION = "bad-location"
    BAD_NAME = "bad-name"
    BAD_PROPERTY = "bad-property"
    BOTH_NAMES_THERE = "both-names-there"
    CANNOT_ALTER = "cannot-alter"
    CLEANUP_DUE = "cleanup-due"
    FOREIGN_OWNER = "foreign-owner"
    KEEPS_NO_PROPERTIES = "keeps-no-properties"
    KEPT_UNDER_ANOTHER_NAME = "kept-under-another-name"
    LOCATION_CHOSEN = "location-chosen"
    LOCATION_TAKEN = "location-taken"
    MADE_OUTSIDE = "made-outside"
    MAKES_NO_TABLES = "makes-no-tables"
    NAMED_BY_DIRECTORY = "named-by-directory"
    NAME_MOVED_AWAY = "name-moved-away"
    NAME_TAKEN = "name-taken"
    NOT_LANCE = "not-lance"
    NO_DATA_TO_RELOCATE_TO = "no-data-to-relocate-to"
    NO_DEFAULT_LOCATION = "no-default-location"
    OTHER_COLUMNS = "other-columns"
    OUT_OF_SCOPE = "out-of-scope"
    PROTECTED = "protected"
    SERVICE_KEEPS_VERSIONS = "service-keeps-versions"
    SEVERAL_SOURCES = "several-sources"
    SOURCE_NOT_READY = "source-not-ready"
    STORAGE_DENIED = "storage-denied"
    STORAGE_UNREADABLE = "storage-unreadable"
    TWO_CHANGES_AT_ONCE = "two-changes-at-once"
    UNBOUND_COMMIT = "unbound-commit"
    UNREFERENCED_DATA = "unreferenced-data"
    WRONG_KIND = "wrong-kind"


class NoteCode(StrEnum):
    """What a note is about."""

    ADOPTABLE = "adoptable"
    CANNOT_FOLLOW = "cannot-follow"
    EXTRA_COLUMNS = "extra-columns"
    HAZARDOUS = "hazardous"
    HIDDEN = "hidden"
    KEPT_NAMESPACE = "kept-namespace"
    MIRRORED_BEFORE = "mirrored-before"
    MOVE_DONE = "move-done"
    MOVE_INCOMPLETE = "move-incomplete"
    RENAME_LIKELY = "rename-likely"
    SCAN = "scan"
    STALE_COLUMNS = "stale-columns"
    STAYS_MARKED = "stays-marked"
    STAYS_PROTECTED = "stays-protected"
    UNMANAGED = "unmanaged"
    UNMARKABLE = "unmarkable"
    UNPROTECTABLE = "unprotectable"
    UNSAFE = "unsafe"


class Why(NamedTuple):
    """A reason for a change, and how a person reads it."""

    code: ReasonCode
    text: str
