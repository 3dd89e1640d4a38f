"""The entries of a plan: changes, guards, blocked objects, notes, fingerprints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field, SerializerFunctionWrapHandler, WrapSerializer, computed_field, field_serializer

from reconciler.model import locations, ownership
from reconciler.model.auto_cleanup import AutoCleanup
from reconciler.model.clones import CloneBase
from reconciler.model.columns import Schema
from reconciler.model.desired import Origin, Source
from reconciler.model.live import DatasetVersion, StorageKind
from reconciler.model.maintenance import Maintain, Upkeep
from reconciler.model.names import Identifier, address
from reconciler.model.reasons import NoteCode, Params, ReasonCode
from reconciler.model.tags import FoundTags
from reconciler.planner import words
from reconciler.planner.views import Columns, Document, FieldChange, ObjectView, concealed_columns

Kind: TypeAlias = Literal["namespace", "table"]


def _serialize_redacted(base: CloneBase, write: SerializerFunctionWrapHandler) -> Any:
    return write(replace(base, location=locations.redact(base.location)))


_Base: TypeAlias = Annotated[CloneBase, WrapSerializer(_serialize_redacted)]
"""The base of a clone, saved without the secrets of its location; its columns have stand-ins for theirs already."""

Key: TypeAlias = tuple[str, Kind, Identifier]
"""Catalog, kind and identifier of an object."""


def concealed_base(base: CloneBase, table: str) -> CloneBase:
    """Return the base of the clone at an address with stand-ins for the secrets of its columns."""
    return base if base.columns is None else replace(base, columns=concealed_columns(base.columns, table))


class Action(StrEnum):
    """What a change does."""

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
    TAG = "tag"
    DEREGISTER_TABLE = "deregister-table"
    COMPACT = "compact"
    BUILD_INDEX = "build-index"
    OPTIMIZE_INDEX = "optimize-index"

    @property
    def kind(self) -> Kind:
        """The kind of object it changes."""
        return "namespace" if self.value.endswith("namespace") else "table"

    @property
    def verb(self) -> str:
        """Its first word, such as ``create``."""
        return self.value.partition("-")[0]

    @property
    def sort(self) -> str:
        """The field of a plan's summary that counts it, such as ``update``."""
        return "update" if self.verb in ("alter", "relocate", "tag") else self.verb

    @property
    def removes(self) -> bool:
        """Whether it removes an entry from its catalog."""
        return self in (Action.DROP_NAMESPACE, Action.DEREGISTER_TABLE)


_SYMBOLS = {"compact": "~", "optimize": "~", "update": "~", "move": ">", "deregister": "-", "drop": "-"}
"""The symbols of changes by ``Action.sort``; sorts that create an object have ``+``."""


class _ObjectDocument(Document):
    """Base of the parts of a plan that are about one namespace or table."""

    catalog: str
    kind: Kind
    identifier: tuple[str, ...] = Field(min_length=1)

    @property
    def address(self) -> str:
        """The object's address, such as ``lake/features/users``."""
        return address(self.catalog, self.identifier)

    @property
    def key(self) -> Key:
        """The object's unique key."""
        return self.catalog, self.kind, self.identifier

    @property
    def namesake(self) -> Key:
        """The key that an object of the other kind with this name has: a namespace's for a table, and vice versa."""
        return self.catalog, "namespace" if self.kind == "table" else "table", self.identifier


class Entry(_ObjectDocument):
    """A decision about one object; ``source`` is the line of the manifest that it follows from."""

    code: ReasonCode
    params: Params = Field(default_factory=Params)
    source: Source | None = None

    @computed_field(description="Why, in words.")  # type: ignore[prop-decorator]
    @property
    def reason(self) -> str:
        """Why, in words."""
        return words.reason(self.code, self.params)

    def is_like(self, other: Entry) -> bool:
        """Return whether both decide the same, wherever their manifests say so."""
        apart: dict[str, Any] = {"source": None, "depends_on": ()}
        return self.model_copy(update=apart) == other.model_copy(update=apart)


class _StateDocument(_ObjectDocument):
    """Base of the parts with states of their object, which are saved with stand-ins for secrets."""

    secret_keys: tuple[str, ...] = Field(
        default=(),
        description="The properties whose values come from the environment or a file: stand-ins are in their place.",
    )

    @field_serializer("before", "after", "found", "moved", "view", mode="wrap", check_fields=False)
    def _serialize_concealed(self, view: ObjectView | None, write: SerializerFunctionWrapHandler) -> Any:
        return write(None if view is None else self.concealed(view))

    def concealed(self, view: ObjectView) -> ObjectView:
        """Return ``view``, a state of the object, with stand-ins for secrets."""
        return view.concealed(self.stand_in_address, self.secret_keys)

    @property
    def stand_in_address(self) -> str:
        """The address from which stand-ins are derived."""
        return self.address


