"""The states of objects that a plan compares, and the fields in which two states differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, WrapSerializer, field_serializer

from reconciler.model import locations, ownership
from reconciler.model.capabilities import Safeguard
from reconciler.model.columns import Column, Schema, ShownColumn, with_metadata
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.redaction import is_stand_in, redact_properties, redact_value
from reconciler.model.secret_forms import REDACTED


class Document(BaseModel):
    """Base of plan models: frozen; unknown keys of later versions are ignored.

    There may be millions. Which fields were given is not recorded: that took more memory than their values.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    def model_post_init(self, _context: object) -> None:
        """Forget which fields were given."""
        _set_attribute(self, "__pydantic_fields_set__", _fields_of(type(self)))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with the values in ``update``, which are not validated."""
        if deep:
            return super().model_copy(update=update, deep=True)
        copied, private = type(self).__new__(type(self)), self.__pydantic_private__
        _set_attribute(copied, "__dict__", {**self.__dict__, **(update or {})})
        _set_attribute(copied, "__pydantic_fields_set__", self.__pydantic_fields_set__)
        _set_attribute(copied, "__pydantic_extra__", None)
        _set_attribute(copied, "__pydantic_private__", None if private is None else {**private})
        return copied


_set_attribute = object.__setattr__


@cache
def _fields_of(document: type[Document]) -> set[str]:
    return {*document.model_fields}


def _serialize_without_secrets(columns: Schema, write: SerializerFunctionWrapHandler) -> Any:
    return write(with_metadata(columns, lambda column: redact_properties(column.metadata)))


Columns: TypeAlias = Annotated[tuple[Column, ...], WrapSerializer(_serialize_without_secrets)]
"""The columns of a table, saved without the sensitive values of their metadata."""


def concealed_columns(columns: Schema | None, address: str) -> Schema | None:
    """Return ``columns`` of the table at ``address`` with stand-ins for sensitive metadata."""
    return columns and with_metadata(columns, lambda column: redact_properties(column.metadata, address))


class ObjectView(Document):
    """The part of an object's state that lancens compares: never statistics or times.

    ``properties`` holds the managed keys that are set; ``columns`` is known only if the plan is about the schema.
    """

    location: str | None = None
    requested_location: str | None = Field(
        default=None, description="The recorded location that lancens requested, if the service chose another."
    )
    chosen_location: str | None = Field(default=None, description="The recorded location that the service chose.")
    kind: str | None = Field(default=None, description="The kind of a namespace, in a catalog with two kinds.")
    managed_by: str | None = None
    protect: bool = False
    keys: tuple[str, ...] = Field(default=(), description="The property keys lancens has set, in order.")
    secret_keys: tuple[str, ...] = Field(
        default=(), description="Those of `keys` whose values come from the environment or a file, in order."
    )
    tag_keys: tuple[str, ...] = Field(default=(), description="The tags of the data that lancens has set, in order.")
    data: bool = Field(
        default=False, description="Whether lancens has written, registered or seen data at the location."
    )
    mirror: str | None = Field(default=None, description="The catalog whose mirror made the entry.")
    clone: str | None = Field(
        default=None, description="The table and version that the data was cloned from, such as `prod/users@42`."
    )
    policy: str | None = Field(default=None, description="The owner of the policies that set the properties.")
    properties: dict[str, str] = Field(default_factory=dict)
    safeguards: dict[str, str] = Field(
        default_factory=dict, description="The properties that keep the catalog and its engines from deleting data."
    )
    managed_versioning: bool = Field(
        default=False, description="Whether the service keeps the versions of the table's data itself."
    )
    columns: Columns | None = None
    shown_columns: tuple[ShownColumn, ...] | None = Field(
        default=None,
        description="The columns that the catalog's entry shows, in its own types, if they differ from the data's.",
    )

    tags: dict[str, str] | None = Field(
        default=None, description="The tags of the data, if the change is about them: versions by name."
    )

    @field_serializer("properties")
    def _serialize_properties(self, properties: dict[str, str]) -> dict[str, str]:
        return redact_properties(dict(sorted(properties.items())))

    @field_serializer("location", "requested_location", "chosen_location")
    def _redact_location(self, location: str | None) -> str | None:
        return locations.redact(location)

    @property
    def content(self) -> tuple[dict[str, str], bool]:
        """The properties and protection that the user asked for, without lancens' marks."""
        return self.properties, self.protect

    def follows(self, catalog: str) -> bool:
        """Return whether a mirror or clone of ``catalog`` made the entry."""
        return self.mirror == catalog or ownership.is_cloned_from(self.clone, catalog)

    @property
    def writes_beside_entry(self) -> bool:
        """Whether a change to this state writes columns or tags beside the entry's properties."""
        return self.shown_columns is not None or self.tags is not None

    @property
    def request(self) -> tuple[str | None, str | None]:
        """The recorded request: the requested location, and the one that the service chose instead."""
        return self.requested_location, self.chosen_location

    @property
    def is_request_true(self) -> bool:
        """Whether the recorded request fits the location (``ownership.is_request_true``)."""
        return ownership.is_request_true(*self.request, self.location)

    @property
    def marks(
        self,
    ) -> tuple[str | None, tuple[str, ...], tuple[str, ...], tuple[str, ...], str | None, str | None, str | None]:
        """The marks that lancens keeps in the entry, but for protection and the request."""
        return self.managed_by, self.keys, self.secret_keys, self.tag_keys, self.mirror, self.clone, self.policy

    def concealed(self, address: str, secret: Collection[str] = ()) -> ObjectView:
        """Return the view as the saved form shows it: with stand-ins for secrets.

        ``address`` is that of the object; ``secret`` are property keys with secret values beside ``secret_keys``.
        """
        return self.model_copy(
            update={
                "location": locations.redact(self.location),
                "requested_location": locations.redact(self.requested_location),
                "chosen_location": locations.redact(self.chosen_location),
                "properties": redact_properties(self.properties, address, {*secret, *self.secret_keys}),
                "columns": concealed_columns(self.columns, address),
            }
        )

    def revealed(self, other: ObjectView) -> ObjectView:
        """Return this view with the stand-ins of ``other`` in place of values that the service hides.

        A hidden value cannot be compared, so it counts as equal.
        """
        hidden = {key for key, value in self.properties.items() if value == REDACTED}
        known = {key: text for key in hidden if is_stand_in(text := other.properties.get(key, ""))}
        return self.model_copy(update={"properties": {**self.properties, **known}}) if known else self

    def digest(self) -> str:
        """Return the SHA-256 of a concealed view, with the location normalised."""
        parts = (
            None if self.location is None else locations.place(self.location),
            locations.redact(self.requested_location),
            locations.redact(self.chosen_location),
            self.kind,
            self.managed_by,
            self.protect,
            self.keys,
            self.secret_keys,
            self.mirror,
            sorted(redact_properties(self.properties).items()),
            sorted(self.safeguards.items()),
            *(("managed versioning",) if self.managed_versioning else ()),
            *(("clone", self.clone) if self.clone else ()),
            *(("policy", self.policy) if self.policy else ()),
            *((("tags", self.tag_keys),) if self.tag_keys else ()),
            *(("data",) if self.data else ()),
        )
        text = json.dumps(parts, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def satisfies(self, desired: ObjectView) -> bool:
        """Return whether this live view already has what ``desired`` asks for.

        A location that the service chose satisfies the recorded request, even if an interrupted run has not recorded
        the answer yet; ``is_request_true`` tells these cases apart. ``data`` is not compared, because its mark may be
        written later.
        """
        if desired.location is not None and not (
            locations.same(desired.location, self.location)
            or (
                self.requested_location is not None
                and locations.same(desired.location, self.requested_location)
                and (self.chosen_location is None or locations.same(self.chosen_location, self.location))
            )
        ):
            return False
        is_same = (desired.content, desired.marks) == (self.revealed(desired).content, self.marks)
        is_safe = desired.safeguards.items() <= self.safeguards.items()
        return is_same and is_safe and (desired.kind is None or desired.kind == self.kind)


def view_of(
    live: LiveNamespace | LiveTable | None, managed_keys: Iterable[str], safeguard: Safeguard | None
) -> ObjectView | None:
    """Return the view of a live object with the properties in ``managed_keys``; None without an object.

    ``safeguard`` is that of the catalog (``Capabilities.safeguard``).
    """
    if live is None:
        return None
    properties = live.properties
    return ObjectView(
        location=live.location if isinstance(live, LiveTable) else None,
        requested_location=properties.get(ownership.REQUESTED_LOCATION),
        chosen_location=properties.get(ownership.CHOSEN_LOCATION),
        kind=live.kind if isinstance(live, LiveNamespace) else None,
        managed_by=ownership.owner_of(properties),
        protect=ownership.is_protected(properties),
        keys=tuple(sorted(ownership.recorded_keys(properties))),
        secret_keys=tuple(sorted(ownership.recorded_secrets(properties))),
        tag_keys=tuple(sorted(ownership.recorded_tags(properties))) if isinstance(live, LiveTable) else (),
        data=isinstance(live, LiveTable) and ownership.has_data(properties),
        mirror=ownership.mirror_of(properties),
        clone=ownership.clone_of(properties) if isinstance(live, LiveTable) else None,
        policy=ownership.policy_of(properties),
        properties={key: properties[key] for key in managed_keys if key in properties},
        safeguards=safeguard.state(properties) if safeguard and isinstance(live, LiveTable) else {},
        managed_versioning=isinstance(live, LiveTable) and live.managed_versioning,
    )


class FieldChange(Document):
    """One field that differs, such as ``properties.tier``, without secrets."""

    path: str
    before: str | None = None
    after: str | None = None


def field_changes(
    before: ObjectView | None, after: ObjectView | None, address: str, secret: Collection[str] = ()
) -> tuple[FieldChange, ...]:
    """Return the fields in which two views differ, by path, without secrets.

    Creations and removals (one side None) have none. ``address`` is that of the object, ``secret`` the property keys
    with secret values.
    """
    if before is None or after is None:
        return ()
    with_request = locations.same(before.location, after.location)
    texts = _text_fields(before, with_request=with_request), _text_fields(after, with_request=with_request)
    mappings = _mapping_fields(before, address), _mapping_fields(after, address)
    differences = [*_differences(*texts), *(_nested_differences(*mappings) if mappings[0] != mappings[1] else ())]
    fields = []
    for path, *sides in differences:
        shown = [None if side is None else redact_value(path[-1], side, address, secret) for side in sides]
        fields.append(FieldChange(path=".".join(path), before=shown[0], after=shown[1]))
    return tuple(sorted(fields, key=lambda field: field.path))


_Path: TypeAlias = tuple[str, ...]
_Difference: TypeAlias = tuple[_Path, str | None, str | None]
"""A field's path with its value before and after."""


def _differences(before: Mapping[_Path, str], after: Mapping[_Path, str]) -> Iterator[_Difference]:
    """Yield the paths with another text, or with a text on one side only."""
    for path in before.keys() | after.keys():
        if before.get(path) != after.get(path):
            yield path, before.get(path), after.get(path)


def _nested_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[_Difference]:
    """Yield the paths inside two documents whose values differ."""
    from deepdiff import DeepDiff

    # By default, DeepDiff reports dictionaries with little in common as one value, secrets included, and skips keys
    # that start with two underscores.
    difference = DeepDiff(before, after, view="tree", threshold_to_diff_deeper=0, ignore_private_variables=False)
    for kind, items in difference.items():
        for item in items:
            path = tuple(map(str, item.path(output_format="list")))
            is_added, is_removed = kind == "dictionary_item_added", kind == "dictionary_item_removed"
            yield path, None if is_added else str(item.t1), None if is_removed else str(item.t2)


def _text_fields(view: ObjectView, *, with_request: bool) -> dict[_Path, str]:
    """Return the texts of ``view`` by path, for a simple comparison.

    ``with_request``: with the recorded request, which says nothing new about a relocated table.
    """
    texts: dict[_Path, str] = {("properties", key): value for key, value in view.properties.items()}
    texts |= {("safeguards", key): value for key, value in view.safeguards.items()}
    texts["protect",] = str(view.protect).lower()
    marks = {"location": locations.redact(view.location), "managed-by": view.managed_by, "mirror": view.mirror}
    marks["clone"] = view.clone
    if with_request:
        marks["requested-location"] = locations.redact(view.requested_location)
        marks["chosen-location"] = locations.redact(view.chosen_location)
    return texts | {(key,): text for key, text in marks.items() if text is not None}


def _mapping_fields(view: ObjectView, address: str) -> dict[str, Any]:
    """Return the tags and columns of ``view`` as a document, which DeepDiff compares."""
    return {
        "tags": view.tags or {},
        "schema": {column.name: column_text(column, address) for column in view.columns or ()},
        "shown-columns": {column.name: column.text for column in view.shown_columns or ()},
    }


def column_text(column: Column, address: str) -> str:
    """Return a column's type and metadata, with stand-ins for sensitive values."""
    text = column.type if column.nullable else f"{column.type} not null"
    if column.metadata:
        metadata = sorted(redact_properties(column.metadata, address).items())
        text += " {" + ", ".join(f"{key}: {value}" for key, value in metadata) + "}"
    return text
