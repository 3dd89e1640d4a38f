"""The sentences of notes, for one object and for several."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.model.reasons import NoteCode, Params
from reconciler.planner.words.sentences import Names, Sentence


def _undecided(params: Params) -> str:
    """Return which removed tables a new one may be."""
    new = _one_of(params.get("added", ()), params.get("count", 0))
    gone = _one_of(params.get("names", ()), params.get("more", 0))
    return (
        f"{new} (new) may be {gone} (deregister) under "
        "another name. To keep the data with the name, write in the catalog's block: "
        f"moved: [{{from: {params.get('name')}, to: {params.get('other')}}}]"
    )


def _one_of(names: tuple[str, ...], count: int) -> str:
    more = f" and {count - len(names):,} more" if count > len(names) else ""
    return "".join(names) if count == 1 else f"one of {Names(names)}{more}"


NOTES: Mapping[NoteCode, Sentence | tuple[Sentence, Sentence]] = {
    NoteCode.UNMANAGED: (
        "{count:table} in {where} {count:is|are} not managed by {owner}; `lancens import --catalog {catalog}` shows "
        "{count:it|them}."
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
    NoteCode.EXTRA_COLUMNS: (
        "{where}/{name} has columns that its block does not name, and keeps them: {columns:code}.",
        (
            "{count:table} in {where} have columns that their blocks do not name, and keep them; {name} has "
            "{columns:code}."
        ),
    ),
    NoteCode.STALE_COLUMNS: (
        "the entry of {where}/{name} shows other columns than its data, and cannot be changed here: {differences}.",
        (
            "the entries of {count:table} in {where} show other columns than their data, and cannot be changed here; "
            "in {name}: {differences}."
        ),
    ),
    NoteCode.CANNOT_FOLLOW: (
        "{where}/{name} differs from what it mirrors ({names}) and stays so: this catalog cannot change an entry.",
        (
            "{count:table} in {where} differ from what they mirror and stay so ({name}: {names}): "
            "this catalog cannot change an entry."
        ),
    ),
    NoteCode.MIRRORED_BEFORE: (
        (
            "{where}/{name} was mirrored from {mirror}, and stays now that no `mirror` asks for it; "
            "`lancens import --append` writes its block, one with `absent: true` removes it."
        ),
        (
            "{count:table} in {where} were mirrored from {mirror}, and stay now that no `mirror` asks for them; "
            "`lancens import --append` writes their blocks, one with `absent: true` removes a table."
        ),
    ),
    NoteCode.HIDDEN: (
        (
            "{where}/{name} has properties whose values the service does not show, so that a new one is not seen: "
            "{names:code}."
        ),
        (
            "{count:table} in {where} have properties whose values the service does not show, so that a new one is "
            "not seen; {name} has {names:code}."
        ),
    ),
    NoteCode.UNMARKABLE: (
        "{count:object} in {where} {count:is as its block says|are as their blocks say}, but this catalog cannot mark "
        "{count:it now; it is|them now; they are} never pruned."
    ),
    NoteCode.UNPROTECTABLE: (
        "{count:object} in {where} {count:is|are} protected only while {count:its block says|their blocks say} so: "
        "this catalog cannot mark {count:it|them} now."
    ),
    NoteCode.STAYS_PROTECTED: (
        "{count:object} in {where} {count:stays|stay} protected: this catalog cannot take the {count:mark|marks} away."
    ),
    NoteCode.STAYS_MARKED: (
        "{count:object} in {where} {count:keeps|keep} the marks {count:it has|they have}: this catalog cannot renew "
        "them."
    ),
    NoteCode.KEPT_NAMESPACE: [
        "{where} is kept: it holds {count:object} that {count:stays|stay}",
        ", among them {names:code}",
    ],
    NoteCode.KEPT_NAMESPACES: "{count:,} namespaces are kept, as each holds what stays: {names} and {more:,} more",
    NoteCode.MOVE_DONE: (
        "{name} is {other} already; its line in `moved` can go ({line}).",
        "{count:,} lines of `moved` can go, what they name has its new name: {names}.",
    ),
    NoteCode.MOVE_LEAVES_NAMESPACE: (
        "{name} stays when its tables have moved: this manifest neither made nor adopted it."
    ),
    NoteCode.MOVE_LEAVES_PROPERTIES: (
        "{other} is there already and does not get properties of {name}: {names:code}. "
        "Write those it is to have in its block."
    ),
    NoteCode.RENAMES_LIKELY: "{count:,} more {count:pair|pairs} of changes look like renames.",
    NoteCode.RENAME_LIKELY: (
        "{other} ({other_does}) and {name} ({does}) look like a rename. To keep the data with the name, write in the "
        "catalog's block: moved: [{{from: {name}, to: {other}}}]"
    ),
    NoteCode.RENAME_UNDECIDED: _undecided,
    NoteCode.SCAN: "{detail}",
    NoteCode.UNPROTECTABLE_TABLES: (
        "`protect` holds only while it is written for {count} of the tables: this catalog keeps no marks."
    ),
}
