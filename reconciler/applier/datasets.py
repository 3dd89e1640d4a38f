"""Check a table's storage right before a change, and write there.

It writes empty datasets to empty locations, adds nullable columns, changes names, nullability and metadata of columns,
and sets and removes tags. It never overwrites data.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from reconciler import storage
from reconciler.applier.live import StaleField
from reconciler.applier.step import StaleError, Target
from reconciler.backends.base import Backend
from reconciler.model import locations
from reconciler.model.clones import CloneBase
from reconciler.model.columns import Schema, ShownColumns
from reconciler.model.desired import Evolve, ExtraColumns
from reconciler.model.errors import (
    BackendError,
    PermissionDeniedError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)
from reconciler.model.live import DatasetVersion, LiveTable, Storage, StorageKind
from reconciler.model.redaction import is_stand_in
from reconciler.model.tags import FoundTags, TagTarget
from reconciler.planner.entries import Change
from reconciler.planner.facts import EntryColumns
from reconciler.planner.schemas import ColumnPair, SchemaDifference, compare

_KIND_TEXTS = {
    StorageKind.DATASET: "a Lance dataset",
    StorageKind.NOTHING: "nothing",
    StorageKind.NOT_LANCE: "files that are not a Lance dataset",
    StorageKind.DENIED: "not accessible",
}


def expect_data(change: Change, backend: Backend, location: str, columns: Schema) -> None:
    """Raise unless ``location`` holds the dataset that was planned on.

    Its schema must be ``columns``, unless they are empty.

    Raises:
        StaleError: it holds no dataset, another one, or one with other columns.
        ServiceUnavailableError: it cannot be opened.
    """
    options = backend.storage_options()
    data = storage.probe(location, options)
    if data.kind is not StorageKind.DATASET:
        raise _data_error(location, "a Lance dataset", data)
    expect_same_data(options, location, change.dataset, data.version)
    if columns and data.schema is not None:
        _expect_no_difference(location, compare(columns, data.schema))


def expect_same_data(
    options: Mapping[str, str], location: str, planned: DatasetVersion | None, latest: DatasetVersion | None = None
) -> None:
    """Raise if ``location`` holds another dataset than the plan was made on.

    Later versions of it are accepted. Storage is read only if ``latest``, the version just read, is not the ``planned``
    one. Nothing is compared if the planned version is unknown, or is no longer there: other writers may clean up old
    versions at any time.

    Raises:
        StaleError: the dataset's version of this number differs from the planned one, or it has no such version yet.
        ServiceUnavailableError: it cannot be opened.
    """
    if planned is None or planned == latest:
        return
    version = storage.version_at(location, options, planned.number)
    if isinstance(version, Storage):
        raise _data_error(location, "a Lance dataset", version)
    if version != planned and version.number <= planned.number:
        raise StaleError(f"data at {locations.redact(location)} {StaleField('data', str(planned), str(version))}")


def expect_no_data(backend: Backend, location: str) -> None:
    """Raise unless ``location`` is empty.

    Raises:
        StaleError: it holds something.
        ServiceUnavailableError: it cannot be opened.
    """
    data = storage.probe(location, backend.storage_options())
    if data.kind is not StorageKind.NOTHING:
        raise _data_error(location, "nothing", data)


def holds_new_dataset(options: Mapping[str, str], location: str) -> bool:
    """Return whether ``location`` holds an empty dataset as lancens creates it.

    It may have any columns.

    Raises:
        PermissionDeniedError, ServiceUnavailableError, InvalidTableStateError: it cannot be read.
    """
    data = storage.probe(location, options)
    return data.schema is not None and storage.is_fresh(location, data.schema, options)


def ensure_dataset(
    options: Mapping[str, str], location: str, columns: Schema, *, finished: bool, managed: bool = False
) -> bool:
    """Write an empty dataset with ``columns``; return False if it exists already.

    Args:
        options: for writing to the location.
        location: where the dataset is to be.
        columns: the planned schema. An empty dataset of exactly this schema is that of an interrupted run.
        finished: whether the catalog has the finished entry, so that the dataset may have rows by now.
        managed: whether the service keeps the versions of the dataset, so that lancens must not write it.

    Raises:
        StaleError: the location holds something else.
        ServiceUnavailableError: it cannot be opened.
        UnsupportedOperationError: the dataset would have to be written, and is ``managed``.
    """
    data = storage.probe(location, options)
    if data.kind is StorageKind.NOTHING:
        _expect_unmanaged(managed)
        try:
            storage.create_empty(location, columns, options)
        except TableAlreadyExistsError:  # a run of the same plan wrote it first
            data = storage.probe(location, options)
        else:
            return True
    if data.kind is StorageKind.DATASET:
        if storage.is_fresh(location, columns, options):
            return False
        if finished and data.schema is not None:
            difference = compare(columns, data.schema)
            if not difference.blocking(Evolve.NEVER, ExtraColumns.KEEP):
                return False
    raise _data_error(location, "nothing", data)


def ensure_clone(base: CloneBase, base_options: Mapping[str, str], options: Mapping[str, str], location: str) -> None:
    """Write a shallow clone of ``base`` at ``location``, unless it is there already; pin the base first.

    Raises:
        PermissionDeniedError: the tag of the pin cannot be set; nothing was written.
        StaleError: the tag by which the base was found is at another version.
        BackendError: as ``storage.write_clone``, which looks at the version itself.
    """
    if base.tag is not None:
        tags = storage.find_tags(base.location, base_options, {}, [base.tag])
        planned = str(TagTarget(base.version, base.branch))
        now = None if isinstance(tags, Storage) else tags.there.get(base.tag)
        if now != planned:
            field = StaleField(f"tag `{base.tag}`", planned, now)
            raise StaleError(f"{field.field} at {locations.redact(base.location)} {field}")
    if not base.pin:
        storage.write_clone(base, base_options, location, options)
        return
    is_ours: list[bool] = []
    try:  # not before: the tag of another clone there has the same name
        storage.write_clone(
            base, base_options, location, options, lambda: is_ours.append(pin_base(base, base_options, location))
        )
        if is_ours == [False]:  # another run of the same plan may have failed meanwhile, and removed its tag
            pin_base(base, base_options, location)
    except BackendError:
        left = storage.find_clone(location, options)
        if is_ours == [True] and isinstance(left, Storage) and left.kind is StorageKind.NOTHING:
            with suppress(BackendError):
                storage.unpin_base(base.location, location, base_options)
        raise


def pin_base(base: CloneBase, base_options: Mapping[str, str], location: str) -> bool:
    """Keep the base of the clone at ``location`` by a tag; return False if it is there.

    Raises:
        PermissionDeniedError: the credentials may not write there.
        BackendError: as ``storage.pin_base``.
    """
    try:
        return storage.pin_base(base, location, base_options)
    except PermissionDeniedError as error:
        raise PermissionDeniedError(
            f"`pin` needs credentials that may set the tag {storage.pin_of(location)} at "
            f"{locations.redact(base.location)}, which is denied: {error}"
        ) from error


def evolve_dataset(change: Change, options: Mapping[str, str], location: str, *, managed: bool = False) -> bool:
    """Add and alter columns of a dataset as planned.

    Return False if nothing is left to do. Columns are added before others are renamed: an apply that goes on after an
    interruption still finds the rename.

    Raises:
        StaleError: the dataset differs in more than the plan changes.
        ServiceUnavailableError: it cannot be opened.
        UnsupportedOperationError: it would have to be written, and is ``managed`` (see :func:`ensure_dataset`).
        InvalidTableStateError: a commit would set off the dataset's auto clean-up.
    """
    data = storage.probe(location, options)
    if data.schema is None:
        raise _data_error(location, "a Lance dataset", data)
    before, after = change.before_columns or (), change.after_columns or ()
    expect_same_data(options, location, change.dataset, data.version)
    difference, planned = compare(after, data.schema), compare(after, before)
    to_add, to_alter = set(planned.missing), {pair.desired.name: pair for pair in planned.altered}
    _expect_no_difference(
        location,
        replace(
            difference,
            missing=tuple(column for column in difference.missing if column not in to_add),
            altered=tuple(pair for pair in difference.altered if not _is_planned(pair, to_alter)),
        ),
    )
    if difference:
        _expect_unmanaged(managed)
        storage.expect_no_cleanup(location, data.cleanup, difference.commits)
    if difference.missing:
        storage.add_columns(location, difference.missing, options)
    if any(pair.is_renamed or pair.is_relaxed for pair in difference.altered):
        storage.evolve_columns(location, [pair.desired for pair in difference.altered], options)
    if any(pair.metadata for pair in difference.altered):
        storage.annotate_columns(location, {pair.desired.name: pair.metadata for pair in difference.altered}, options)
    return bool(difference)


def _is_planned(pair: ColumnPair, planned: Mapping[str, ColumnPair]) -> bool:
    """Return whether the plan alters this column in this way.

    The metadata to change must still have the values planned on.
    """
    expected = planned.get(pair.desired.name)
    if expected is None:
        return False
    before = expected.actual.metadata
    return all(
        key in expected.metadata
        and (is_stand_in(before.get(key, "")) or pair.actual.metadata.get(key) == before.get(key))
        for key in pair.metadata
    )


def _expect_unmanaged(managed: bool) -> None:
    if managed:
        raise UnsupportedOperationError(storage.MANAGED)


def _expect_no_difference(location: str, difference: SchemaDifference) -> None:
    """Raise StaleError with the texts of a schema difference, unless it is empty."""
    if difference:
        texts = "; ".join(difference.texts("the plan"))
        raise StaleError(f"columns at {locations.redact(location)}: {texts}")


def _data_error(location: str, planned: str, data: Storage) -> StaleError | ServiceUnavailableError:
    """Return the error for a location without what was planned on.

    ``data`` is what it holds, or why it cannot be opened.
    """
    detail = f" ({data.detail})" if data.detail else ""
    if data.kind is StorageKind.UNKNOWN:
        return ServiceUnavailableError(f"{locations.redact(location)} cannot be opened{detail}")
    return StaleError(f"{locations.redact(location)} planned on {planned}, now {_KIND_TEXTS[data.kind]}{detail}")


def show_columns(target: Target[LiveTable]) -> bool:
    """Write the planned columns to the entry of a table.

    Return False if the entry shows them already.

    Raises:
        StaleError: the entry shows, or the data has, other columns than planned on.
        BackendError: the catalog could not be read, or rejects the columns.
    """
    planned, backend = target.after.shown_columns, target.backend
    if planned is None:
        return False
    shown = backend.shown_columns([target.identifier]).get(target.identifier, ())
    if not EntryColumns(shown, planned):
        return False
    if not _can_follow(target.change, shown, planned):
        raise StaleError(f"columns of the entry: {', '.join(EntryColumns(shown, planned).texts())}")
    live = backend.load_table(target.identifier)
    location = live.location
    options = backend.table_storage_options(live)
    data = storage.probe(location, options)
    expect_same_data(options, location, target.change.dataset, data.version)
    columns = None if data.schema is None else backend.columns_to_show(data.schema)
    if columns is None or EntryColumns(planned, columns):
        texts = ", ".join(EntryColumns(planned, columns or ()).texts())
        raise StaleError(f"columns at {locations.redact(location)}, to be shown in the entry: {texts}")
    backend.show_columns(target.identifier, planned)
    return True


def tag_dataset(target: Target[LiveTable]) -> bool:
    """Set, move and remove the planned tags of a table's data.

    Return False if nothing is left to do.

    Raises:
        StaleError: a tag is neither where the plan saw it nor where it puts it.
        UnsupportedOperationError: the service keeps the versions of the data.
    """
    live, planned = target.backend.load_table(target.identifier), target.change.tags or FoundTags()
    before, desired = target.change.before, target.after.tags or {}
    # The dataset may have more tags, which are not lancens': the plan's states hold only those that it manages.
    names = sorted({*((before and before.tags) or {}), *desired})
    options = target.backend.table_storage_options(live, writes=True)
    tags = storage.find_tags(live.location, options, desired, names)
    if isinstance(tags, Storage):
        raise _data_error(live.location, "a Lance dataset", tags)
    current = tags.there
    stale = [name for name in names if current.get(name) not in (planned.there.get(name), desired.get(name))]
    if stale:
        fields = (StaleField(f"tag `{name}`", planned.there.get(name), current.get(name)) for name in stale)
        raise StaleError("; ".join(f"{field.field} {field}" for field in fields))
    targets = {name: desired.get(name) for name in names if current.get(name) != desired.get(name)}
    if targets:
        expect_same_data(options, live.location, target.change.dataset)
        _expect_unmanaged(live.managed_versioning)
        storage.write_tags(live.location, targets, options)
    return bool(targets)


def _can_follow(change: Change, shown: ShownColumns, planned: ShownColumns) -> bool:
    """Return whether an entry may get the ``planned`` columns.

    It must show the columns planned on, or only the first of the planned ones.
    """
    before = change.before.shown_columns if change.before else None
    return (before is not None and not EntryColumns(shown, before)) or not EntryColumns(shown, planned[: len(shown)])
