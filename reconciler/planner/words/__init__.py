"""Turn the codes of a plan into sentences; the planner has no other English.

This is not in ``output`` because the JSON form has the sentences beside the codes, and its digest covers them.
"""

from __future__ import annotations

from reconciler.model.reasons import NoteCode, Params, ReasonCode
from reconciler.planner.words.notes import NOTES
from reconciler.planner.words.reasons import REASONS
from reconciler.planner.words.remedies import LEAVE_OUT, MIRROR_REMEDIES, REMEDIES
from reconciler.planner.words.sentences import fill_in


def reason(code: ReasonCode, params: Params) -> str:
    """Return why an object is changed, kept or blocked."""
    return fill_in(REASONS[code], params)


def remedy(code: ReasonCode, params: Params) -> str:
    """Return what to write or to run so that an object is no longer blocked.

    A mirrored table (``leave_out``) without a remedy of its own can be excluded from the mirror.
    """
    if "leave_out" in params:
        return fill_in(MIRROR_REMEDIES.get(code, LEAVE_OUT), params)
    return fill_in(REMEDIES.get(code, ""), params)


def message(code: NoteCode, params: Params) -> str:
    """Return the text of a note."""
    sentence = NOTES[code]
    if isinstance(sentence, tuple):
        sentence = sentence[params.get("count", 1) != 1]
    return fill_in(sentence, params)