class UpkeepJob(Document):
    """The cost of a change by `maintain`, the state it was planned on, and what the manifest asks for."""

    index: str | None = Field(default=None, description="The name of the index that is built or brought up to date.")
    reads: int | None = Field(
        description="Bytes to read; carried out unless it has become more than twice as many. Null if unknown."
    )
    writes: int | None = Field(description="Bytes to write, by which the dataset grows on disk. Null if unknown.")
    rows: int = Field(default=0, description="Rows to index.")
    config: str = Field(description="The digest of the dataset's configuration.")
    indices: tuple[str, ...] = Field(default=(), description="The indices that the dataset had.")
    wanted: Maintain = Field(description="What the table's block asks for.")

    @property
    def most_bytes(self) -> int | None:
        """The most bytes that the job may read when it is carried out; None for no limit."""
        return None if self.reads is None else 2 * self.reads

    @property
    def bytes(self) -> int | None:
        """The bytes to read and to write; None if unknown."""
        return None if self.reads is None or self.writes is None else self.reads + self.writes


class Change(Entry, _StateDocument):
    """One step of a plan.

    ``before`` is None if the object does not exist, ``after`` is None if it is removed. ``depends_on`` are the
    positions in ``Plan.changes`` of changes that must succeed first. A move has the new name as its ``identifier``;
    its ``before`` is the state of ``moved_from``, and ``found`` that of an entry that already has the new name.
    """

    action: Action
    moved_from: tuple[str, ...] | None = Field(default=None, description="The name that a moved table has before.")
    takes_from: tuple[str, ...] | None = Field(
        default=None,
        description="The old name of a renamed namespace, from which the new one copies its other properties.",
    )
    before: ObjectView | None = None
    after: ObjectView | None = None
    found: ObjectView | None = Field(
        default=None, description="The entry under the new name of a moved table, which an interrupted move left."
    )
    fields: tuple[FieldChange, ...] = ()
    probe: bool = Field(default=True, description="Whether storage is opened to plan this, and again to do it.")
    storage: StorageKind | None = Field(
        default=None, description="The content of the table's location; absent where it made no difference."
    )
    dataset: DatasetVersion | None = Field(
        default=None, description="The latest version of the data; a dataset without it is not the planned one."
    )
    tags: FoundTags | None = Field(default=None, description="Those tags of the data that the change is about.")
    mirror_of: Origin | None = Field(
        default=None, description="The table that this one mirrors or clones; its change comes first."
    )
    clone: _Base | None = Field(
        default=None,
        description="The version of `mirror_of` that the data of a new or relocated table is a shallow clone of.",
    )
    depends_on: tuple[int, ...] = ()
    job: UpkeepJob | None = Field(default=None, description="Of a change of the data by `lancens maintain`.")

    @property
    def symbol(self) -> str:
        """``+``, ``~``, ``>`` or ``-``."""
        return _SYMBOLS.get(self.action.sort, "+")

    @property
    def is_new(self) -> bool:
        """Whether this creates an object of this name."""
        return self.before is None or (self.moved_from is not None and self.found is None)

    @property
    def removes(self) -> bool:
        """Whether it removes an entry from its catalog or a tag from data, or replaces lost data."""
        return self.action.removes or self.removes_tags or self.recreates

    @property
    def recreates(self) -> bool:
        """Whether it creates an empty dataset in place of lost data."""
        return self.is_empty_data and self.before is not None and self.before.data

    @property
    def removes_tags(self) -> bool:
        """Whether it removes a tag, so that a clean-up may delete the version that had it."""
        before, after = (view.tags or {} if view else {} for view in (self.before, self.after))
        return not before.keys() <= after.keys()

    @property
    def destination(self) -> str | None:
        """The location of the table afterwards; None if it is removed."""
        return self.after.location if self.after else None

    @property
    def left_clone(self) -> str | None:
        """The location of the clone that the entry has no more afterwards; None if it has it still, or had none."""
        before = self.before
        if before is None or before.clone is None:
            return None
        stays = self.after is not None and locations.same(self.after.location, before.location)
        return None if stays else before.location

    @property
    def unpinned(self) -> str | None:
        """The mark of the clone that the entry leaves, if a tag of lancens keeps its base until then; else None."""
        mark = self.before.clone if self.before is not None and self.left_clone is not None else None
        return mark if ownership.is_pinned(mark) else None

    @property
    def is_first_data(self) -> bool:
        """Whether it writes the table's first dataset, as a new table or a moved one without data needs."""
        has_content = self.after_columns is not None or self.clone is not None
        is_written = has_content and self.storage is StorageKind.NOTHING
        return self.action is Action.CREATE_TABLE or is_written

    @property
    def is_empty_data(self) -> bool:
        """Whether it writes the table's first dataset, without rows."""
        return self.is_first_data and self.clone is None

    @property
    def before_columns(self) -> Schema | None:
        """The columns of the data before, for a clone those of its base; None if the plan is not about them."""
        if self.clone is not None:
            return self.clone.columns
        return self.before.columns if self.before else None

    @property
    def after_columns(self) -> Schema | None:
        """The columns of the data afterwards; None if the plan is not about them."""
        return self.after.columns if self.after else None

    @property
    def managed_keys(self) -> frozenset[str]:
        """The property keys that the change compares or sets."""
        views = (view for view in (self.before, self.after) if view is not None)
        return frozenset(key for view in views for key in view.properties)


