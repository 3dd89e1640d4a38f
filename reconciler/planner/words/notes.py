"""What notes say: of one object and of several, where both are said."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.model.reasons import NoteCode, Params
from reconciler.planner.words.sentences import Names, Sentence


def _undecided(params: Params) -> str:
    """Return which of the tables that go a new one may be; nobody can tell."""
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
        "1 table in {where} is not managed by {owner}; `lancens import --catalog {catalog}` shows it.",
        "{count:,} tables in {where} are not managed by {owner}; `lancens import --catalog {catalog}` shows them.",
    ),
    NoteCode.ADOPTABLE: (
        "1 object in {where} equals its block but is not marked as managed; `lancens apply --adopt` marks it.",
        (
            "{count:,} objects in {where} equal their blocks but are not marked as managed; "
            "`lancens apply --adopt` marks them."
        ),
    ),
    NoteCode.UNSAFE: (
        "1 table in {where} lacks `{key}={value}`, and this plan does not set it: {detail}.",
        "{count:,} tables in {where} lack `{key}={value}`, and this plan does not set it: {detail}.",
    ),
    NoteCode.HAZARDOUS: (
        "1 table in {where} has `{key}=true`, and this plan does not change it: {detail}.",
        "{count:,} tables in {where} have `{key}=true`, and this plan does not change it: {detail}.",
    ),
    NoteCode.EXTRA_COLUMNS: (
        "{where}/{name} has columns that its block does not name, and keeps them: {columns:code}.",
        (
            "{count:,} tables in {where} have columns that their blocks do not name, and keep them; {name} has "
            "{columns:code}."
        ),
    ),
    NoteCode.STALE_COLUMNS: (
        "the entry of {where}/{name} shows other columns than its data, and cannot be changed here: {differences}.",
        (
            "the entries of {count:,} tables in {where} show other columns than their data, and cannot be changed "
            "here; in {name}: {differences}."
        ),
    ),
    NoteCode.CANNOT_FOLLOW: (
        "{where}/{name} differs from what it mirrors ({names}) and stays so: this catalog cannot change an entry.",
        (
            "{count:,} tables in {where} differ from what they mirror and stay so ({name}: {names}): "
            "this catalog cannot change an entry."
        ),
    ),
    NoteCode.MIRRORED_BEFORE: (
        (
            "{where}/{name} was mirrored from {mirror}, and stays now that no `mirror` asks for it; "
            "`lancens import --append` writes its block, one with `absent: true` removes it."
        ),
        (
            "{count:,} tables in {where} were mirrored from {mirror}, and stay now that no `mirror` asks for them; "
            "`lancens import --append` writes their blocks, one with `absent: true` removes a table."
        ),
    ),
    NoteCode.HIDDEN: (
        (
            "{where}/{name} has properties whose values the service does not show, so that a new one is not seen: "
            "{names:code}."
        ),
        (
            "{count:,} tables in {where} have properties whose values the service does not show, so that a new one is "
            "not seen; {name} has {names:code}."
        ),
    ),
    NoteCode.UNMARKABLE: (
        "1 object in {where} is as its block says, but this catalog cannot mark it now; it is never pruned.",
        (
            "{count:,} objects in {where} are as their blocks say, but this catalog cannot mark them now; "
            "they are never pruned."
        ),
    ),
    NoteCode.UNPROTECTABLE: (
        "1 object in {where} is protected only while its block says so: this catalog cannot mark it now.",
        "{count:,} objects in {where} are protected only while their blocks say so: this catalog cannot mark them now.",
    ),
    NoteCode.STAYS_PROTECTED: (
        "1 object in {where} stays protected: this catalog cannot take the mark away.",
        "{count:,} objects in {where} stay protected: this catalog cannot take the marks away.",
    ),
    NoteCode.STAYS_MARKED: (
        "1 object in {where} keeps the marks it has: this catalog cannot renew them.",
        "{count:,} objects in {where} keep the marks they have: this catalog cannot renew them.",
    ),
    NoteCode.KEPT_NAMESPACE: (
        ["{where} is kept: it holds 1 object that stays", ", among them {names:code}"],
        ["{where} is kept: it holds {count} objects that stay", ", among them {names:code}"],
    ),
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
    NoteCode.RENAMES_LIKELY: (
        "1 more pair of changes look like renames.",
        "{count:,} more pairs of changes look like renames.",
    ),
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
