"""Find the data of clones to which no entry refers any more, and release their bases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from reconciler import storage
from reconciler.applier.report import ChangeResult, KeptTag
from reconciler.backends.base import Backend
from reconciler.manifest import Manifest
from reconciler.model import locations, ownership
from reconciler.model.admission import StorageOptions
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import CatalogError, ManifestError, SelectionError
from reconciler.operations.connections import CatalogSpec, Connection, catalog_specs, read_all
from reconciler.planner.entries import Action


def unreferenced_clones(
    results: Sequence[ChangeResult], connections: Mapping[str, Connection], parallelism: int
) -> tuple[str, ...]:
    """Return the locations of clones that a run has deregistered, unless an entry of ``connections`` has them.

    There are none if a catalog cannot be read: another entry may refer to any of them.
    """
    removed = {locations.place(location): location for _, location, _ in _deregistered(results)}
    if not removed:
        return ()
    try:
        snapshots = read_all(
            connections.values(), lambda each: each.spec.scan(each.backend, each.desired.scope), parallelism
        )
    except CatalogError:
        return ()
    present = {locations.place(table.location) for live in snapshots for table in live.tables.values()}
    return tuple(sorted(location for place, location in removed.items() if place not in present))


def _deregistered(results: Sequence[ChangeResult]) -> Iterator[tuple[str, str, str]]:
    """Yield the catalog, the location and the mark of each clone that a run has deregistered."""
    for result in results:
        before, is_gone = result.change.before, result.status.satisfies
        if before is None or result.change.action is not Action.DEREGISTER_TABLE or not is_gone:
            continue
        if before.clone is not None and before.location is not None:
            yield result.change.catalog, before.location, before.clone


def release_pins(
    manifest: Manifest,
    results: Sequence[ChangeResult],
    unreferenced: Collection[str],
    connections: Mapping[str, Connection],
    parallelism: int,
) -> list[KeptTag]:
    """Remove the tags that keep the bases of ``unreferenced`` clones; return those that stay, with the reason.

    Nothing but the tag of the very clone is removed.
    """
    pinned: defaultdict[str, list[KeptTag]] = defaultdict(list)
    targets: dict[str, str] = {}
    places = set(map(locations.place, unreferenced))
    kept: list[KeptTag] = []
    for catalog, target, mark in _deregistered(results):
        if not ownership.is_pinned(mark):
            continue
        backend, source, tag = connections[catalog].backend, ownership.origin_of_clone(mark), storage.pin_of(target)
        pin = KeptTag(tag, source, _base_of(backend, target), "")
        targets[tag] = target
        if locations.place(target) in places:
            pinned[source.partition("/")[0]].append(pin)
        else:
            kept.append(replace(pin, reason="an entry may refer to the clone still"))
    for origin, pins in pinned.items():
        try:
            if origin not in manifest.catalogs:
                raise SelectionError(f"the manifest has no catalog `{origin}`")
            [spec] = catalog_specs(manifest, [origin])
            with spec.connect() as opened:
                release = partial(_release, spec, opened, targets)
                kept += filter(None, in_parallel(release, pins, parallelism))
        except (CatalogError, ManifestError, SelectionError) as error:
            kept += [replace(pin, reason=str(error).partition("\n")[0]) for pin in pins]
    return kept


def _base_of(backend: Backend, target: str) -> str | None:
    """Return where the data is that the clone at ``target`` was made of; only the clone itself is read."""
    own = backend.storage_options()
    found = storage.find_clone(target, StorageOptions(own, replace(own.admission, outside=True)))
    return found.base.location if isinstance(found, storage.FoundClone) else None


def _release(spec: CatalogSpec, backend: Backend, targets: Mapping[str, str], pin: KeptTag) -> KeptTag | None:
    """Remove the tag for the clone in ``targets``; return it with the reason if it stays."""
    target = targets[pin.tag]
    try:
        with spec.errors():
            options = backend.storage_options()
            location = pin.location or backend.load_table(tuple(pin.source.split("/")[1:])).location
            to, base, *roots = storage.resolve_locations([target, location, *options.admission.roots])
            if not replace(options.admission, roots=tuple(roots)).admits(to, base):
                return replace(pin, reason=f"its data is not below the `root` of {spec.name}")
            storage.unpin_base(location, target, options)
    except CatalogError as error:
        return replace(pin, reason=str(error))
    return None
