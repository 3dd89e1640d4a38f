"""Locations that come from the environment or a file, or are relative: shown by what the manifest says.

A plan is made of the real ones. Before it leaves, each is replaced by the text of its placeholders, such as
``${env:LAKE_ROOT}/users.lance``, or by its path from the manifest's folder, such as ``./lake/users.lance``; whoever
carries it out has the real ones again, also in another copy of that folder, and puts them back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from pydantic import BaseModel

from reconciler.model import locations
from reconciler.model.reasons import PLACES
from reconciler.planner.entries import Blocked, Change, Fingerprint, Note, Protection
from reconciler.planner.plan import Plan
from reconciler.planner.views import FieldChange, ObjectView

ModelT = TypeVar("ModelT", bound=BaseModel)
_Edit = Callable[[str], str]
_TEXTS = (
    "location",
    "unreferenced",
    "requested_location",
    "chosen_location",
    "detail",
    "held_by",
)


def hide_places(plan: Plan, places: Mapping[str, str]) -> Plan:
    """Return ``plan`` with each location in ``places``, and all below one, as the manifest says it.

    Args:
        plan: as it was made.
        places: what the manifest says, by what it stands for.
    """
    real = {form: said for place, said in places.items() for form in (place.rstrip("/"), locations.normalise(place))}
    return _edited(plan, real)


def show_places(plan: Plan, places: Mapping[str, str]) -> Plan:
    """Return ``plan`` as it was before :func:`hide_places`."""
    return _edited(plan, {said: place.rstrip("/") for place, said in places.items()})


def _edited(plan: Plan, texts: Mapping[str, str]) -> Plan:
    found = sorted((text for text in texts if len(text) > 1), key=len, reverse=True)
    if not found:
        return plan
    # No name goes on before or behind it: `./lake` is neither in `../lake` nor in `s3://b/./lake` nor in `./lakes`.
    parts = (rf"(?<![\w.-])(?<![^/]/){re.escape(text)}" if text[0] == "." else re.escape(text) for text in found)
    pattern = re.compile(f"({'|'.join(parts)})(?![\\w.-])")

    def edit(text: str) -> str:
        return pattern.sub(lambda match: texts[match[1]], text)

    return plan.model_copy(
        update={
            "changes": _all(plan.changes, edit),
            "waiting": _all(plan.waiting, edit),
            "blocked": _all(plan.blocked, edit),
            "guards": _all(plan.guards, edit),
            "notes": _all(plan.notes, edit),
            "fingerprints": tuple(_fingerprint(one, edit) for one in plan.fingerprints),
        }
    )


def _all(models: Iterable[ModelT], edit: _Edit) -> tuple[ModelT, ...]:
    return tuple(_model(one, edit) for one in models)


def _model(one: ModelT, edit: _Edit) -> ModelT:
    """Return ``one`` with its texts edited; what has none that differs is returned as it is."""
    update: dict[str, object] = {}
    params = getattr(one, "params", None)
    edits = {key: edit(params[key]) for key in PLACES if key in params} if params else {}
    if params and edits.items() - params.items():
        update["params"] = {**params, **edits}
    for name in _TEXTS:
        text = getattr(one, name, None)
        if isinstance(text, str) and (edited := edit(text)) != text:
            update[name] = edited
    if isinstance(one, Change | Blocked | Protection | Note | Fingerprint | ObjectView | FieldChange):
        for name in ("before", "after", "found", "moved"):
            value = getattr(one, name, None)
            if isinstance(value, ObjectView) and (view := _model(value, edit)) is not value:
                update[name] = view
            elif isinstance(one, FieldChange) and isinstance(value, str) and (text := edit(value)) != value:
                update[name] = text
    if isinstance(one, Change) and one.fields:
        update["fields"] = _all(one.fields, edit)
    return one.model_copy(update=update) if update else one


def _fingerprint(one: Fingerprint, edit: _Edit) -> Fingerprint:
    """Return ``one`` with the digest of its edited view; one that was not that of its view stays wrong."""
    if one.view is None or (view := _model(one.view, edit)) is one.view:
        return one
    edited = one.model_copy(update={"view": view})
    return edited.model_copy(update={"digest": edited.digest_of(view)}) if one.is_of(one.view) else edited
