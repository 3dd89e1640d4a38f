"""Keep the base of a clone by a tag, named after the location of the clone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from reconciler.model import locations
from reconciler.model.clones import CloneBase
from reconciler.model.errors import ConcurrentModificationError, TableAlreadyExistsError
from reconciler.model.live import Storage, StorageKind
from reconciler.model.tags import PIN, TagTarget
from reconciler.storage.cloning import expect_base
from reconciler.storage.tags import find_tags, write_tags

_DIGITS = 20
_NO_DATASET = (StorageKind.NOTHING, StorageKind.NOT_LANCE)


def pin_of(target: str) -> str:
    """Return the name of the tag that keeps the base of the clone at ``target``."""
    return f"{PIN}{hashlib.sha256(locations.normalise(target).encode()).hexdigest()[:_DIGITS]}"


def pin_base(base: CloneBase, target: str, options: Mapping[str, str]) -> bool:
    """Tag the version of a base, so that no clean-up removes the files of its clone; return False if it has the tag.

    Args:
        base: the version.
        target: the location of the clone.
        options: those of the base; they must allow writing.

    Raises:
        ConcurrentModificationError: the dataset has no such version any more.
        BackendError: see :func:`write_tags`.
    """
    expect_base(base, options)
    name, to = pin_of(target), str(TagTarget(base.version, base.branch))
    is_new = not _has_tag(base, name, to, options)
    try:
        if is_new:
            write_tags(base.location, {name: to}, options)
    except TableAlreadyExistsError:
        if not _has_tag(base, name, to, options):
            raise
        is_new = False  # another run of the same plan has just set it
    try:
        expect_base(base, options)
    except ConcurrentModificationError:
        if is_new:
            unpin_base(base.location, target, options)
        raise
    return is_new


def _has_tag(base: CloneBase, name: str, to: str, options: Mapping[str, str]) -> bool:
    found = find_tags(base.location, options, {}, [name])
    return not isinstance(found, Storage) and found.there.get(name) == to


def unpin_base(location: str, target: str, options: Mapping[str, str]) -> bool:
    """Remove the tag from the dataset at ``location``; its version stays. Return False without a dataset or tag.

    Raises:
        BackendError: see :func:`write_tags`.
    """
    name = pin_of(target)
    found = find_tags(location, options, {}, [name])
    if found.kind in _NO_DATASET if isinstance(found, Storage) else name not in found.there:
        return False
    write_tags(location, {name: None}, options)
    return True
