"""The Plan document: what would be done, to what, and why.

A plan is data. It is made by ``reconciler.planner``, shown by ``reconciler.output``, saved as JSON (schema in
``schemas/plan.schema.json``) and carried out by ``reconciler.applier``. It holds no time and no machine name: the
same states give the same bytes. Sensitive property values are in memory only; the JSON form holds stand-ins, and
digests are taken over what that form shows, so that a plan read back has the digests it was saved with. A stand-in
depends on the object (see ``reconciler.redaction``), so it is a change or a fingerprint that makes it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, ValidationError, field_serializer

from reconciler import locations, ownership
from reconciler.errors import PlanFileError
from reconciler.names import Identifier, address
from reconciler.redaction import redact_properties
from reconciler.state import LiveNamespace, LiveTable, Safeguard, Schema, StorageKind, Thresholds

__all__ = [
    "FORMAT_VERSION",
    "Action",
    "CatalogSummary",
    "Change",
    "FieldChange",
    "Fingerprint",
    "Guard",
    "Kind",
    "Note",
    "ObjectView",
    "Options",
    "Plan",
    "SourceRef",
    "Summary",
    "view_of",
]

FORMAT_VERSION = "1.0"
_DIGEST = "digest"
_FROM_OUTSIDE = "The properties whose values come from the environment or a file: stand-ins are in their place."

Kind = Literal["namespace", "table"]

# JSON takes these as they are; a terminal acts on them and a review does not show them, so they are written as escapes.
_UNSEEN = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")


class _Document(BaseModel):
    """Frozen; unknown keys are ignored, so that a plan of a later minor version can be read."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Action(StrEnum):
    """What one change does."""

    CREATE_NAMESPACE = "create-namespace"
    UPDATE_NAMESPACE = "update-namespace"
    DROP_NAMESPACE = "drop-namespace"
    CREATE_TABLE = "create-table"
    DECLARE_TABLE = "declare-table"
    REGISTER_TABLE = "register-table"
    UPDATE_TABLE = "update-table"
    ALTER_TABLE = "alter-table"
    RELOCATE_TABLE = "relocate-table"
    DEREGISTER_TABLE = "deregister-table"

    @property
    def kind(self) -> Kind:
        """The kind of object the action is about."""
        return "namespace" if self.value.endswith("namespace") else "table"

    @property
    def removes(self) -> bool:
        """Whether the action takes an object out of its catalog."""
        return self in (Action.DROP_NAMESPACE, Action.DEREGISTER_TABLE)


