"""Remove the tag that keeps the base of a clone, as a part of the change by which an entry leaves the clone.

The tag is removed before the entry is changed, as no plan would find it afterwards. If the catalog then refuses the
change, the tag is set again. The entry of a clone whose tag cannot be removed for good is changed all the same: to keep
a tag harms no data, and the result names it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from reconciler import storage
from reconciler.applier.live import load_table
from reconciler.applier.report import KeptTag
from reconciler.applier.step import WORTH_REPEATING, ChangeOutcome, StaleError, Step, Target, append_text
from reconciler.backends.base import Backend
from reconciler.model import locations, ownership
from reconciler.model.admission import StorageOptions
from reconciler.model.clones import CloneBase
from reconciler.model.errors import BackendError
from reconciler.model.live import LiveTable


def leave_clone(target: Target[LiveTable], mark: str, clone: str, step: Step[LiveTable]) -> ChangeOutcome:
    """Carry out ``step``, by which an entry leaves its clone, and remove the tag of the clone first.

    Args:
        target: the entry.
        mark: its mark.
        clone: the location of the clone.
        step: the change.

    Raises:
        StaleError, BackendError: those of ``step``; or the tag could not be removed, and can be by a later apply.
    """
    tag, origin = storage.pin_of(clone), ownership.origin_of_clone(mark)
    source = target.sources.backends.get(ownership.catalog_of_clone(mark))
    base = _base_of(target.backend, clone)
    try:
        was_pinned, reason = _remove_tag(target, source, origin, base, clone)
    except BackendError as error:
        append_text(error, f"the tag {tag} of {origin} is to be removed first")
        raise
    try:
        outcome = step(target)
    except (BackendError, StaleError):
        if was_pinned and base is not None and source is not None:
            with suppress(BackendError):
                live = load_table(target.backend, target.identifier)
                if live is not None and locations.same(live.location, clone):
                    storage.pin_base(base, clone, source.storage_options())
        raise
    if not reason:
        return outcome
    note = "; ".join(filter(None, (outcome.note, f"the tag {tag} of {origin} stays")))
    return replace(
        outcome, note=note, kept_tag=KeptTag(tag, origin, base.location if base is not None else None, reason)
    )


def _base_of(backend: Backend, clone: str) -> CloneBase | None:
    """Return what the clone at a location was made of; only the clone itself is read."""
    own = backend.storage_options()
    found = storage.find_clone(clone, StorageOptions(own, replace(own.admission, outside=True)))
    return found.base if isinstance(found, storage.FoundClone) else None


def _remove_tag(
    target: Target[LiveTable], source: Backend | None, origin: str, base: CloneBase | None, clone: str
) -> tuple[bool, str]:
    """Remove the tag for ``clone``; return whether it was there, and why it stays.

    Raises:
        BackendError: it is worth trying again.
    """
    shared = target.sources.shared
    if shared is None:
        return False, "a catalog or a clone cannot be read, so another entry may need this one"
    if locations.place(clone) in shared:
        return False, "another entry has the clone, or a clone of it"
    catalog, _, table = origin.partition("/")
    if source is None:
        return False, f"the manifest has no catalog `{catalog}`"
    try:
        options, there = source.storage_options(), base or load_table(source, table.split("/"))
        if there is None:
            return False, "its data is not found: the clone is lost, and that table has no entry any more"
        to, place, *roots = storage.resolve_locations([clone, there.location, *options.admission.roots])
        if not replace(options.admission, roots=tuple(roots)).admits(to, place):
            return False, f"its data is not below the `root` of {catalog}"
        return storage.unpin_base(there.location, clone, options), ""
    except BackendError as error:
        if error.code in WORTH_REPEATING:
            raise
        return False, f"{catalog} ({source.impl}): {str(error).removeprefix(f'{source.impl}: ')}"
