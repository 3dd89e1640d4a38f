"""Turn the codes of a plan into sentences; the planner has no other English.

This is not in ``output`` because the JSON form has the sentences beside the codes, and its digest covers them.
"""

from __future__ import annotations

from reconciler.model.reasons import NoteCode, Params, ReasonCode
from reconciler.planner.words.notes import NOTES
from reconciler.planner.words.reasons import REASONS
from reconciler.planner.words.remedies import LEAVE_OUT, MIRRORED, REMEDIES
from reconciler.planner.words.sentences import said


def reason(code: ReasonCode, params: Params) -> str:
    """Return why an object is changed, kept or blocked."""
    return said(REASONS[code], params)


def remedy(code: ReasonCode, params: Params) -> str:
    """Return what to write or to run about a blocked object.

    For a mirrored table without a better remedy: how to exclude it.
    """
    if "leave_out" in params:
        return said(MIRRORED.get(code, LEAVE_OUT), params)
    return said(REMEDIES.get(code, ""), params)


def message(code: NoteCode, params: Params) -> str:
    """Return what a note says."""
    sentence = NOTES[code]
    if isinstance(sentence, tuple):
        sentence = sentence[params.get("count", 1) != 1]
    return said(sentence, params)
