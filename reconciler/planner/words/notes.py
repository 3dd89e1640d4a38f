"""The sentences of notes: one for any number of objects, or a pair for one object and for several."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.model.reasons import NoteCode, Params
from reconciler.planner.words.sentences import Names, Sentence


def _undecided_rename(params: Params) -> str:
    """Return the note on new and removed tables that may be the same, with the `moved` entry to write."""
    new = _one_of(params.get("added", ()), params.get("count", 0))
    gone = _one_of(params.get("names", ()), params.get("more", 0))
    return (
        f"{new} (new) may be {gone} (no longer in the manifest) under "
        "another name. To keep the data under its new name, write in the catalog's block: "
        f"{params.get('write')}"
    )


def _one_of(names: tuple[str, ...], count: int) -> str:
    """Return the only name, or ``one of`` and the first of ``count`` names."""
    more = f" and {count - len(names):,} more" if count > len(names) else ""
    return "".join(names) if count == 1 else f"one of {Names(names)}{more}"


_IN_EVERY = ((" once this holds in every {kind}", ""), ".")


NOTES: Mapping[NoteCode, Sentence | tuple[Sentence, Sentence]] = {
    NoteCode.UNMANAGED: (
        "{count:table} in {where} {count:is|are} not managed by {owner}; `lancens list --unmanaged "
        "'{value}'` shows {count:it|them}."
    ),
    NoteCode.ADOPTABLE: (
        "{count:object} in {where} {count:equals its block|equal their blocks} but {count:is|are} not marked as "
        "managed; `lancens apply --adopt` marks {count:it|them}."
    ),
    NoteCode.UNSAFE: (
        "{count:table} in {where} {count:lacks|lack} `{key}={value}`, and this plan does not set it: {detail}."
    ),
    NoteCode.HAZARDOUS: (
        "{count:table} in {where} {count:has|have} `{key}=true`, and this plan does not change it: {detail}."
    ),
    NoteCode.DATA_UNRECORDED: (
        "{count:table} in {where} {count:gets|get} an empty dataset; no entry records whether data was there before, "
        "so lost data looks the same."
    ),
    NoteCode.READS_ELSEWHERE: (
        "the data of {where}/{name} refers to places outside its directory: {names}.",
        "the data of {count:table} in {where} refers to places outside its directory; that of {name} to {names}.",
    ),
    NoteCode.EXTRA_COLUMNS: (
        "{where}/{name} has columns that its block does not name, and keeps them: {columns:code}.",
        (
            "{count:table} in {where} have columns that their blocks do not name, and keep them; {name} has "
            "{columns:code}."
        ),
    ),
    NoteCode.UNREADABLE_COLUMNS: (
        "{where}/{name} has columns with names that pylance 14 cannot read back: {columns:code}.",
        "{count:table} in {where} have columns with names that pylance 14 cannot read back; {name} has {columns:code}.",
    ),
    NoteCode.COLUMNS_RENAMED: (
        "{where}/{name} has renamed columns already; remove their `renamed_from`: {columns:code}.",
        "{count:table} in {where} have renamed columns already; remove their `renamed_from`: {columns:code} in {name}.",
    ),
    NoteCode.STALE_COLUMNS: (
        "the entry of {where}/{name} shows other columns than its data, and cannot be changed here: {differences}.",
        (
            "the entries of {count:table} in {where} show other columns than their data, and cannot be changed here; "
            "in {name}: {differences}."
        ),
    ),
    NoteCode.CANNOT_FOLLOW: (
        "{where}/{name} differs from what it mirrors ({names}): this catalog cannot change entries.",
        (
            "{count:table} in {where} differ from what they mirror ({name}: {names}): "
            "this catalog cannot change entries."
        ),
    ),
    NoteCode.POLICY_NOT_APPLIED: (
        "{count:table} in {where} {count:matches|match} a policy and {count:stays as it is|stay as they are}: "
        "{owner} manages {count:it|them}."
    ),
    NoteCode.POLICY_NOT_KEPT: (
        "{count:table} in {where} {count:differs from its|differ from their} policies ({name}: {names:code}): "
        "this catalog cannot change entries."
    ),
    NoteCode.MIRRORED_BEFORE: (
        (
            "{where}/{name} was mirrored from {mirror}; no `mirror` names it any more, and its entry stays. "
            "`lancens import --append {file} --select '{value}'` writes its block; `absent: true` removes it."
        ),
        (
            "{count:table} in {where} were mirrored from {mirror}; no `mirror` names them any more, and their entries "
            "stay. `lancens import --append {file} --select '{value}'` writes their blocks; `absent: true` "
            "removes a table."
        ),
    ),
    NoteCode.HIDDEN: (
        (
            "{where}/{name} has properties whose values the service does not show, so changes to them go unnoticed: "
            "{names:code}."
        ),
        (
            "{count:table} in {where} have properties whose values the service does not show, so changes to them go "
            "unnoticed; {name} has {names:code}."
        ),
    ),
    NoteCode.KEEP_LOCATION: (
        (
            "{where}/{name} has moved, and its data stays at {location}. Keep `location: {location}` in its block, so "
            "that the manifest finds the data if the entry is lost; `lancens import --append {file} "
            "--select '{value}'` writes it."
        ),
        (
            "{count:table} in {where} have moved, and their data stays where it was. Keep `location:` in their blocks, "
            "so that the manifest finds the data if the entries are lost; `lancens import --append {file} "
            "--select '{value}'` writes it."
        ),
    ),
    NoteCode.UNMARKABLE: (
        "{count:object} in {where} {count:matches its block|match their blocks}, but this catalog cannot mark "
        "{count:it now, so it is|them now, so they are} never pruned."
    ),
    NoteCode.UNPROTECTABLE: (
        "{count:object} in {where} {count:is|are} protected only while {count:its block says|their blocks say} so: "
        "this catalog cannot mark {count:it|them} now."
    ),
    NoteCode.STAYS_PROTECTED: (
        "{count:object} in {where} {count:stays|stay} protected: this catalog cannot remove the {count:mark|marks}."
    ),
    NoteCode.STAYS_MARKED: (
        "{count:object} in {where} {count:keeps its|keep their} old marks: this catalog cannot update them."
    ),
    NoteCode.KEPT_NAMESPACE: [
        "{where} is kept: it holds {count:object} that {count:stays|stay}",
        ", {count:namely|among them} {names:code}",
    ],
    NoteCode.KEPT_NAMESPACES: (
        "{count:,} namespaces are kept, because each holds objects that stay: {names} and {more:,} more"
    ),
    NoteCode.MOVE_DONE: (
        ["{name} is already renamed to {other}; remove its line from `moved` ({line})", *_IN_EVERY],
        ["{count:,} lines of `moved` are done and can be removed ({names})", *_IN_EVERY],
    ),
    NoteCode.MOVE_LEAVES_NAMESPACE: (
        "{name} stays after its tables have moved: this manifest neither created nor adopted it."
    ),
    NoteCode.MOVE_LEAVES_PROPERTIES: (
        "{other} already exists and does not get these properties of {name}: {names:code}. "
        "Write those that it should have in its block."
    ),
    NoteCode.MOVE_MATCHES_NOTHING: (
        "The line of `moved` at {line} matches nothing: there is neither {name} nor {other}. Correct or remove it.",
        "{count:,} lines of `moved` match nothing under either name. Correct or remove them: {names}.",
    ),
    NoteCode.RENAMES_LIKELY: "{count:,} more {count:pair|pairs} of changes look like renames.",
    NoteCode.RENAME_LIKELY: (
        "{other} ({other_does}) and {name} ({does}) look like a rename. To keep the data under its new name, "
        "write in the catalog's block: {write}"
    ),
    NoteCode.KEPT_RENAME_LIKELY: (
        "{other} ({other_does}) and {name}, which has no block and stays, look like a rename. To keep the data under "
        "its new name, write in the catalog's block: {write}"
    ),
    NoteCode.PROTECTED_RENAME_LIKELY: (
        "{other} ({other_does}) and {name}, which is protected and stays, look like a rename. To keep the data under "
        "its new name, write `protect: false` in the block of {other}, and in the catalog's block: {write}"
    ),
    NoteCode.RENAME_UNDECIDED: _undecided_rename,
    NoteCode.SCAN: "{detail}",
    NoteCode.CLEANABLE: (
        "{name}: old versions hold {detail}, by the dry run of `explain_cleanup_old_versions()`. lancens never removes "
        "them; this does, once the versions that shallow clones were made of are tagged: `{code}`"
    ),
    NoteCode.JOBS_LEFT: "{count:job} beyond {detail} {count:is|are} left for a later run, the first of {name}.",
    NoteCode.JOBS_TOO_LARGE: (
        "{count:job} {count:is|are} larger than {detail}, or of unknown size, the first of {name}: raise or leave out "
        "`--max-bytes`, or no run takes {count:it|them}."
    ),
    NoteCode.TOO_FEW_ROWS: "{name}: the index {kind} waits until {limit:,} rows have values; there are {count:,}.",
    NoteCode.UNPROTECTABLE_TABLES: (
        "`protect` holds only while it is written for {count} of the tables: this catalog keeps no marks."
    ),
}
