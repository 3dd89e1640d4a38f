"""Change tags, branches, column names and metadata, and restore versions.

No change here writes rows or removes a file of a version.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from reconciler.model import locations
from reconciler.model.auto_cleanup import AutoCleanup
from reconciler.model.columns import LAYOUTS
from reconciler.model.errors import (
    InvalidInputError,
    InvalidTableStateError,
    TableBranchAlreadyExistsError,
    TableColumnNotFoundError,
    TableTagAlreadyExistsError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
)
from reconciler.model.tags import MAIN_BRANCH, SEGMENT
from reconciler.storage.commits import expect_no_cleanup, next_versions
from reconciler.storage.dataset_writes import expect_column_name
from reconciler.storage.opening import expect_admitted
from reconciler.storage.pylance import expression_error, is_denied, or_none
from reconciler.storage.reading import Reference, has_tag, list_references, opened
from reconciler.storage.references import BRANCHES

_TAG, _BRANCH = re.compile(SEGMENT), re.compile(rf"{SEGMENT}(/{SEGMENT})*")
_BRANCH_INTERNALS = re.compile(r"/(_|data(/|$))")
"""The folders of a branch itself, such as ``_versions``, in which Lance lists files and cleans up."""
_ENCODED_SLASH, _MAX_NAME = "%252F", 200
"""How pylance 14 encodes a slash in the file name of a branch, and the most characters of that name."""
_TYPE_KEY_PREFIXES = ("ARROW:extension:", "lance-encoding:")
"""Prefixes of metadata keys that are part of a field's type: without them, pylance reads another type."""


def _is_type_key(key: str) -> bool:
    return key.startswith(_TYPE_KEY_PREFIXES) or key in LAYOUTS


@dataclass(frozen=True, slots=True)
class FieldMetadata:
    """What to write into the metadata of the field at ``path``; None removes a key.

    ``replaces``: keys that are not named are removed, too.
    """

    path: str
    values: Mapping[str, str | None]
    replaces: bool = False


def create_tag(location: str, options: Mapping[str, str], name: str, at: Reference) -> None:
    """Create a tag of the version ``at``.

    Raises:
        InvalidInputError: Lance accepts no tag of this name.
        TableTagAlreadyExistsError: the dataset has the tag.
        BackendError: see :func:`opened`.
    """
    _check_name("tag", _TAG, name)
    with opened(location, options, at) as dataset:

        def expect_none() -> None:
            if has_tag(dataset, name):
                raise TableTagAlreadyExistsError(f"{locations.redact(location)} has a tag `{name}` already")

        with _explaining_failure(expect_none):
            dataset.tags.create(name, (at.branch, dataset.version))


def update_tag(location: str, options: Mapping[str, str], name: str, at: Reference) -> None:
    """Move an existing tag to the version ``at``.

    Raises:
        TableTagNotFoundError: the dataset has no such tag.
        BackendError: see :func:`opened`.
    """
    with opened(location, options, at) as dataset, _explaining_failure(partial(_expect_tag, dataset, location, name)):
        dataset.tags.update(name, (at.branch, dataset.version))


def delete_tag(location: str, options: Mapping[str, str], name: str) -> None:
    """Delete a tag; its version stays.

    Raises:
        TableTagNotFoundError: the dataset has no such tag.
        BackendError: see :func:`opened`.
    """
    with opened(location, options) as dataset, _explaining_failure(partial(_expect_tag, dataset, location, name)):
        dataset.tags.delete(name)


@contextmanager
def _explaining_failure(expect: Callable[[], None]) -> Iterator[None]:
    """Call ``expect`` before the block, and again if it fails: another client may have caused that."""
    expect()
    try:
        yield
    except (OSError, ValueError):
        expect()
        raise


def _expect_tag(dataset: Any, location: str, name: str) -> None:
    if not has_tag(dataset, name):
        raise TableTagNotFoundError(f"{locations.redact(location)} has no tag `{name}`")


def create_branch(location: str, options: Mapping[str, str], name: str, at: Reference) -> None:
    """Create a branch that starts at the version ``at``.

    Raises:
        InvalidInputError: Lance accepts no branch of this name.
        TableBranchAlreadyExistsError: the dataset has the branch.
        InvalidTableStateError: its folder is there alone, from which pylance 14 cannot go on.
        BackendError: see :func:`opened`.
    """
    _check_name("branch", _BRANCH, name)
    if _BRANCH_INTERNALS.search(name):
        raise InvalidInputError(
            f"`{name}` cannot name a branch: behind a `/`, Lance keeps `data` and `_…` for its files"
        )
    with opened(location, options, at) as dataset:

        def expect_none() -> None:
            if name in (MAIN_BRANCH, *list_references(dataset.branches)):
                raise TableBranchAlreadyExistsError(f"{locations.redact(location)} has a branch `{name}` already")

        def expect_no_folder() -> None:
            expect_none()
            if or_none(partial(dataset.checkout_version, (name, None))) is not None:
                raise InvalidTableStateError(
                    f"{locations.redact(location)} holds `{BRANCHES}/{name}` without the branch: another client is "
                    "creating it, or stopped halfway; try again later, or take another name"
                )

        expect_no_folder()
        try:
            dataset.create_branch(name, (at.branch, dataset.version))
        except OSError as error:
            if not is_denied(error, str(error)):
                expect_no_folder()
            raise


