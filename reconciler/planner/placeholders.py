"""Show locations in a plan as the manifest writes them, and restore them.

A plan is made with real locations. Before it is saved or shown, each becomes its placeholder, such as
``${env:LAKE_ROOT}/users.lance``, or its path relative to the manifest, such as ``./lake/users.lance``. Apply restores
the real ones, also in another copy of the folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel

from reconciler.model import locations
from reconciler.model.maintenance import Upkeep
from reconciler.model.reasons import PLACES
from reconciler.planner.entries import Fingerprint
from reconciler.planner.plan import Plan
from reconciler.planner.views import FieldChange, ObjectView

ModelT = TypeVar("ModelT", bound=BaseModel)
_Edit = Callable[[str], str]
_ENTRIES = ("changes", "waiting", "blocked", "guards", "notes", "fingerprints")
_TEXTS = ("location", "unreferenced", "requested_location", "chosen_location", "detail", "held_by")
_PARTS = (*_TEXTS, "params", "fields", "before", "after", "found", "moved", "view", "upkeep")
# `/data` is not in the address `lake/data/users`; a line in JSON begins after `\n`.
_BEFORE_PATH = r"(?:(?<![\w.-])|(?<=://localhost)|(?<=\\[nrt]))"
_FIELDS = ("location", "requested-location", "chosen-location")


def hide_places(plan: Plan, places: Mapping[str, str]) -> Plan:
    """Return ``plan`` with the locations in ``places`` as the manifest writes them.

    Args:
        plan: with real locations.
        places: what the manifest writes, by real location.
    """
    return _model(plan, hiding(places), _ENTRIES)


def show_places(plan: Plan, places: Mapping[str, str]) -> Plan:
    """Return ``plan`` as it was before :func:`hide_places`."""
    return _model(plan, _replacing({said: place.rstrip("/") for place, said in places.items()}), _ENTRIES)


def hiding(places: Mapping[str, str]) -> _Edit:
    """Return what shows the locations of a text as :func:`hide_places` does."""
    return _replacing(
        {
            form: placeholder
            for place, placeholder in places.items()
            for form in (place.rstrip("/"), locations.normalise(place))
        }
    )


def _replacing(texts: Mapping[str, str]) -> _Edit:
    found = sorted((text for text in texts if len(text) > 1), key=len, reverse=True)
    if not found:
        return lambda text: text
    # No name goes on before or behind it: `./lake` is neither in `../lake` nor in `s3://b/./lake` nor in `./lakes`.
    before = {".": r"(?<![\w.-])(?<![^/]/)", "/": _BEFORE_PATH}
    parts = (before.get(text[0], "") + re.escape(text) for text in found)
    pattern = re.compile(f"({'|'.join(parts)})(?![\\w.-])")

    return lambda text: pattern.sub(lambda match: texts[match[1]], text)


def _model(model: ModelT, edit: _Edit, parts: Iterable[str] = _PARTS) -> ModelT:
    """Return ``one`` with its locations edited; the same object if none differs."""
    if isinstance(model, FieldChange) and model.path not in _FIELDS:
        return model  # a property may have the text of a location
    values = {name: value for name in parts if (value := vars(model).get(name))}  # getattr of what is not there is slow
    edits = {name: edited for name, value in values.items() if (edited := _value(value, edit)) is not value}
    view = edits.get("view")
    if isinstance(model, Fingerprint) and isinstance(view, ObjectView) and model.is_of(model.view):
        edits["digest"] = model.digest_of(view)  # one that was not that of its view stays wrong
    return model.model_copy(update=edits) if edits else model


def _value(value: object, edit: _Edit) -> object:
    """Return an edited value; the same object if nothing in it differs."""
    if isinstance(value, str):
        edited: object = edit(value)
    elif isinstance(value, Upkeep):
        elsewhere = tuple(map(edit, value.elsewhere))
        edited = replace(value, damage=value.damage and edit(value.damage), elsewhere=elsewhere)
    elif isinstance(value, BaseModel):
        return _model(value, edit)
    elif isinstance(value, tuple):
        edited = tuple(_value(one, edit) for one in value)
    elif isinstance(value, dict):
        edited = {**value, **{key: _value(value[key], edit) for key in PLACES if key in value}}
    else:
        return value
    return value if edited == value else edited
