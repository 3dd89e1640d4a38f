"""Open datasets, unless they refer to locations outside their directory that are not admitted.

A version refers to other locations by base paths, as a shallow clone does for its data, deletion and index files. On
this machine, symbolic links among its files do so too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from reconciler.model import locations
from reconciler.model.admission import admission_of
from reconciler.storage.connections import VersionCache
from reconciler.storage.files import resolve_location, resolve_locations
from reconciler.storage.pylance import VERSION_GONE, connection_of, repeated

_MAX_SHOWN = 3
_DATASET_FOLDERS = ("data", "tree")
"""The directories of a dataset whose names do not begin with ``_``; beside them, there may be other tables."""


class PlaceRefusedError(PermissionError):
    """A dataset refers to ``places`` that are not admitted."""

    def __init__(self, places: Sequence[str]) -> None:
        shown = ", ".join(map(locations.redact, places[:_MAX_SHOWN])) + (", …" if len(places) > _MAX_SHOWN else "")
        super().__init__(
            f"it refers to {shown}, which is not below a root of its catalog; move the data there, or pass "
            "--allow-outside, and --allow-host for another host"
        )
        self.places = tuple(places)


def open_dataset(
    location: str,
    options: Mapping[str, str],
    *,
    to_read: bool = False,
    version: int | None = None,
    cache: VersionCache | None = None,
) -> Any:
    """Open a dataset, at its latest version by default; errors stay pylance's own.

    One ``to_read`` shares the connection to its object store with others. A version that is in ``cache`` is not read
    again.

    Raises:
        PlaceRefusedError: it refers to a place that ``options`` do not admit.
    """
    import lance

    expect_admitted(location, options)
    uri = locations.pylance_uri(location)
    session = cache.session if cache is not None else None
    opened = partial(lance.dataset, uri, version=version, storage_options=dict(options) or None, session=session)
    if to_read and (connection := connection_of(location, options)) is not None:
        opened = partial(connection.open, uri)
    dataset = repeated(opened, VERSION_GONE)
    expect_admitted(location, options, dataset)
    return dataset


def places_elsewhere(location: str, dataset: Any) -> tuple[str, ...]:
    """Return the locations outside a dataset's directory that its links and an opened version name."""
    return tuple(_places_outside(location, [*_links(location), *_base_paths(dataset)]))


def expect_admitted(location: str, options: Mapping[str, str], dataset: Any = None) -> None:
    """Raise if an opened version of a dataset, or its links before one is opened, name a place that is not admitted.

    Raises:
        PlaceRefusedError: naming the places.
    """
    places = _places_outside(location, _links(location) if dataset is None else _base_paths(dataset))
    if not places:
        return
    admission = admission_of(options)
    admission = replace(admission, roots=tuple(resolve_locations(admission.roots)))
    refused = [place for place in places if not admission.admits(resolve_location(location), place)]
    if refused:
        raise PlaceRefusedError(refused)


def _places_outside(location: str, named: Iterable[str]) -> list[str]:
    """Return which of the ``named`` places are outside the directory of a dataset."""
    places = resolve_locations([*named])
    directory = resolve_location(location) if places else ""
    return [place for place in dict.fromkeys(places) if place != directory and not locations.is_under(directory, place)]


def _base_paths(dataset: Any) -> list[str]:
    return [base.path for base in dataset.base_paths().values()]


def _links(location: str) -> Iterator[str]:
    """Yield the symbolic links among the files of a dataset on this machine."""
    folder = locations.normalise(location)
    folders = [] if locations.path_of(location) is None else [folder]
    for above in folders:
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(above) as entries:
            for entry in entries:
                if above == folder and not entry.name.startswith("_") and entry.name not in _DATASET_FOLDERS:
                    continue
                if entry.is_symlink():
                    yield entry.path
                elif entry.is_dir():
                    folders.append(entry.path)
