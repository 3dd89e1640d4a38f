"""The codes of a plan's reasons and notes, and the parameters of their sentences.

Programs decide by these alone; ``planner.words`` writes the sentences for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from typing_extensions import TypedDict


class ReasonCode(StrEnum):
    """Why an object is changed, kept instead of removed, or blocked."""

    # changed
    ABSENT = "absent"
    ADOPTED = "adopted"
    CATALOG_CLEANUP = "catalog-cleanup"
    CLONED = "cloned"
    CLONE_ENDED = "clone-ended"
    CLONE_FOLLOWS = "clone-follows"
    COLUMNS = "columns"
    DATA_FOUND = "data-found"
    DATA_RECREATED = "data-recreated"
    DIFFERS = "differs"
    IN_MANIFEST = "in-manifest"
    LEFTOVER = "leftover"
    LOCATION_NOTED = "location-noted"
    LOCATION_NOTE_STALE = "location-note-stale"
    MARKS = "marks"
    MIRRORED = "mirrored"
    MIRROR_ENDED = "mirror-ended"
    MOVED = "moved"
    MOVED_AWAY = "moved-away"
    MOVE_RESUMED = "move-resumed"
    NAMESPACE_MOVED = "namespace-moved"
    NEW_UNPROBED = "new-unprobed"
    NEW_WITHOUT_DATA = "new-without-data"
    NOT_IN_MANIFEST = "not-in-manifest"
    NO_DATA = "no-data"
    NO_LONGER_IN_MANIFEST = "no-longer-in-manifest"
    POLICY = "policy"
    POLICY_ENDED = "policy-ended"
    RELEASED = "released"
    RELOCATED = "relocated"
    SAFEGUARD = "safeguard"
    SHOWN_COLUMNS = "shown-columns"
    SOURCE_WRITES_DATA = "source-writes-data"
    TAGS = "tags"
    TAKEN_OVER = "taken-over"
    INDEX_MISSING = "index-missing"
    INDEX_STALE = "index-stale"
    INDEX_STALE_LATER = "index-stale-later"
    SMALL_FRAGMENTS = "small-fragments"
    SMALL_FRAGMENTS_LATER = "small-fragments-later"

    # kept
    PROTECTED_FROM_RELEASE = "protected-from-release"

    # blocked
    BAD_DEPTH = "bad-depth"
    BAD_LOCATION = "bad-location"
    BAD_NAME = "bad-name"
    BAD_PROPERTY = "bad-property"
    BASE_OUTSIDE = "base-outside"
    BASE_UNAVAILABLE = "base-unavailable"
    BOTH_NAMES_THERE = "both-names-there"
    CANNOT_ALTER = "cannot-alter"
    CANNOT_ALTER_NAMESPACE = "cannot-alter-namespace"
    CANNOT_COMMIT = "cannot-commit"
    CANNOT_RELOCATE = "cannot-relocate"
    CANNOT_RENAME = "cannot-rename"
    CANNOT_TAG = "cannot-tag"
    CATALOG_TOO_NEW = "catalog-too-new"
    CLEANUP_DUE = "cleanup-due"
    CLONE_CANNOT_PLACE = "clone-cannot-place"
    CLONE_WRITTEN = "clone-written"
    COPIES_ELSEWHERE = "copies-elsewhere"
    CREDENTIALS_NOT_VENDED = "credentials-not-vended"
    DATA_DAMAGED = "data-damaged"
    DATA_ELSEWHERE = "data-elsewhere"
    DATA_LOST = "data-lost"
    DEFAULT_LOCATION_TAKEN = "default-location-taken"
    DROPPED_OUTSIDE = "dropped-outside"
    ENTRY_DAMAGED = "entry-damaged"
    FOREIGN_OWNER = "foreign-owner"
    FOREIGN_POLICY = "foreign-policy"
    HIDES_TABLE = "hides-table"
    KEEPS_NO_PROPERTIES = "keeps-no-properties"
    KEPT_UNDER_ANOTHER_NAME = "kept-under-another-name"
    KIND_CHANGED = "kind-changed"
    KIND_HOLDS_NO_NAMESPACES = "kind-holds-no-namespaces"
    KIND_HOLDS_NO_TABLES = "kind-holds-no-tables"
    KIND_NOT_CREATABLE = "kind-not-creatable"
    KIND_NOT_NESTABLE = "kind-not-nestable"
    LOCATION_AWAITED = "location-awaited"
    LOCATION_CHOSEN = "location-chosen"
    LOCATION_SHARED = "location-shared"
    LOCATION_TAKEN = "location-taken"
    MADE_OUTSIDE = "made-outside"
    MAKES_NO_TABLES = "makes-no-tables"
    MANIFEST_ID_DIFFERS = "manifest-id-differs"
    MIRROR_CANNOT_PLACE = "mirror-cannot-place"
    MOVED_AND_RELOCATED = "moved-and-relocated"
    MOVE_HALF_EXCLUDED = "move-half-excluded"
    NAMED_BY_DIRECTORY = "named-by-directory"
    NAMESPACE_DISABLED = "namespace-disabled"
    NAME_HELD = "name-held"
    NAME_MOVED_AWAY = "name-moved-away"
    NAME_OF_NAMESPACE = "name-of-namespace"
    NAME_OF_TABLE = "name-of-table"
    NAME_TAKEN = "name-taken"
    NAME_TAKEN_UNTIL_MOVED = "name-taken-until-moved"
    NOT_LANCE = "not-lance"
    NOT_THIS_CLONE = "not-this-clone"
    NO_DATA_TO_RELOCATE_TO = "no-data-to-relocate-to"
    NO_DEFAULT_LOCATION = "no-default-location"
    NOT_INDEXABLE = "not-indexable"
    OLD_INDEX = "old-index"
    OPTIONS_DIFFER = "options-differ"
    OTHER_COLUMNS = "other-columns"
    OTHER_INDEX = "other-index"
    OUT_OF_SCOPE = "out-of-scope"
    PROTECTED = "protected"
    RELOCATED_AND_ALTERED = "relocated-and-altered"
    SERVICE_COMMITS = "service-commits"
    SERVICE_KEEPS_VERSIONS = "service-keeps-versions"
    SERVICE_KEEPS_TAGS = "service-keeps-tags"
    SERVICE_MAKES_DATA = "service-makes-data"
    SEVERAL_SOURCES = "several-sources"
    SOURCE_BLOCKED = "source-blocked"
    SOURCE_CHANGES = "source-changes"
    SOURCE_NOT_READY = "source-not-ready"
    STORAGE_DENIED = "storage-denied"
    STORAGE_UNREADABLE = "storage-unreadable"
    TAG_TAKEN = "tag-taken"
    TAG_WITHOUT_VERSION = "tag-without-version"
    UNBOUND_COMMIT = "unbound-commit"
    UNREFERENCED_DATA = "unreferenced-data"


class NoteCode(StrEnum):
    """The subject of a note."""

    ADOPTABLE = "adoptable"
    CANNOT_FOLLOW = "cannot-follow"
    CLEANABLE = "cleanable"
    COLUMNS_RENAMED = "columns-renamed"
    DATA_UNRECORDED = "data-unrecorded"
    EXTRA_COLUMNS = "extra-columns"
    HAZARDOUS = "hazardous"
    HIDDEN = "hidden"
    JOBS_LEFT = "jobs-left"
    JOBS_TOO_LARGE = "jobs-too-large"
    KEEP_LOCATION = "keep-location"
    KEPT_NAMESPACE = "kept-namespace"
    KEPT_NAMESPACES = "kept-namespaces"
    KEPT_RENAME_LIKELY = "kept-rename-likely"
    MIRRORED_BEFORE = "mirrored-before"
    MOVE_DONE = "move-done"
    MOVE_LEAVES_NAMESPACE = "move-leaves-namespace"
    MOVE_LEAVES_PROPERTIES = "move-leaves-properties"
    MOVE_MATCHES_NOTHING = "move-matches-nothing"
    POLICY_NOT_APPLIED = "policy-not-applied"
    POLICY_NOT_KEPT = "policy-not-kept"
    PROTECTED_RENAME_LIKELY = "protected-rename-likely"
    READS_ELSEWHERE = "reads-elsewhere"
    RENAMES_LIKELY = "renames-likely"
    RENAME_LIKELY = "rename-likely"
    RENAME_UNDECIDED = "rename-undecided"
    SCAN = "scan"
    STALE_COLUMNS = "stale-columns"
    STAYS_MARKED = "stays-marked"
    STAYS_PROTECTED = "stays-protected"
    TOO_FEW_ROWS = "too-few-rows"
    UNMANAGED = "unmanaged"
    UNMARKABLE = "unmarkable"
    UNPROTECTABLE = "unprotectable"
    UNPROTECTABLE_TABLES = "unprotectable-tables"
    UNREADABLE_COLUMNS = "unreadable-columns"
    UNSAFE = "unsafe"


class Params(TypedDict, total=False):
    """The parameters of the sentence of a reason or a note. Names of objects are as people write them: ``a/b``.

    ``location`` and ``other_location`` are locations without secrets. ``code`` and ``rename_code`` are Python to run,
    ``detail`` is a message of another module or a service; these may contain locations. ``write`` is YAML for the
    manifest, ``leave_out`` the block that excludes a table from one, ``lines`` are lines for a block's schema, ``file``
    is the manifest's first file.

    Of the columns, pylance cannot change those in ``impossible``, the calls in ``code`` rewrite the data of those in
    ``rewritten``, and those in ``unclear`` may have been renamed already. ``renames`` has their new names by old ones.
    """

    location: str
    other_location: str
    code: str
    rename_code: str
    detail: str
    catalog: str
    name: str
    other: str
    names: tuple[str, ...]
    count: int
    more: int
    limit: int
    owner: str
    manifest: str
    file: str
    mirror: str
    line: str
    where: str
    key: str
    value: str
    version: int
    tag: str
    kind: str
    other_kind: str
    does: str
    other_does: str
    lost: str
    write: str
    leave_out: str
    lines: tuple[str, ...]
    differences: tuple[str, ...]
    columns: tuple[str, ...]
    added: tuple[str, ...]
    renamed: tuple[str, ...]
    relaxed: tuple[str, ...]
    annotated: tuple[str, ...]
    tagged: tuple[str, ...]
    untagged: tuple[str, ...]
    unclear: tuple[str, ...]
    rewritten: tuple[str, ...]
    extra: tuple[str, ...]
    impossible: tuple[str, ...]
    fills: bool
    evolves: bool
    renames: Mapping[str, str]


PARAMS_WITH_LOCATIONS = ("location", "other_location", "code", "detail", "names", "rename_code")
"""The parameters that may contain locations."""


NO_PARAMS: Params = {}


class Why(NamedTuple):
    """Why an object is changed, kept or blocked; ``kept_as`` is the name that the service would keep it under."""

    code: ReasonCode
    params: Params = NO_PARAMS
    kept_as: tuple[str, ...] | None = None
