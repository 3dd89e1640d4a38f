"""Why an object is left as it is although something about it could be said: topics, and their sentences."""

from __future__ import annotations

from reconciler.planner.views import ObjectView

__all__ = ["ADOPTABLE", "EXTRA_COLUMNS", "HIDDEN", "SENTENCES", "STALE_COLUMNS", "UNMANAGED", "UNSAFE", "unmarkable"]

UNMANAGED = "unmanaged"
ADOPTABLE = "adoptable"
UNSAFE = "unsafe"
EXTRA_COLUMNS = "extra-columns"
STALE_COLUMNS = "stale-columns"
HIDDEN = "hidden"
UNMARKABLE = "unmarkable"
UNPROTECTABLE = "unprotectable"
STAYS_PROTECTED = "stays-protected"
STAYS_MARKED = "stays-marked"

# For one object and for several; {where}, {count}, {name} and {detail} of the first one, {owner}, {catalog},
# {safeguard} and {danger} are filled in.
SENTENCES = {
    UNMANAGED: (
        "1 table in {where} is not managed by {owner}; `lancens import --catalog {catalog}` shows it.",
        "{count} tables in {where} are not managed by {owner}; `lancens import --catalog {catalog}` shows them.",
    ),
    ADOPTABLE: (
        "1 object in {where} equals its block but is not marked as managed; `lancens apply --adopt` marks it.",
        (
            "{count} objects in {where} equal their blocks but are not marked as managed; "
            "`lancens apply --adopt` marks them."
        ),
    ),
    UNSAFE: (
        "1 table in {where} lacks `{safeguard}`, and this plan does not set it: {danger}.",
        "{count} tables in {where} lack `{safeguard}`, and this plan does not set it: {danger}.",
    ),
    EXTRA_COLUMNS: (
        "{where}/{name} has columns that its block does not name, and keeps them: {detail}.",
        "{count} tables in {where} have columns that their blocks do not name, and keep them; {name} has {detail}.",
    ),
    STALE_COLUMNS: (
        "{where}/{name} gets other columns, and its entry keeps showing the old ones: this catalog cannot change them.",
        (
            "{count} tables in {where} get other columns, and their entries keep showing the old ones: "
            "this catalog cannot change them."
        ),
    ),
    HIDDEN: (
        (
            "{where}/{name} has properties whose values the service does not show, so that a new one is not seen: "
            "{detail}."
        ),
        (
            "{count} tables in {where} have properties whose values the service does not show, so that a new one is "
            "not seen; {name} has {detail}."
        ),
    ),
    UNMARKABLE: (
        "1 object in {where} is as its block says, but this catalog cannot mark it now; it is never pruned.",
        (
            "{count} objects in {where} are as their blocks say, but this catalog cannot mark them now; "
            "they are never pruned."
        ),
    ),
    UNPROTECTABLE: (
        "1 object in {where} is protected only while its block says so: this catalog cannot mark it now.",
        "{count} objects in {where} are protected only while their blocks say so: this catalog cannot mark them now.",
    ),
    STAYS_PROTECTED: (
        "1 object in {where} stays protected: this catalog cannot take the mark away.",
        "{count} objects in {where} stay protected: this catalog cannot take the marks away.",
    ),
    STAYS_MARKED: (
        "1 object in {where} keeps the marks it has: this catalog cannot renew them.",
        "{count} objects in {where} keep the marks they have: this catalog cannot renew them.",
    ),
}


def unmarkable(before: ObjectView, after: ObjectView) -> str:
    """Return the topic of an object whose properties are right and whose marks cannot be made so."""
    if after.protect and not before.protect:
        return UNPROTECTABLE
    if before.protect and not after.protect:
        return STAYS_PROTECTED
    return UNMARKABLE if before.managed_by is None else STAYS_MARKED