class Protection(Entry):
    """An object that is kept because it is protected; ``would`` is the removal that was planned."""

    would: Action

    symbol: ClassVar[str] = "!"


class Blocked(Entry, _StateDocument):
    """An object that cannot be changed as the manifest asks, and stays as it is.

    Its fields record the states that led to this: ``before`` is that of the object, None if it does not exist.
    ``location`` is where a table is or would be.
    """

    before: ObjectView | None = None
    moved_from: tuple[str, ...] | None = Field(default=None, description="The current name of a table to be moved.")
    moved: ObjectView | None = Field(default=None, description="The state of the table under `moved_from`.")
    location: str | None = None
    storage: StorageKind | None = Field(default=None, description="The content of `location`, if it was probed.")
    columns: Columns | None = Field(default=None, description="The columns of the dataset at `location`.")
    unreferenced: str | None = Field(
        default=None, description="The location of a dataset without an entry that may be the table's data."
    )
    detail: str = Field(default="", description="The answer of storage, if it did not show what `location` holds.")
    cleanup: AutoCleanup | None = Field(
        default=None, description="The automatic clean-up that the dataset at `location` is configured for."
    )
    tags: FoundTags | None = Field(default=None, description="Those tags of the data that the block is about.")
    clone: _Base | None = Field(default=None, description="The version that its data would be a clone of.")
    held_by: str = Field(default="", description="The table of another kind that has its name in the catalog.")
    kept_as: tuple[str, ...] | None = Field(
        default=None, description="The name under which the service would keep it, if that differs."
    )

    symbol: ClassVar[str] = "!"

    @property
    def is_new(self) -> bool:
        """Whether this would create an object of this name."""
        return self.before is None

    @property
    def destination(self) -> str | None:
        """Where the table is or would be."""
        return self.location

    @computed_field(description="What to write or to run, in words.")  # type: ignore[prop-decorator]
    @property
    def remedy(self) -> str:
        """What to write or to run, in words."""
        return words.remedy(self.code, self.params)

    @field_serializer("location", "unreferenced")
    def _redact_location(self, location: str | None) -> str | None:
        return locations.redact(location)

    @field_serializer("columns", mode="wrap")
    def _serialize_columns(self, columns: Schema | None, write: SerializerFunctionWrapHandler) -> Any:
        return write(concealed_columns(columns, self.address))


class Note(Document):
    """A remark on a catalog that changes nothing."""

    catalog: str
    code: NoteCode
    params: Params = Field(default_factory=Params)

    @computed_field(description="The sentence.")  # type: ignore[prop-decorator]
    @property
    def message(self) -> str:
        """The note in words."""
        return words.message(self.code, self.params)


class Fingerprint(_StateDocument):
    """The state of an object when the plan was made; ``view`` is None if it did not exist.

    ``occupied`` marks a namespace that would be dropped if it were empty. ``moved_to`` is a moved table's new name,
    from which the stand-ins of both its states are derived.
    """

    moved_to: tuple[str, ...] | None = None
    managed_keys: tuple[str, ...] = ()
    view: ObjectView | None = None
    digest: str | None = None
    occupied: bool = False
    upkeep: Upkeep | None = Field(default=None, description="The state of the data that jobs of `maintain` depend on.")

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
        upkeep: Upkeep | None = None,
    ) -> Fingerprint:
        """Return the fingerprint of ``view``, with its digest."""
        fingerprint = cls(
            catalog=catalog,
            kind=kind,
            identifier=identifier,
            managed_keys=tuple(sorted(managed_keys)),
            secret_keys=tuple(sorted(secret_keys)),
            view=view,
            occupied=occupied,
            moved_to=moved_to,
            upkeep=upkeep,
        )
        return fingerprint if view is None else fingerprint.model_copy(update={"digest": fingerprint.digest_of(view)})

    @property
    def stand_in_address(self) -> str:
        """The address from which stand-ins are derived."""
        return self.address if self.moved_to is None else address(self.catalog, self.moved_to)

    def digest_of(self, view: ObjectView | None) -> str | None:
        """Return the digest of a state of the object; None if it does not exist."""
        return None if view is None else self.concealed(view).digest()

    def matches(self, view: ObjectView | None) -> bool:
        """Return whether ``view`` has the recorded state."""
        return self.digest == self.digest_of(view)
