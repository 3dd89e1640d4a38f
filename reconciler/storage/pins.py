"""Keep the base of a clone by a tag, named after the location of the clone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from reconciler.model import locations
from reconciler.model.clones import CloneBase
from reconciler.model.errors import ConcurrentModificationError
from reconciler.model.live import Storage, StorageKind
from reconciler.model.tags import PIN, TagTarget
from reconciler.storage.cloning import expect_base
from reconciler.storage.tags import find_tags, write_tags

_DIGITS = 20
_NO_DATASET = (StorageKind.NOTHING, StorageKind.NOT_LANCE)


def pin_of(target: str) -> str:
    """Return the name of the tag that keeps the base of the clone at ``target``."""
    return f"{PIN}{hashlib.sha256(locations.normalise(target).encode()).hexdigest()[:_DIGITS]}"


def pin_base(base: CloneBase, target: str, options: Mapping[str, str]) -> None:
    """Tag the version of a base, so that no clean-up removes the files of its clone; done already is no error.

    Args:
        base: the version.
        target: the location of the clone.
        options: those of the base; they must allow writing.

    Raises:
        ConcurrentModificationError: the dataset has no such version any more.
        BackendError: see :func:`write_tags`.
    """
    expect_base(base, options)
    write_tags(base.location, {pin_of(target): str(TagTarget(base.version, base.branch))}, options)
    try:
        expect_base(base, options)
    except ConcurrentModificationError:
        unpin_base(base.location, target, options)
        raise


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
