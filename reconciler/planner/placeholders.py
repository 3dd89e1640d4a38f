"""Show locations in a plan as the manifest writes them, and restore them.

A plan is made with real locations. Before it is saved or shown, each becomes its placeholder, such as
``${env:LAKE_ROOT}/users.lance``, or its path relative to the manifest, such as ``./lake/users.lance``. Apply restores
the real ones, also in another copy of the folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import TypeVar

from pydantic import BaseModel

from reconciler.model import locations
from reconciler.model.clones import CloneBase
from reconciler.model.maintenance import Upkeep
from reconciler.model.reasons import PARAMS_WITH_LOCATIONS
from reconciler.planner.entries import Fingerprint
from reconciler.planner.plan import Plan
from reconciler.planner.views import FieldChange, ObjectView

ModelT = TypeVar("ModelT", bound=BaseModel)
_Edit = Callable[[str], str]
_ENTRIES = ("changes", "waiting", "blocked", "guards", "notes", "fingerprints")
_TEXTS = ("location", "unreferenced", "requested_location", "chosen_location", "detail", "held_by")
_PARTS = (*_TEXTS, "params", "fields", "before", "after", "found", "moved", "view", "upkeep", "clone")
# `/data` is not in the address `lake/data/users`; a line in JSON begins after `\n`.
_BEFORE_PATH = r"(?:(?<![\w.-])|(?<=://localhost)|(?<=\\[nrt]))"
_FIELDS = ("location", "requested-location", "chosen-location")


def hide_locations(plan: Plan, places: Mapping[str, str]) -> Plan:
    """Return ``plan`` with the locations in ``places`` as the manifest writes them.

    Args:
        plan: with real locations.
        places: the text in the manifest, such as ``${env:LAKE_ROOT}``, by real location.
    """
    return _edit_model(plan, location_hider(places))


def with_hidden_locations(entries: Iterable[ModelT], places: Mapping[str, str]) -> Iterator[ModelT]:
    """Yield ``entries`` of a plan as :func:`hide_locations` returns them in one."""
    hide = location_hider(places)
    return (_edit_model(entry, hide) for entry in entries) if places else iter(entries)


def restore_locations(plan: Plan, places: Mapping[str, str]) -> Plan:
    """Return ``plan`` as it was before :func:`hide_locations`."""
    return _edit_model(plan, _replacer({placeholder: place.rstrip("/") for place, placeholder in places.items()}))


def location_hider(places: Mapping[str, str]) -> _Edit:
    """Return a function that replaces locations in a text, as :func:`hide_locations` does in a plan."""
    return _replacer(
        {
            form: placeholder
            for place, placeholder in places.items()
            for form in (place.rstrip("/"), locations.normalise(place))
        }
    )


def _replacer(texts: Mapping[str, str]) -> _Edit:
    """Return a function that replaces the keys of ``texts`` by their values, the longest ones first."""
    originals = sorted((text for text in texts if len(text) > 1), key=len, reverse=True)
    if not originals:
        return lambda text: text
    # Match whole names only: `./lake` is not in `../lake`, `s3://b/./lake` or `./lakes`.
    before = {".": r"(?<![\w.-])(?<![^/]/)", "/": _BEFORE_PATH}
    parts = (before.get(text[0], "") + re.escape(text) for text in originals)
    pattern = re.compile(f"({'|'.join(parts)})(?![\\w.-])")

    return lambda text: pattern.sub(lambda match: texts[match[1]], text)


@cache
def _parts_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the fields of a model that may hold locations."""
    return tuple(name for name in (_ENTRIES if issubclass(model, Plan) else _PARTS) if name in model.model_fields)


def _edit_model(model: ModelT, edit: _Edit) -> ModelT:
    """Return ``model`` with all locations edited; the same object if none differs."""
    if isinstance(model, FieldChange) and model.path not in _FIELDS:
        return model  # a property may have the text of a location
    values = {name: value for name in _parts_of(type(model)) if (value := getattr(model, name))}
    edits = {name: edited for name, value in values.items() if (edited := _edit_value(value, edit)) is not value}
    view = edits.get("view")
    if isinstance(model, Fingerprint) and isinstance(view, ObjectView) and model.matches(model.view):
        edits["digest"] = model.digest_of(view)  # a digest that did not match stays wrong
    return model.model_copy(update=edits) if edits else model


def _edit_value(value: object, edit: _Edit) -> object:
    """Return ``value`` with all locations inside edited; the same object if none differs."""
    if isinstance(value, str):
        edited: object = edit(value)
    elif isinstance(value, Upkeep):
        elsewhere = tuple(map(edit, value.elsewhere))
        edited = replace(value, damage=value.damage and edit(value.damage), elsewhere=elsewhere)
    elif isinstance(value, CloneBase):
        edited = replace(value, location=edit(value.location))
    elif isinstance(value, BaseModel):
        return _edit_model(value, edit)
    elif isinstance(value, tuple):
        edited = tuple(_edit_value(item, edit) for item in value)
    elif isinstance(value, dict):
        edited = {**value, **{key: _edit_value(value[key], edit) for key in PARAMS_WITH_LOCATIONS if key in value}}
    else:
        return value
    return value if edited == value else edited
