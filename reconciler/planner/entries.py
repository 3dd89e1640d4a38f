"""What a plan says of single objects: what is done to them, and what is not, and why."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import Field, SerializerFunctionWrapHandler, computed_field, field_serializer

from reconciler.model import locations
from reconciler.model.auto_cleanup import AutoCleanup
from reconciler.model.columns import Schema
from reconciler.model.desired import Origin, Source
from reconciler.model.live import StorageKind
from reconciler.model.names import Identifier, address
from reconciler.model.reasons import NoteCode, Params, ReasonCode
from reconciler.planner import words
from reconciler.planner.views import Columns, Document, FieldChange, ObjectView, concealed_columns

Kind: TypeAlias = Literal["namespace", "table"]

Key: TypeAlias = tuple[str, Kind, Identifier]
"""Catalog, kind and identifier of an object."""


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
    MOVE_TABLE = "move-table"
    DEREGISTER_TABLE = "deregister-table"

    @property
    def kind(self) -> Kind:
        """The kind of object the action is about."""
        return "namespace" if self.value.endswith("namespace") else "table"

    @property
    def verb(self) -> str:
        """What it does to the object, in one word."""
        return self.value.partition("-")[0]

    @property
    def sort(self) -> str:
        """The word under which a plan's summary counts it."""
        return "update" if self.verb in ("alter", "relocate") else self.verb

    @property
    def removes(self) -> bool:
        """Whether the action takes an object out of its catalog."""
        return self in (Action.DROP_NAMESPACE, Action.DEREGISTER_TABLE)


_SYMBOLS = {"update": "~", "move": ">", "deregister": "-", "drop": "-"}
"""How the sorts of actions are shown that make no object."""


class _Subject(Document):
    """Something about one object."""

    catalog: str
    kind: Kind
    identifier: tuple[str, ...]

    @property
    def address(self) -> str:
        """What a person calls the object: ``catalog/namespace/table``."""
        return address(self.catalog, self.identifier)

    @property
    def key(self) -> Key:
        """What tells the object apart from all others."""
        return self.catalog, self.kind, self.identifier

    @property
    def namesake(self) -> Key:
        """The object of the other kind with the same name."""
        return self.catalog, "namespace" if self.kind == "table" else "table", self.identifier


class Entry(_Subject):
    """What a plan says of one object; ``source`` is where the manifest asks for it."""

    code: ReasonCode
    params: Params = Field(default_factory=Params)
    source: Source | None = None

    @computed_field(description="Why, in words.")  # type: ignore[prop-decorator]
    @property
    def reason(self) -> str:
        """Why, in words."""
        return words.reason(self.code, self.params)


class _Shown(_Subject):
    """Something that shows states of one object, whose secrets have stand-ins in the saved form."""

    secret_keys: tuple[str, ...] = Field(
        default=(),
        description="The properties whose values come from the environment or a file: stand-ins are in their place.",
    )

    @field_serializer("before", "after", "found", "moved", "view", mode="wrap", check_fields=False)
    def _concealed(self, view: ObjectView | None, write: SerializerFunctionWrapHandler) -> Any:
        return write(None if view is None else self.concealed(view))

    def concealed(self, view: ObjectView) -> ObjectView:
        """Return a state of the object as the saved form shows it."""
        return view.concealed(self.stand_ins_of, self.secret_keys)

    @property
    def stand_ins_of(self) -> str:
        """The address that the stand-ins are made with."""
        return self.address


class Change(Entry, _Shown):
    """One step of a plan.

    ``before`` None: nothing is there; ``after`` None: nothing will be.
    ``depends_on``: positions in ``Plan.changes`` that must have succeeded first. A move is of the new name; its
    ``before`` is the state of ``moved_from``.
    """

    action: Action
    moved_from: tuple[str, ...] | None = Field(default=None, description="The name that a moved table has before.")
    takes_from: tuple[str, ...] | None = Field(
        default=None,
        description="The namespace whose other properties a new one gets, as it is that one under another name.",
    )
    before: ObjectView | None = None
    after: ObjectView | None = None
    found: ObjectView | None = Field(
        default=None, description="What is there under the new name of a moved table: an interrupted move left it."
    )
    fields: tuple[FieldChange, ...] = ()
    probe: bool = Field(default=True, description="Whether storage is opened to plan this, and again to do it.")
    storage: StorageKind | None = Field(
        default=None, description="What was found where the table is or would be; absent where it made no difference."
    )
    mirror_of: Origin | None = Field(
        default=None, description="The table of another catalog that this one follows, and after whose change it comes."
    )
    depends_on: tuple[int, ...] = ()

    @property
    def sort(self) -> str:
        """The word under which the plan's summary counts the change."""
        return self.action.sort

    @property
    def symbol(self) -> str:
        """``+``, ``~``, ``>`` or ``-``, as every renderer shows the change."""
        return _SYMBOLS.get(self.sort, "+")

    @property
    def is_new(self) -> bool:
        """Whether this creates an object of this name."""
        return self.before is None or (self.moved_from is not None and self.found is None)

    @property
    def destination(self) -> str | None:
        """Where a table is to be; None for one that goes."""
        return self.after.location if self.after else None

    @property
    def managed_keys(self) -> frozenset[str]:
        """The property keys this change is about."""
        views = (view for view in (self.before, self.after) if view is not None)
        return frozenset(key for view in views for key in view.properties)