def _check_name(kind: str, accepted: re.Pattern[str], name: str) -> None:
    if accepted.fullmatch(name) is None:
        raise InvalidInputError(
            f"`{name}` cannot name a {kind}: use ASCII letters, digits, `-`, `_` and single dots inside"
        )
    if len(name.replace("/", _ENCODED_SLASH)) > _MAX_NAME:
        raise InvalidInputError(f"`{name[:40]}…` is too long to name a {kind}: expected at most {_MAX_NAME} characters")


def restore(location: str, options: Mapping[str, str], version: int) -> int:
    """Commit the content of ``version`` as the next version, and return its number.

    Raises:
        TableVersionNotFoundError: the main branch has no such version.
        ConcurrentModificationError: another writer committed in between, whose rows would no longer be seen.
        InvalidTableStateError: the dataset cleans up then, by its configuration or by that of ``version``.
        BackendError: see :func:`next_versions`.
    """
    with next_versions(location, options) as dataset:
        if version not in {known["version"] for known in dataset.version_refs()}:
            raise TableVersionNotFoundError(
                f"{locations.redact(location)} has no version {version}; the latest is {dataset.version}"
            )
        restored = dataset.checkout_version(version)
        expect_admitted(location, options, restored)
        expect_no_cleanup(location, AutoCleanup.of(restored.config(), int(dataset.version)))
        restored.restore()
        dataset.checkout_latest()
        return int(dataset.version)


def replace_schema_metadata(
    location: str, options: Mapping[str, str], metadata: Mapping[str, str]
) -> Mapping[str, str]:
    """Replace the metadata of the schema, and return the metadata after the commit.

    Raises:
        BackendError: see :func:`next_versions`.
    """
    with next_versions(location, options) as dataset:
        written: Mapping[str, str] = dataset.update_schema_metadata(dict(metadata), replace=True)
        return written


def update_field_metadata(
    location: str, options: Mapping[str, str], updates: Sequence[FieldMetadata]
) -> tuple[int, Mapping[str, Mapping[str, str]]]:
    """Write metadata of fields in one commit; return its version and the result of each path.

    Raises:
        TableColumnNotFoundError: the dataset has no such field.
        InvalidInputError: a path is named twice, or a key is a part of the field's type.
        BackendError: see :func:`next_versions`.
    """
    for key in (key for update in updates for key in update.values if _is_type_key(key)):
        raise InvalidInputError(f"the key `{key}` is a part of the field's type, which cannot be changed")
    with next_versions(location, options) as dataset:
        written: dict[str, dict[str, str]] = {}
        fields = _fields_at(dataset, location, [update.path for update in updates])
        for update, field in zip(updates, fields, strict=True):
            before: Mapping[str, str] = field.metadata
            remaining = {k: v for k, v in before.items() if not update.replaces or _is_type_key(k)}
            updated = {**remaining, **update.values}
            written[update.path] = {key: value for key, value in updated.items() if value is not None}
        dataset.update_field_metadata(written, replace=True)
        return int(dataset.version), written


def alter_columns(location: str, options: Mapping[str, str], alterations: Sequence[Mapping[str, Any]]) -> int:
    """Rename columns and change whether they are nullable, and return the new version; no file is rewritten.

    Args:
        alterations: as pylance takes them: ``path``, and ``name`` or ``nullable``.

    Raises:
        TableColumnNotFoundError: the dataset has no such column.
        InvalidInputError: Lance cannot have the name, it is taken, or a column with nulls must not have any. A column
            is named twice, or nothing of it is to change.
        BackendError: see :func:`next_versions`.
    """
    for each in alterations:
        if len(each) == 1:
            raise InvalidInputError(f"column `{each['path']}`: neither a new name nor its nullability is given")
    with next_versions(location, options) as dataset:
        fields = _fields_at(dataset, location, [each["path"] for each in alterations])
        altered = zip(fields, alterations, strict=True)
        _check_names(dataset, {int(field.id()): each["name"] for field, each in altered if "name" in each})
        try:
            dataset.alter_columns(*alterations)
        except (OSError, ValueError) as error:
            reason = expression_error(error)
            if reason is None:
                raise
            raise InvalidInputError(f"{locations.redact(location)}: {reason}") from None
        return int(dataset.version)


def _check_names(dataset: Any, new: Mapping[int, str]) -> None:
    """Raise if a ``new`` name, by field id, is invalid or duplicates a sibling's: pylance 14 writes duplicates."""
    for name in new.values():
        expect_column_name(name)
    levels = [dataset.lance_schema.fields()]
    while levels:
        fields = levels.pop()
        levels += [field.children() for field in fields]
        after = Counter(new.get(field.id(), field.name()).casefold() for field in fields)
        for name in (new[field.id()] for field in fields if field.id() in new):
            if after[name.casefold()] > 1:
                raise InvalidInputError(f"the table has a column `{name}` already")


def _fields_at(dataset: Any, location: str, paths: Sequence[str]) -> list[Any]:
    """Return the field at each path.

    Raises:
        TableColumnNotFoundError: the dataset has no such field.
        InvalidInputError: there is no path, or two lead to one field.
    """
    fields_by_id: dict[int, Any] = {}
    for path in paths:
        field = dataset.lance_schema.field(path)
        if field is None:
            raise TableColumnNotFoundError(f"{locations.redact(location)} has no column `{path}`")
        if field.id() in fields_by_id:
            raise InvalidInputError(f"column `{path}` is named twice")
        fields_by_id[field.id()] = field
    if not fields_by_id:
        raise InvalidInputError("the request names no column")
    return list(fields_by_id.values())