class ObjectView(_Document):
    """The part of an object that lancens compares: never statistics or times.

    ``properties`` holds the managed keys that are set; ``columns`` is known only where the plan is about the schema.
    """

    location: str | None = None
    requested_location: str | None = Field(default=None, description="What was asked for, where the service chose.")
    chosen_location: str | None = Field(default=None, description="Where the service put it then.")
    kind: str | None = Field(default=None, description="What the catalog calls a namespace, where it has two kinds.")
    managed_by: str | None = None
    protect: bool = False
    keys: tuple[str, ...] = Field(default=(), description="The property keys lancens has set, in order.")
    properties: dict[str, str] = Field(default_factory=dict)
    safeguards: dict[str, str] = Field(
        default_factory=dict, description="The properties that keep the catalog and its engines from deleting data."
    )
    columns: Schema | None = None

    @field_serializer("properties")
    def _redacted(self, properties: dict[str, str]) -> dict[str, str]:
        return redact_properties(dict(sorted(properties.items())))

    @field_serializer("columns", mode="wrap")
    def _redacted_columns(self, columns: Schema | None, write: SerializerFunctionWrapHandler) -> Any:
        if columns is None:
            return None
        return write(tuple(replace(column, metadata=redact_properties(column.metadata)) for column in columns))

    @field_serializer("location", "requested_location", "chosen_location")
    def _redacted_location(self, location: str | None) -> str | None:
        return None if location is None else locations.redact(location)

    @property
    def content(self) -> tuple[dict[str, str], bool]:
        """What the user asked for, as opposed to the marks that lancens keeps."""
        return self.properties, self.protect

    @property
    def request(self) -> tuple[str | None, str | None]:
        """The location asked for and the one that the service chose instead."""
        return self.requested_location, self.chosen_location

    @property
    def is_request_true(self) -> bool:
        """Whether the marks of the location asked for say how it is (see ``ownership.is_request_true``)."""
        return ownership.is_request_true(*self.request, self.location)

    @property
    def marks(self) -> tuple[str | None, tuple[str, ...]]:
        """What lancens keeps for itself."""
        return self.managed_by, self.keys

    def concealed(self, address: str, secret: Collection[str] = ()) -> ObjectView:
        """Return the view as the saved form shows it: stand-ins for sensitive values, locations without credentials.

        ``address`` is that of the object, ``secret`` the property keys whose values are secrets whatever their name.
        """
        columns = self.columns
        if columns is not None and any(column.metadata for column in columns):
            columns = tuple(replace(column, metadata=redact_properties(column.metadata, address)) for column in columns)
        return self.model_copy(
            update={
                "location": _redacted(self.location),
                "requested_location": _redacted(self.requested_location),
                "chosen_location": _redacted(self.chosen_location),
                "properties": redact_properties(self.properties, address, secret),
                "columns": columns,
            }
        )

    def digest(self) -> str:
        """Return a SHA-256 over what is compared of a view that is concealed, with the location normalised."""
        parts = (
            None if self.location is None else locations.normalise(locations.redact(self.location)),
            _redacted(self.requested_location),
            _redacted(self.chosen_location),
            self.kind,
            self.managed_by,
            self.protect,
            self.keys,
            sorted(redact_properties(self.properties).items()),
            sorted(self.safeguards.items()),
        )
        text = json.dumps(parts, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def satisfies(self, desired: ObjectView) -> bool:
        """Return whether this live view already is what ``desired`` asks for.

        A location that the service chose itself satisfies the one that was asked for and recorded, also where an
        interrupted run has not recorded the answer yet; ``is_request_true`` tells that apart.
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
        same = (desired.content, desired.marks) == (self.content, self.marks)
        safe = desired.safeguards.items() <= self.safeguards.items()
        return same and safe and (desired.kind is None or desired.kind == self.kind)


def _redacted(location: str | None) -> str | None:
    return None if location is None else locations.redact(location)


def view_of(
    live: LiveNamespace | LiveTable | None, managed_keys: Iterable[str], safeguard: Safeguard | None
) -> ObjectView | None:
    """Return the view of a live object over ``managed_keys``; None for one that is not there.

    ``safeguard`` is the catalog's (``Capabilities.safeguard``).
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
        properties={key: properties[key] for key in managed_keys if key in properties},
        safeguards=safeguard.state(properties) if safeguard and isinstance(live, LiveTable) else {},
    )


class FieldChange(_Document):
    """One field that differs, such as ``properties.tier``; sensitive values are already replaced."""

    path: str
    before: str | None = None
    after: str | None = None


class SourceRef(_Document):
    """The place in the manifest that asks for a change; the file is as seen from where the plan was made."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Change(_Document):
    """One step of a plan.

    ``before`` None: nothing is there; ``after`` None: nothing will be. ``replace``: done by deregister and declare.
    ``secret_keys``: properties whose values come from the environment or a file, and are hidden as passwords are.
    ``depends_on``: positions in ``Plan.changes`` that must have succeeded first.
    """

    catalog: str
    kind: Kind
    identifier: tuple[str, ...]
    action: Action
    before: ObjectView | None = None
    after: ObjectView | None = None
    fields: tuple[FieldChange, ...] = ()
    reason: str
    source: SourceRef | None = None
    replace: bool = False
    probe: bool = Field(default=True, description="Whether storage is opened to plan this, and again to do it.")
    storage: StorageKind | None = Field(
        default=None, description="What was found where the table is or would be; absent where it made no difference."
    )
    secret_keys: tuple[str, ...] = Field(default=(), description=_FROM_OUTSIDE)
    depends_on: tuple[int, ...] = ()

    @field_serializer("before", "after", mode="wrap")
    def _concealed(self, view: ObjectView | None, handler: SerializerFunctionWrapHandler) -> Any:
        return handler(None if view is None else view.concealed(self.address, self.secret_keys))

    @property
    def address(self) -> str:
        """What a person calls the object: ``catalog/namespace/table``."""
        return address(self.catalog, self.identifier)

    @property
    def sort(self) -> str:
        """The word under which the plan's summary counts the change."""
        return "replace" if self.replace else _SORT_OF_ACTION[self.action]

    @property
    def symbol(self) -> str:
        """``+``, ``~``, ``-`` or ``-/+``, as every renderer shows the change."""
        return "-/+" if self.replace else _SYMBOLS[self.action]

    @property
    def managed_keys(self) -> frozenset[str]:
        """The property keys this change is about."""
        views = (view for view in (self.before, self.after) if view is not None)
        return frozenset(key for view in views for key in view.properties)