class Protection(Entry):
    """An object that would be removed were it not protected: kept, and said so."""

    would: Action

    symbol: ClassVar[str] = "!"


class Blocked(Entry, _Shown):
    """An object that cannot be made what the manifest asks for; it stays as it is.

    What it was decided by: ``before`` is the state it was found in, None where it is not there; ``location`` is where a
    table is, or would be if it could.
    """

    before: ObjectView | None = None
    moved_from: tuple[str, ...] | None = Field(default=None, description="The name that a table to be moved has.")
    moved: ObjectView | None = Field(default=None, description="The state that one was found in.")
    location: str | None = None
    storage: StorageKind | None = Field(default=None, description="What was found there, where it was looked at.")
    columns: Columns | None = Field(default=None, description="The columns of the data found there.")
    unreferenced: str | None = Field(
        default=None, description="Where a dataset is that may be the table's data, and that no entry has."
    )
    detail: str = Field(default="", description="What storage answered, where it did not say what is there.")
    cleanup: AutoCleanup | None = Field(default=None, description="When the dataset found there cleans itself up.")
    held_by: str = Field(default="", description="The table of another kind that has its name in the catalog.")
    kept_as: tuple[str, ...] | None = Field(
        default=None, description="The name that the service keeps it under, where that is another one."
    )

    symbol: ClassVar[str] = "!"

    @property
    def is_new(self) -> bool:
        """Whether this would create an object of this name."""
        return self.before is None

    @property
    def destination(self) -> str | None:
        """Where a table is, or would be."""
        return self.location

    @computed_field(description="What to write or to run, in words.")  # type: ignore[prop-decorator]
    @property
    def remedy(self) -> str:
        """What to write or to run, in words."""
        return words.remedy(self.code, self.params)

    @field_serializer("location", "unreferenced")
    def _redacted(self, location: str | None) -> str | None:
        return locations.redact(location)

    @field_serializer("columns", mode="wrap")
    def _concealed_columns(self, columns: Schema | None, write: SerializerFunctionWrapHandler) -> Any:
        return write(concealed_columns(columns, self.address))


class Note(Document):
    """A sentence worth reading that changes nothing."""

    catalog: str
    code: NoteCode
    params: Params = Field(default_factory=Params)

    @computed_field(description="The sentence.")  # type: ignore[prop-decorator]
    @property
    def message(self) -> str:
        """The sentence."""
        return words.message(self.code, self.params)


class Fingerprint(_Shown):
    """The state in which an object was when the plan was made; ``view`` None: it was not there.

    ``occupied``: a namespace that would be dropped were it empty, and stays because of what it holds. ``moved_to``: the
    name that a table is to have, with which the stand-ins of both its states are made.
    """

    moved_to: tuple[str, ...] | None = None
    managed_keys: tuple[str, ...] = ()
    view: ObjectView | None = None
    digest: str | None = None
    occupied: bool = False

    @classmethod
    def of(
        cls,
        catalog: str,
        kind: Kind,
        identifier: Identifier,
        view: ObjectView | None,
        managed_keys: Iterable[str],
        *,
        secret_keys: Iterable[str] = (),
        occupied: bool = False,
        moved_to: Identifier | None = None,
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
            moved_to=moved_to,
        )
        return of.model_copy(update={"digest": of.digest_of(view)})

    @property
    def stand_ins_of(self) -> str:
        """The address that the stand-ins are made with."""
        return self.address if self.moved_to is None else address(self.catalog, self.moved_to)

    def digest_of(self, view: ObjectView | None) -> str | None:
        """Return the digest of a state of the object; None where it is not there."""
        return None if view is None else self.concealed(view).digest()

    def is_of(self, view: ObjectView | None) -> bool:
        """Return whether ``view`` is still the state that was planned on."""
        return self.digest == self.digest_of(view)
