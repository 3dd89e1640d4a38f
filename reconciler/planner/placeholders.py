"""Show locations by what the manifest says: placeholders and relative paths.

A plan is made with the real locations. Before it is saved or shown, each becomes the text of its placeholders, such as
``${env:LAKE_ROOT}/users.lance``, or a path from the manifest's folder, such as ``./lake/users.lance``. Apply restores
the real ones, also in another copy of that folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from pydantic import BaseModel

from reconciler.model import locations
from reconciler.model.reasons import PLACES
from reconciler.planner.entries import Fingerprint
from reconciler.planner.plan import Plan
from reconciler.planner.views import ObjectView

ModelT = TypeVar("ModelT", bound=BaseModel)
_Edit = Callable[[str], str]
_ENTRIES = ("changes", "waiting", "blocked", "guards", "notes", "fingerprints")
_TEXTS = ("location", "unreferenced", "requested_location", "chosen_location", "detail", "held_by")
_PARTS = (*_TEXTS, "params", "fields", "before", "after", "found", "moved", "view")


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

    return _model(plan, edit, _ENTRIES)


def _model(one: ModelT, edit: _Edit, parts: Iterable[str] = _PARTS) -> ModelT:
    """Return ``one`` with its locations edited; a model without any that differs is returned as it is."""
    values = {name: value for name in parts if (value := getattr(one, name, None))}
    edits = {name: edited for name, value in values.items() if (edited := _value(value, edit)) is not value}
    view = edits.get("view")
    if isinstance(one, Fingerprint) and isinstance(view, ObjectView) and one.is_of(one.view):
        edits["digest"] = one.digest_of(view)  # one that was not that of its view stays wrong
    return one.model_copy(update=edits) if edits else one


def _value(value: object, edit: _Edit) -> object:
    """Return an edited text, model, tuple of models or parameters; the same object where nothing differs."""
    if isinstance(value, str):
        edited: object = edit(value)
    elif isinstance(value, BaseModel):
        return _model(value, edit)
    elif isinstance(value, tuple):
        edited = tuple(_value(one, edit) for one in value)
    elif isinstance(value, dict):
        edited = {**value, **{key: edit(value[key]) for key in PLACES if key in value}}
    else:
        return value
    return value if edited == value else edited
