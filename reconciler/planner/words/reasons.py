"""The reasons why objects are changed, kept or blocked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from reconciler.model.figures import UNKNOWN
from reconciler.model.reasons import Params, ReasonCode
from reconciler.planner.words.sentences import Sentence, fill_in, rename_hint

_COLUMN_VERBS = {"added": "add", "renamed": "rename", "relaxed": "make nullable", "annotated": "annotate"}


_CLONE: Sentence = [
    "clone of {name}",
    " at {version}",
    " (tag {tag})",
    (", {count:row}", f", {UNKNOWN} rows"),
    ", {kind}",
]


_NEW_CLONE: Sentence = [
    "new clone of {name} at {version}",
    " (tag {tag})",
    " instead of {value}",
    (", {count:row}", f", {UNKNOWN} rows"),
    ", {kind}",
    "; {more:version} written since {more:stays|stay} with the old one",
]


def _clone(sentence: Sentence, params: Params) -> str:
    """Return what a table is a clone of, and the sorts of changes to the columns of the clone."""
    changes = f"; {_columns_to_change(params)}" if _COLUMN_VERBS.keys() & params.keys() else ""
    return f"{fill_in(sentence, params)}{changes}"


def _column_changes(params: Params) -> str:
    """Return the sorts of column changes in a plan: ``metadata only: columns to add and to rename``."""
    return f"metadata only: {_columns_to_change(params)}{rename_hint(params)}"


def _columns_to_change(params: Params) -> str:
    verbs = [f"to {verb}" for key, verb in _COLUMN_VERBS.items() if key in params] or ["to change"]
    joined = " and ".join(filter(None, (", ".join(verbs[:-1]), verbs[-1])))
    return f"columns {joined}"


def _tag_changes(params: Params) -> str:
    """Return the sorts of tag changes in a plan: ``tags to set and to remove``."""
    verbs = [verb for key, verb in (("tagged", "to set"), ("untagged", "to remove")) if key in params]
    return f"tags {' and '.join(verbs) or 'to adopt'}"


def _other_columns(params: Params) -> str:
    """Return how the columns of the data differ from the block."""
    differences = "; ".join(params.get("differences", ()))
    return f"the data at {params.get('location')} has other columns than its block: {differences}"


_CATALOG_CHOOSES = "this catalog chooses the location of every table itself"
_SERVICE_VERSIONS = "the service manages its versions (`managed_versioning`), so lancens must not"
_CANNOT_RENAME = "{name} cannot be renamed: that takes a new entry"

REASONS: Mapping[ReasonCode, Sentence] = {
    ReasonCode.ABSENT: "absent: true",
    ReasonCode.ADOPTED: "adopted",
    ReasonCode.CATALOG_CLEANUP: (
        "its commits would delete its old versions, which lancens never triggers; this ends that and deletes none"
    ),
    ReasonCode.CLONED: partial(_clone, _CLONE),
    ReasonCode.CLONE_ENDED: "a clone of {name}, which is not cloned any more",
    ReasonCode.CLONE_FOLLOWS: partial(_clone, _NEW_CLONE),
    ReasonCode.COLUMNS: _column_changes,
    ReasonCode.DATA_FOUND: "data found at its location",
    ReasonCode.DATA_RECREATED: "its data is lost; an empty dataset is made",
    ReasonCode.DIFFERS: [("differs from {mirror}", "differs from the manifest")],
    ReasonCode.IN_MANIFEST: "in the manifest",
    ReasonCode.LEFTOVER: "left by an interrupted run of lancens; no data is affected",
    ReasonCode.LOCATION_NOTED: "the service chose another location than the requested one, which is not recorded yet",
    ReasonCode.LOCATION_NOTE_STALE: "the recorded requested location is out of date",
    ReasonCode.MARKS: "marks to renew",
    ReasonCode.MIRRORED: "mirrors {mirror}",
    ReasonCode.MIRROR_ENDED: "mirrored, no longer in {mirror}",
    ReasonCode.MOVED: ["was {name}", "; re-created, which loses {lost}"],
    ReasonCode.MOVED_AWAY: "now {name}",
    ReasonCode.MOVE_RESUMED: "was {name}; an interrupted run left both names",
    ReasonCode.NAMESPACE_MOVED: [
        ("mirrors {mirror}", "in the manifest"),
        ", was {name}",
        "; re-created without {lost}",
    ],
    ReasonCode.NEW_UNPROBED: "in the manifest, storage not opened",
    ReasonCode.NEW_WITHOUT_DATA: "in the manifest, no data yet",
    ReasonCode.NOT_IN_MANIFEST: "not in the manifest, prune: all",
    ReasonCode.NO_DATA: "in the catalog, no data at its location",
    ReasonCode.NO_LONGER_IN_MANIFEST: "owned, no longer in the manifest",
    ReasonCode.INDEX_MISSING: "{name} {kind}",
    ReasonCode.INDEX_STALE: "{name} {kind}: {count:row} not in it (limit {limit:,})",
    ReasonCode.INDEX_STALE_LATER: "{name} {kind}: {count:row} not in it after earlier jobs (limit {limit:,})",
    ReasonCode.SMALL_FRAGMENTS: "{count:,} small fragments of {more:,} (limit {limit:,})",
    ReasonCode.SMALL_FRAGMENTS_LATER: "{count:,} small fragments of {more:,} after earlier jobs (limit {limit:,})",
    ReasonCode.PROTECTED_FROM_RELEASE: "protected: --protected releases it too",
    ReasonCode.POLICY: "policy {names:code}",
    ReasonCode.POLICY_ENDED: "no policy sets its properties any more",
    ReasonCode.RELEASED: "released: no manifest manages it any more",
    ReasonCode.RELOCATED: "registered elsewhere",
    ReasonCode.SAFEGUARD: "{detail}",
    ReasonCode.SHOWN_COLUMNS: "its entry shows columns that differ from the data",
    ReasonCode.SOURCE_WRITES_DATA: "its data is written when {name} is created",
    ReasonCode.TAGS: _tag_changes,
    ReasonCode.TAKEN_OVER: "taken over",
    ReasonCode.BAD_DEPTH: "it would be a table {detail}",
    ReasonCode.BAD_LOCATION: [
        ("the location of {name} cannot be written here: {detail}", "{location}: {detail}"),
    ],
    ReasonCode.BAD_NAME: "`{name}`: {detail}",
    ReasonCode.BAD_PROPERTY: "property `{key}`: {detail}",
    ReasonCode.BASE_OUTSIDE: "the data of {name}, at {location}, is not below a root of {other}",
    ReasonCode.BASE_UNAVAILABLE: "{name} cannot be cloned: {detail}",
    ReasonCode.BOTH_NAMES_THERE: "both {name} and it exist, at {location} and {other_location}",
    ReasonCode.CANNOT_ALTER: "it cannot be changed: this catalog cannot alter a table",
    ReasonCode.CANNOT_ALTER_NAMESPACE: "it cannot be changed: this catalog cannot alter a namespace",
    ReasonCode.CANNOT_COMMIT: "pylance cannot change the data at {location}: {detail}",
    ReasonCode.CANNOT_RELOCATE: "it cannot be relocated: this catalog cannot alter a table",
    ReasonCode.CANNOT_RENAME: (
        "{name} cannot be renamed: this catalog cannot rename tables, and keeps no properties to re-create one with"
    ),
    ReasonCode.CLEANUP_DUE: "{location}: {detail}",
    ReasonCode.CLONE_CANNOT_PLACE: f"{_CATALOG_CHOOSES}, but the data of a clone is written before its entry",
    ReasonCode.COPIES_ELSEWHERE: "the dataset at {location} has rows elsewhere, and the job would copy them: {detail}",
    ReasonCode.CREDENTIALS_NOT_VENDED: (
        "{location} is not accessible ({detail}); the catalog vends credentials for existing tables only"
    ),
    ReasonCode.CATALOG_TOO_NEW: "a newer pylance wrote it, with `{key}` {value}, so that nothing here can be changed",
    ReasonCode.CANNOT_TAG: "its tags cannot be set: this catalog cannot record which ones lancens set",
    ReasonCode.DATA_DAMAGED: "pylance's `validate()` fails for {location}: {detail}",
    ReasonCode.DATA_ELSEWHERE: f"the data is at {{location}}, and {_CATALOG_CHOOSES}",
    ReasonCode.DATA_LOST: "its data is lost: lancens wrote or saw it at {location}, and nothing is there now",
    ReasonCode.DEFAULT_LOCATION_TAKEN: "its default location, {location}, holds the data of {name}",
    ReasonCode.DROPPED_OUTSIDE: "this service drops it only together with what it holds, which lancens never asks for",
    ReasonCode.ENTRY_DAMAGED: "its entry is not that of a Lance table any more: {detail}",
    ReasonCode.FOREIGN_OWNER: [("{name} is", "it is"), " managed by `{owner}`, not by `{manifest}`"],
    ReasonCode.FOREIGN_POLICY: "policies of `{owner}` set {names}, which its block would change",
    ReasonCode.HIDES_TABLE: "its entry would hide {name}, a table by its directory {location} alone",
    ReasonCode.MANIFEST_ID_DIFFERS: [
        ("{name} is", "it is"),
        " marked by `{owner}`, a manifest of the same name with another `id`; this one is `{manifest}`",
    ],
    ReasonCode.KEEPS_NO_PROPERTIES: "this catalog keeps no properties of tables",
    ReasonCode.KEPT_UNDER_ANOTHER_NAME: "the service keeps `{name}` as `{other}`",
    ReasonCode.KIND_CHANGED: "it is a {kind}, not a {other_kind}; a namespace cannot change its kind",
    ReasonCode.KIND_HOLDS_NO_NAMESPACES: "it is a {kind}, which holds no namespaces",
    ReasonCode.KIND_HOLDS_NO_TABLES: "it is a {kind}, which holds no tables",
    ReasonCode.KIND_NOT_CREATABLE: "it is a {kind}, which the service neither lists nor creates with these credentials",
    ReasonCode.KIND_NOT_NESTABLE: (
        "it is a {kind} inside a {kind}, which must exist already: this service cannot create one"
    ),
    ReasonCode.LOCATION_AWAITED: "its dataset would be written at the location of {name}, which is blocked or waits",
    ReasonCode.LOCATION_CHOSEN: [
        (
            f"{_CANNOT_RENAME}, and {_CATALOG_CHOOSES}",
            f"it cannot be relocated: {_CATALOG_CHOOSES}; it is at {{location}}",
        )
    ],
    ReasonCode.LOCATION_SHARED: "it and {name} would both be at {location}, where data would be written or changed",
    ReasonCode.LOCATION_TAKEN: "its dataset would be written at the location of {name}",
    ReasonCode.MADE_OUTSIDE: "it does not exist, and lancens cannot create it",
    ReasonCode.MAKES_NO_TABLES: [f"{_CANNOT_RENAME}. ", "{detail}"],
    ReasonCode.MIRROR_CANNOT_PLACE: f"{_CATALOG_CHOOSES}, but a mirrored table must be at its source's location",
    ReasonCode.MOVED_AND_RELOCATED: ("it cannot be renamed and relocated in one plan; it is at {location}"),
    ReasonCode.MOVE_HALF_EXCLUDED: "`moved` renames {name} ({line}), and `--exclude` leaves one of the two names out",
    ReasonCode.NAMESPACE_DISABLED: "the service has disabled it, and shows nothing of what it holds",
    ReasonCode.NAMED_BY_DIRECTORY: (
        "{name} cannot be renamed: directly under the root a table is named by its directory"
    ),
    ReasonCode.NAME_HELD: "a table of another kind already has this name ({detail})",
    ReasonCode.NAME_MOVED_AWAY: "`moved` renames the object with this name ({line})",
    ReasonCode.NAME_OF_NAMESPACE: "a namespace has this name here",
    ReasonCode.NAME_OF_TABLE: "{name} is a table here",
    ReasonCode.NAME_TAKEN: "it cannot be a {kind}: a {other_kind} already has this name",
    ReasonCode.NAME_TAKEN_UNTIL_MOVED: "a namespace keeps that name until its tables have moved",
    ReasonCode.NOT_LANCE: "{location} holds files that are not a Lance dataset",
    ReasonCode.NOT_THIS_CLONE: [
        (
            "{location} holds a clone of {name} at version {version}, not at the version to clone",
            "{location} holds a dataset that is no clone of {name}",
        )
    ],
    ReasonCode.CLONE_WRITTEN: (
        "its new clone of {name} at {version} would be at {location}, which holds an earlier one that others wrote to"
    ),
    ReasonCode.NO_DATA_TO_RELOCATE_TO: "there is no dataset at {location} to relocate it to",
    ReasonCode.NO_DEFAULT_LOCATION: "the catalog has no default location for a new table",
    ReasonCode.NOT_INDEXABLE: "no index {kind} can be built on {name}: {detail}",
    ReasonCode.OPTIONS_DIFFER: (
        "its data and that of {name} would need different storage options, and readers of a clone have one set"
    ),
    ReasonCode.OTHER_COLUMNS: _other_columns,
    ReasonCode.OLD_INDEX: "pylance cannot add rows to the {kind} index on {name}, which pylance 0.20 or older wrote",
    ReasonCode.OTHER_INDEX: "the index on {name} is {detail}; its block asks for {kind}",
    ReasonCode.OUT_OF_SCOPE: "it is outside of the catalog's scope: {detail}",
    ReasonCode.PROTECTED: "{name} is protected, and a move would remove that name",
    ReasonCode.RELOCATED_AND_ALTERED: "a table cannot be relocated and its columns changed in one plan",
    ReasonCode.SERVICE_COMMITS: f"{_SERVICE_VERSIONS} commit to its storage",
    ReasonCode.SERVICE_KEEPS_VERSIONS: f"{_SERVICE_VERSIONS} add columns in storage",
    ReasonCode.SERVICE_KEEPS_TAGS: f"{_SERVICE_VERSIONS} set tags in storage",
    ReasonCode.SERVICE_MAKES_DATA: f"{_SERVICE_VERSIONS} create its dataset in storage",
    ReasonCode.SEVERAL_SOURCES: lambda params: (
        f"{' and '.join(params.get('names', ()))} would both have this name here"
    ),
    ReasonCode.SOURCE_BLOCKED: "{name} is blocked",
    ReasonCode.SOURCE_CHANGES: "the plan of {other} writes the data of {name} first, or removes its tag",
    ReasonCode.SOURCE_NOT_READY: "{name} gets its location only when it is created",
    ReasonCode.STORAGE_DENIED: "{location} is not accessible ({detail})",
    ReasonCode.STORAGE_UNREADABLE: "{location} cannot be opened: {detail}",
    ReasonCode.TAG_TAKEN: "its data has tags at another version, and lancens did not set them: {names:code}",
    ReasonCode.TAG_WITHOUT_VERSION: "its data lacks the version of these tags: {names:code}",
    ReasonCode.UNBOUND_COMMIT: "{location}: {detail}",
    ReasonCode.UNREFERENCED_DATA: "no entry points to the dataset at {location}, which may be its data",
}