class Guard(_Document):
    """An object that would be removed or replaced were it not protected: kept, and said so."""

    catalog: str
    kind: Kind
    identifier: tuple[str, ...]
    would: Action
    reason: str
    source: SourceRef | None = None

    symbol: ClassVar[str] = "!"

    @property
    def address(self) -> str:
        """What a person calls the object."""
        return address(self.catalog, self.identifier)


class Note(_Document):
    """A sentence worth reading that changes nothing."""

    catalog: str
    message: str


class Fingerprint(_Document):
    """The state in which an object was when the plan was made; ``view`` None: it was not there.

    ``occupied``: a namespace that would be dropped were it empty, and stays because of what it holds.
    """

    catalog: str
    kind: Kind
    identifier: tuple[str, ...]
    managed_keys: tuple[str, ...] = ()
    secret_keys: tuple[str, ...] = Field(default=(), description=_FROM_OUTSIDE)
    view: ObjectView | None = None
    digest: str | None = None
    occupied: bool = False

    @field_serializer("view", mode="wrap")
    def _concealed(self, view: ObjectView | None, handler: SerializerFunctionWrapHandler) -> Any:
        return handler(None if view is None else view.concealed(self.address, self.secret_keys))

    @property
    def address(self) -> str:
        """What a person calls the object."""
        return address(self.catalog, self.identifier)

    @classmethod
    def of(
        cls,
        catalog: str,
        kind: Kind,
        identifier: Identifier,
        view: ObjectView | None,
        managed_keys: Iterable[str],
        *,
        secret_keys: Collection[str] = (),
        occupied: bool = False,
    ) -> Fingerprint:
        """Return the fingerprint of ``view``."""
        of = cls(
            catalog=catalog,
            kind=kind,
            identifier=identifier,
            managed_keys=tuple(sorted(managed_keys)),
            secret_keys=tuple(sorted(secret_keys)),
            view=view,
            occupied=occupied,
        )
        return of.model_copy(update={"digest": of.digest_of(view)})

    def digest_of(self, view: ObjectView | None) -> str | None:
        """Return the digest of a state of the object; None where it is not there."""
        return None if view is None else view.concealed(self.address, self.secret_keys).digest()

    def is_of(self, view: ObjectView | None) -> bool:
        """Return whether ``view`` is still the state that was planned on."""
        return self.digest == self.digest_of(view)


class CatalogSummary(_Document):
    """What was read of one catalog.

    ``removable_tables`` is how many tables pruning may touch, ``removed_tables`` how many of those the plan removes;
    ``service`` is a digest that two catalogs share only when they are the same service and root.
    """

    name: str
    impl: str
    namespaces: int
    tables: int
    removable_tables: int
    removed_tables: int = 0
    service: str = ""
    desired_objects: int


class ManifestRef(_Document):
    """The manifest a plan was made from; files are as seen from the folder it was made in."""

    name: str
    digest: str
    files: tuple[str, ...]


class Options(_Document):
    """What the plan was made with, beside the manifest.

    ``mass_removal``: the plan removes more than the thresholds allow, which had to be allowed to make it.
    """

    select: tuple[str, ...] = ()
    adopt: bool = False
    take_over: bool = False
    mass_removal: bool = False


class Summary(_Document):
    """How many changes of each sort a plan holds."""

    create: int = 0
    declare: int = 0
    register_: int = Field(default=0, alias="register", serialization_alias="register")
    update: int = 0
    replace: int = 0
    deregister: int = 0
    drop: int = 0
    protected: int = 0

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


