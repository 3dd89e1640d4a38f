"""The remedies for blocked objects."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.model.auto_cleanup import CLEANUP_REMEDY, UNBOUND_REMEDY
from reconciler.model.reasons import Params, ReasonCode
from reconciler.planner.words.sentences import Sentence, rename_hint


def _schema_remedy(params: Params) -> str:
    """Return what to write into the block, or what to run to change the data."""
    if "unclear" in params:
        return f"remove `renamed_from` of {_in_backticks(params['unclear'])} from its block"
    if "code" not in params and "impossible" not in params:
        return _block_edit(params)
    return f"{_block_edit(params)}, or {_data_edit(params)}{rename_hint(params)}"


def _block_edit(params: Params) -> str:
    """Return how to edit the block so that it has the columns of the data, or may add its own."""
    lines, surplus = _in_backticks(params.get("lines", ())), _in_backticks(params.get("added", ()))
    if "extra" in params:
        return f"write {lines or 'the columns'} in its block or `extra_columns: keep`"
    if "evolves" in params:
        steps = [f"make {_in_backticks(params['relaxed'])} nullable"] if "relaxed" in params else []
        steps += ["write `evolve: additive`"] if params["evolves"] else []
        return f"{' and '.join(steps)} in its block"
    if not surplus and not lines:
        return "write the columns that the data has in its block"
    steps = [f"remove {surplus} from its block"] if surplus else []
    steps += [f"write {lines} in {'it' if surplus else 'its block'}"] if lines else []
    return " and ".join(steps)


def _data_edit(params: Params) -> str:
    """Return the Python that gives the data the block's columns, and its cost; or that the data must be rewritten."""
    code = params.get("code")
    if "impossible" in params:
        rewrite = f"rewrite the data: pylance cannot change {_in_backticks(params['impossible'])} in place"
        return f"{rewrite}; the rest with `{code}`" if code else rewrite
    cost = f"; that rewrites {_in_backticks(params['rewritten'])}" if "rewritten" in params else ""
    return f"{'give every row a value' if params.get('fills') else 'change the data'}: `{code}`{cost}"


