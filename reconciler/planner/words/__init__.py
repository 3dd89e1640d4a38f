"""The sentences of a plan: how its codes and their parameters read. The planner speaks English nowhere else.

They are made in the planner and not in ``output``: the JSON form has them beside the codes, and its digest covers them.
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
    """Return what to write or to run about an object that is blocked; of a mirrored one, how to leave it out."""
    if "leave_out" in params:
        return said(MIRRORED.get(code, LEAVE_OUT), params)
    return said(REMEDIES.get(code, ""), params)


def message(code: NoteCode, params: Params) -> str:
    """Return what a note says."""
    sentence = NOTES[code]
    if isinstance(sentence, tuple):
        sentence = sentence[params.get("count", 1) != 1]
    return said(sentence, params)