_SORT_OF_ACTION: Mapping[Action, str] = {
    Action.CREATE_NAMESPACE: "create",
    Action.CREATE_TABLE: "create",
    Action.DECLARE_TABLE: "declare",
    Action.REGISTER_TABLE: "register",
    Action.UPDATE_NAMESPACE: "update",
    Action.UPDATE_TABLE: "update",
    Action.ALTER_TABLE: "update",
    Action.RELOCATE_TABLE: "update",
    Action.DEREGISTER_TABLE: "deregister",
    Action.DROP_NAMESPACE: "drop",
}


_SYMBOLS: Mapping[Action, str] = {
    Action.CREATE_NAMESPACE: "+",
    Action.UPDATE_NAMESPACE: "~",
    Action.DROP_NAMESPACE: "-",
    Action.CREATE_TABLE: "+",
    Action.DECLARE_TABLE: "+",
    Action.REGISTER_TABLE: "+",
    Action.UPDATE_TABLE: "~",
    Action.ALTER_TABLE: "~",
    Action.RELOCATE_TABLE: "~",
    Action.DEREGISTER_TABLE: "-",
}


class Plan(_Document):
    """Everything that would be done, in an order in which it can be done."""

    format_version: str = FORMAT_VERSION
    manifest: ManifestRef
    catalogs: tuple[CatalogSummary, ...] = ()
    changes: tuple[Change, ...] = ()
    guards: tuple[Guard, ...] = ()
    notes: tuple[Note, ...] = ()
    fingerprints: tuple[Fingerprint, ...] = ()
    thresholds: Thresholds = Thresholds()
    options: Options = Options()

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be changed."""
        return not self.changes

    def summary(self) -> Summary:
        """Return the counts that the last line of a plan shows."""
        counts = Counter(change.sort for change in self.changes)
        return Summary(**counts, protected=len(self.guards))

    def to_json(self) -> str:
        """Return the saved form: UTF-8 text, the same for the same plan, without sensitive values."""
        content = self._content()
        text = json.dumps({**content, _DIGEST: _digest_of(content)}, indent=2, ensure_ascii=False)
        return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"

    def digest(self) -> str:
        """Return the SHA-256 over what the saved form says, which holds it, and by which a review names this plan."""
        return _digest_of(self._content())

    def _content(self) -> dict[str, Any]:
        document = self.model_dump(mode="json", exclude_defaults=True, by_alias=True)
        summary = self.summary().model_dump(by_alias=True)
        return {"format_version": self.format_version, **document, "summary": summary}

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """Return the plan that :meth:`to_json` wrote.

        Raises:
            PlanFileError: the text is not a plan, was edited or cut, or has another major version.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PlanFileError(f"not a plan: the file is not JSON ({error})") from None
        version = document.get("format_version") if isinstance(document, dict) else None
        if not isinstance(version, str):
            raise PlanFileError("not a plan: there is no `format_version`")
        if version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
            raise PlanFileError(
                f"the plan has format {version}; this lancens reads {FORMAT_VERSION}. Make the plan again."
            )
        try:
            plan = cls.model_validate_json(json.dumps(document))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise PlanFileError(f"the plan is damaged at {where}: {first['msg']}. Make the plan again.") from None
        _check_seal(document, plan.summary())
        count = len(plan.changes)
        for position, change in enumerate(plan.changes):
            if any(not 0 <= dependency < count or dependency == position for dependency in change.depends_on):
                raise PlanFileError(f"the plan is damaged: {change.address} depends on what is not in it")
        return plan


def _check_seal(document: Mapping[str, Any], summary: Summary) -> None:
    """Check that ``document`` has the digest it was saved with, and that ``summary`` counts its changes.

    Keys of a later minor version count, too, although they are ignored otherwise.
    """
    content = {key: value for key, value in document.items() if key != _DIGEST}
    if document.get(_DIGEST) != _digest_of(content):
        raise PlanFileError(
            "the plan was edited or damaged: its `digest` is not that of what it holds. Make the plan again."
        )
    counted = summary.model_dump(by_alias=True)
    said = content.get("summary")
    if not isinstance(said, dict) or any(said.get(sort) != count for sort, count in counted.items()):
        raise PlanFileError(
            "the plan was edited or damaged: its `summary` does not count its changes. Make the plan again."
        )


def _digest_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document, however it is laid out."""
    text = json.dumps(content, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
