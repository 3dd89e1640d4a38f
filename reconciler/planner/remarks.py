"""Why an object is left as it is although something about it could be said: topics, and their sentences."""

from __future__ import annotations

from reconciler.model.reasons import NoteCode
from reconciler.planner.views import ObjectView

# For one object and for several; {where}, {count}, {name} and {detail} of the first one, {owner}, {catalog},
# {safeguard}, {hazard} and {danger} are filled in.
SENTENCES = {
    NoteCode.UNMANAGED: (
        "1 table in {where} is not managed by {owner}; `lancens import --catalog {catalog}` shows it.",
        "{count} tables in {where} are not managed by {owner}; `lancens import --catalog {catalog}` shows them.",
    ),
    NoteCode.ADOPTABLE: (
        "1 object in {where} equals its block but is not marked as managed; `lancens apply --adopt` marks it.",
        (
            "{count} objects in {where} equal their blocks but are not marked as managed; "
            "`lancens apply --adopt` marks them."
        ),
    ),
    NoteCode.UNSAFE: (
        "1 table in {where} lacks `{safeguard}`, and this plan does not set it: {danger}.",
        "{count} tables in {where} lack `{safeguard}`, and this plan does not set it: {danger}.",
    ),
    NoteCode.HAZARDOUS: (
        "1 table in {where} has `{hazard}`, and this plan does not change it: {danger}.",
        "{count} tables in {where} have `{hazard}`, and this plan does not change it: {danger}.",
    ),
    NoteCode.EXTRA_COLUMNS: (
        "{where}/{name} has columns that its block does not name, and keeps them: {detail}.",
        "{count} tables in {where} have columns that their blocks do not name, and keep them; {name} has {detail}.",
    ),
    NoteCode.STALE_COLUMNS: (
        "the entry of {where}/{name} shows other columns than its data, and cannot be changed here: {detail}.",
        (
            "the entries of {count} tables in {where} show other columns than their data, and cannot be changed here; "
            "in {name}: {detail}."
        ),
    ),
    NoteCode.CANNOT_FOLLOW: (
        "{where}/{name} differs from what it mirrors ({detail}) and stays so: this catalog cannot change an entry.",
        (
            "{count} tables in {where} differ from what they mirror and stay so ({name}: {detail}): "
            "this catalog cannot change an entry."
        ),
    ),
    NoteCode.MIRRORED_BEFORE: (
        (
            "{where}/{name} was mirrored from {detail}, and stays now that no `mirror` asks for it; "
            "`lancens import --append` writes its block, one with `absent: true` removes it."
        ),
        (
            "{count} tables in {where} were mirrored from {detail}, and stay now that no `mirror` asks for them; "
            "`lancens import --append` writes their blocks, one with `absent: true` removes a table."
        ),
    ),
    NoteCode.HIDDEN: (
        (
            "{where}/{name} has properties whose values the service does not show, so that a new one is not seen: "
            "{detail}."
        ),
        (
            "{count} tables in {where} have properties whose values the service does not show, so that a new one is "
            "not seen; {name} has {detail}."
        ),
    ),
    NoteCode.UNMARKABLE: (
        "1 object in {where} is as its block says, but this catalog cannot mark it now; it is never pruned.",
        (
            "{count} objects in {where} are as their blocks say, but this catalog cannot mark them now; "
            "they are never pruned."
        ),
    ),
    NoteCode.UNPROTECTABLE: (
        "1 object in {where} is protected only while its block says so: this catalog cannot mark it now.",
        "{count} objects in {where} are protected only while their blocks say so: this catalog cannot mark them now.",
    ),
    NoteCode.STAYS_PROTECTED: (
        "1 object in {where} stays protected: this catalog cannot take the mark away.",
        "{count} objects in {where} stay protected: this catalog cannot take the marks away.",
    ),
    NoteCode.STAYS_MARKED: (
        "1 object in {where} keeps the marks it has: this catalog cannot renew them.",
        "{count} objects in {where} keep the marks they have: this catalog cannot renew them.",
    ),
}


def unmarkable(before: ObjectView, after: ObjectView) -> NoteCode:
    """Return the topic of an object whose properties are right and whose marks cannot be made so."""
    if after.protect and not before.protect:
        return NoteCode.UNPROTECTABLE
    if before.protect and not after.protect:
        return NoteCode.STAYS_PROTECTED
    return NoteCode.UNMARKABLE if before.managed_by is None else NoteCode.STAYS_MARKED