def _in_backticks(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


_MOVED_LINE = "the line in `moved` ({line})"
_ANOTHER_LOCATION = "write another `location:` in its block"
_ANOTHER_LOCATION_FOR_ONE = "write another `location:` in one of their blocks"
_UNPROTECT = "write `protect: false` in its block, apply, then protect it again"
_CREDENTIALS = "set credentials in `storage.*` of the catalog's `config`, or write `probe: false` in its "
_CORRECT_OPTIONS = (
    "correct its location or its options (credentials, region, endpoint) in `storage.*` of the catalog's `config`, or "
    "write `probe: false` in "
)
_THROUGH_SERVICE = "through the service, with `namespace = lance_namespace.connect(...)`: `{code}`, and plan again"
_REGISTER_AGAIN = "deregister it with `absent: true`, apply, and put the block back"
LEAVE_OUT = "leave it out with `{leave_out}` in {catalog}"
_WRITE_IN_MIRROR = ("write `{write}` in the `{kind}` of {catalog}", "write `{write}` in the `mirror` of {catalog}")
_MORE_NAMES = "write more names into `into` in the `mirror` of {catalog}"
_ADMIT_BASE = "write a `root` above it in the `config` of {other}, or pass --allow-outside"
_CORRECT_BASE = "correct `of` in its block, or apply the plan of {where} first"
_OTHER_BASE = (
    "set its tag `{tag}` with pylance's `tags.create`, or write another `at`",
    "write a `root` in the store of {location} for {catalog}",
    "write another `at`",
)
_LATER_VERSION = "move the tag `{tag}` to a later version"
_SAME_OPTIONS = "write the same `storage.*` in the `config` of both catalogs"
_APPLY_SOURCE_FIRST = "carry out the plan of {other} first (`--select '{other}/**'`), and plan again"

REMEDIES: Mapping[ReasonCode, Sentence] = {
    ReasonCode.BASE_OUTSIDE: _ADMIT_BASE,
    ReasonCode.BASE_UNAVAILABLE: [(_CORRECT_BASE, *_OTHER_BASE)],
    ReasonCode.BAD_DEPTH: [
        (*_WRITE_IN_MIRROR, "write more names into `into` in the `{kind}` of {catalog}", _MORE_NAMES)
    ],
    ReasonCode.BAD_LOCATION: _ANOTHER_LOCATION,
    ReasonCode.BAD_NAME: [_WRITE_IN_MIRROR],
    ReasonCode.BOTH_NAMES_THERE: (
        f"remove one of the two outside lancens, or remove {_MOVED_LINE} and write a block for each name"
    ),
    ReasonCode.CANNOT_ALTER: _REGISTER_AGAIN,
    ReasonCode.CANNOT_ALTER_NAMESPACE: "write the `properties` that it has in its block, or remove them",
    ReasonCode.CANNOT_COMMIT: (
        "leave the change out of its block, or write its rows into a new dataset with pylance, in a later "
        "`data_storage_version`"
    ),
    ReasonCode.CANNOT_RELOCATE: _REGISTER_AGAIN,
    ReasonCode.CANNOT_RENAME: f"remove {_MOVED_LINE}, and write the new name with the same `location:`",
    ReasonCode.CANNOT_TAG: "remove `tags` from its block, and set them with pylance's `tags.create`",
    ReasonCode.CLEANUP_DUE: CLEANUP_REMEDY,
    ReasonCode.CATALOG_TOO_NEW: "upgrade lancens, or make the changes with the pylance that wrote it",
    ReasonCode.CLONE_CANNOT_PLACE: "remove `clone` from its block",
    ReasonCode.CLONE_WRITTEN: f"{_LATER_VERSION}, or remove `follow` from its block",
    ReasonCode.COPIES_ELSEWHERE: "set `copy_elsewhere: true` in `maintain` of its block, or leave it as it is",
    ReasonCode.CREDENTIALS_NOT_VENDED: f"{_CREDENTIALS}block",
    ReasonCode.DATA_DAMAGED: (
        "copy the rows into a new dataset with pylance once you have read and checked them, or remove `maintain` from "
        "its block"
    ),
    ReasonCode.DATA_ELSEWHERE: (
        "remove `location` from its block, apply, and copy the data to the location that apply reports"
    ),
    ReasonCode.DATA_LOST: [
        "restore it, or ",
        (
            "plan with `--recreate-lost '{name}'` to make an empty dataset",
            f"clone {{other}} again: {_REGISTER_AGAIN}",
            "remove `tags` from its block",
        ),
    ],
    ReasonCode.DEFAULT_LOCATION_TAKEN: "write a `location:` of its own in its block",
    ReasonCode.DROPPED_OUTSIDE: "have the service's administrator drop it: `{code}`; or keep it with a block",
    ReasonCode.ENTRY_DAMAGED: "repair or remove the entry with the service's own tools, or leave it out with `scope`",
    ReasonCode.FOREIGN_OWNER: [
        (f"remove {_MOVED_LINE}", "leave it alone with `{key}`", "remove its block"),
        ", or claim it with --take-over",
    ],
    ReasonCode.FOREIGN_POLICY: "write these properties in its block as they are, or claim them with --take-over",
    ReasonCode.HIDES_TABLE: (
        "write another `location:` in its block, remove {name} with `absent: true`, or give {name} an entry first: a "
        "block, and `lancens apply --adopt --select '{name}'`"
    ),
    ReasonCode.MANIFEST_ID_DIFFERS: (
        "if this manifest's `id` was changed, write `id: {value}` again; if these are two manifests, give one another "
        "`name`; or claim it with --take-over"
    ),
    ReasonCode.KEEPS_NO_PROPERTIES: "remove `properties` from its block",
    ReasonCode.KEPT_UNDER_ANOTHER_NAME: [_WRITE_IN_MIRROR],
    ReasonCode.KIND_CHANGED: "write `kind: {kind}` in its block, or give the {other_kind} another name",
    ReasonCode.KIND_HOLDS_NO_NAMESPACES: "put its namespaces into a {other_kind}, under another name",
    ReasonCode.KIND_HOLDS_NO_TABLES: "put its tables into a {other_kind} inside it",
    ReasonCode.KIND_NOT_CREATABLE: (
        "allow the credentials to list and create one, or put what it holds into a {other_kind}"
    ),
    ReasonCode.KIND_NOT_NESTABLE: "create it outside lancens, or put what it holds into a {kind} higher up",
    ReasonCode.LOCATION_AWAITED: _ANOTHER_LOCATION_FOR_ONE,
    ReasonCode.LOCATION_CHOSEN: [
        (f"remove {_MOVED_LINE}, and copy the data into a new table", "remove `location` from its block")
    ],
    ReasonCode.LOCATION_SHARED: _ANOTHER_LOCATION_FOR_ONE,
    ReasonCode.LOCATION_TAKEN: _ANOTHER_LOCATION,
    ReasonCode.MADE_OUTSIDE: "have the service's administrator create it, or remove its block",
    ReasonCode.MAKES_NO_TABLES: [
        (
            f"remove {_MOVED_LINE}, and rename the table with the service's own tools",
            "remove its block, or put it into another catalog",
        )
    ],
    ReasonCode.MOVED_AND_RELOCATED: "remove `location` from its block, apply, then put it back",
    ReasonCode.NAMESPACE_DISABLED: "enable it in the service, or leave it out with `scope`",
    ReasonCode.MOVE_HALF_EXCLUDED: "exclude both names, or neither",
    ReasonCode.NAMED_BY_DIRECTORY: (
        f"remove {_MOVED_LINE}; rename the directory while nobody writes, or move the data into a namespace"
    ),
    ReasonCode.NAME_HELD: ("give its block another name, or remove that table with the tool that made it"),
    ReasonCode.NAME_MOVED_AWAY: [
        "remove that line once it has been applied",
        tuple(f", or {line}" for line in _WRITE_IN_MIRROR),
    ],
    ReasonCode.NAME_OF_NAMESPACE: [_WRITE_IN_MIRROR],
    ReasonCode.NAME_OF_TABLE: [_WRITE_IN_MIRROR],
    ReasonCode.NAME_TAKEN: "give its block another name, or remove the {other_kind} with `absent: true`",
    ReasonCode.NAME_TAKEN_UNTIL_MOVED: "move it to another name, apply, then move it to this one",
    ReasonCode.NOT_LANCE: f"{_ANOTHER_LOCATION}, or `probe: false`",
    ReasonCode.NOT_THIS_CLONE: f"{_ANOTHER_LOCATION}, or remove `clone` from it",
    ReasonCode.NO_DATA_TO_RELOCATE_TO: (
        "write the data there first, remove `location` from its block, or write `probe: false`"
    ),
    ReasonCode.NO_DEFAULT_LOCATION: "write the `location:` of the table in its block",
    ReasonCode.NOT_INDEXABLE: "correct `maintain.indices` in its block",
    ReasonCode.OLD_INDEX: "replace the index: `{code}`",
    ReasonCode.OPTIONS_DIFFER: _SAME_OPTIONS,
    ReasonCode.OTHER_COLUMNS: _schema_remedy,
    ReasonCode.OTHER_INDEX: "correct `maintain.indices` in its block, or replace the index: `{code}`",
    ReasonCode.PROTECTED: _UNPROTECT,
    ReasonCode.RELOCATED_AND_ALTERED: (
        "relocate it first: write the columns that the data has in its block, apply, then change them"
    ),
    ReasonCode.SERVICE_COMMITS: "remove `maintain` from its block, and let the service maintain it",
    ReasonCode.SERVICE_KEEPS_VERSIONS: f"add its columns {_THROUGH_SERVICE}",
    ReasonCode.SERVICE_KEEPS_TAGS: "remove `tags` from its block, and set them through the service",
    ReasonCode.SERVICE_MAKES_DATA: f"create its dataset {_THROUGH_SERVICE}",
    ReasonCode.SEVERAL_SOURCES: [_WRITE_IN_MIRROR],
    ReasonCode.SOURCE_BLOCKED: _APPLY_SOURCE_FIRST,
    ReasonCode.SOURCE_CHANGES: _APPLY_SOURCE_FIRST,
    ReasonCode.SOURCE_NOT_READY: _APPLY_SOURCE_FIRST,
    ReasonCode.STORAGE_DENIED: f"{_CREDENTIALS}block",
    ReasonCode.STORAGE_UNREADABLE: f"{_CORRECT_OPTIONS}its block",
    ReasonCode.TAG_TAKEN: "write the versions that they have in its block, or claim them with --take-over",
    ReasonCode.TAG_WITHOUT_VERSION: (
        "write versions that pylance's `versions()` lists for the dataset, or add the tags once they are there"
    ),
    ReasonCode.UNBOUND_COMMIT: UNBOUND_REMEDY,
    ReasonCode.UNREFERENCED_DATA: "write `location: {location}` in its block, or a location of its own",
}

_OF_BLOCKS_ON_CLONES = (
    ReasonCode.CANNOT_COMMIT,
    ReasonCode.CANNOT_TAG,
    ReasonCode.CLEANUP_DUE,
    ReasonCode.OTHER_COLUMNS,
    ReasonCode.TAG_TAKEN,
    ReasonCode.TAG_WITHOUT_VERSION,
    ReasonCode.UNBOUND_COMMIT,
)

# Remedies for a mirrored or cloned table; for all other codes it can only be excluded.
MIRROR_REMEDIES: Mapping[ReasonCode, Sentence] = {
    **{code: REMEDIES[code] for code in _OF_BLOCKS_ON_CLONES},
    ReasonCode.BAD_PROPERTY: f"shorten it in {{name}}, or {LEAVE_OUT}",
    ReasonCode.BASE_OUTSIDE: f"{_ADMIT_BASE}, or {LEAVE_OUT}",
    ReasonCode.BASE_UNAVAILABLE: [_OTHER_BASE, f", or {LEAVE_OUT}"],
    ReasonCode.CLONE_WRITTEN: f"{_LATER_VERSION}, or {LEAVE_OUT}",
    ReasonCode.CREDENTIALS_NOT_VENDED: f"{_CREDENTIALS}`defaults`",
    ReasonCode.NOT_THIS_CLONE: f"write another `into` or `root` for the clones of {{catalog}}, or {LEAVE_OUT}",
    ReasonCode.OPTIONS_DIFFER: f"{_SAME_OPTIONS}, or {LEAVE_OUT}",
    ReasonCode.OUT_OF_SCOPE: f"widen the `scope` of {{catalog}}, or {LEAVE_OUT}",
    ReasonCode.SERVICE_KEEPS_VERSIONS: f"add its columns {_THROUGH_SERVICE}",
    ReasonCode.SERVICE_MAKES_DATA: f"create its dataset {_THROUGH_SERVICE}",
    **dict.fromkeys(
        (ReasonCode.SOURCE_BLOCKED, ReasonCode.SOURCE_CHANGES, ReasonCode.SOURCE_NOT_READY), _APPLY_SOURCE_FIRST
    ),
    ReasonCode.STORAGE_DENIED: f"{_CREDENTIALS}`defaults`",
    ReasonCode.STORAGE_UNREADABLE: f"{_CORRECT_OPTIONS}the catalog's `defaults`",
}
