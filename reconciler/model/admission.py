"""Decide which places outside its own directory a dataset may refer to.

The writer of a dataset chooses its base paths and links, and might point them at data of others. Like the location of
a table, they must be below the roots of its catalog, unless the user of lancens allows more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from reconciler.model import locations
from reconciler.model.hosts import bucket_of, hosts_in, is_admitted


@dataclass(frozen=True, slots=True)
class Admission:
    """The places that datasets of a catalog may refer to.

    Args:
        roots: directories that are admitted with their content, normalised and with symbolic links followed.
        same_bucket: whether a dataset's own bucket is admitted, as for a catalog without roots.
        outside: whether all other places are admitted as well (``--allow-outside``).
        hosts: the only hosts that a place may name; None for any.
    """

    roots: tuple[str, ...] = ()
    same_bucket: bool = False
    outside: bool = False
    hosts: Collection[str] | None = None

    def admits(self, dataset: str, place: str) -> bool:
        """Return whether a dataset may refer to ``place``; both are normalised, with symbolic links followed.

        A dataset in an object store may never refer to this machine's disk.
        """
        if locations.path_of(place) is not None and locations.path_of(dataset) is None:
            return False
        if not all(is_admitted(host, self.hosts) for host in hosts_in("location", place)):
            return False
        bucket = bucket_of(dataset) if self.same_bucket else None
        is_same_bucket = bucket is not None and bucket == bucket_of(place)
        is_same_bucket &= locations.scheme(dataset) == locations.scheme(place)
        is_below_root = any(root == place or locations.is_under(root, place) for root in self.roots)
        return self.outside or is_same_bucket or is_below_root


_NOTHING_OUTSIDE = Admission()


class StorageOptions(dict[str, str]):
    """pylance's options for opening a dataset, with the places that it may refer to.

    With a plain mapping of options, a dataset that refers to any place outside its directory is not opened.
    """

    def __init__(self, options: Mapping[str, str], admission: Admission = _NOTHING_OUTSIDE) -> None:
        super().__init__(options)
        self.admission = admission

    def updated(self, options: Mapping[str, str]) -> StorageOptions:
        """Return these options updated with ``options``, and the same admission."""
        return StorageOptions({**self, **options}, self.admission)


def admission_of(options: Mapping[str, str]) -> Admission:
    """Return the places that a dataset opened with ``options`` may refer to."""
    return options.admission if isinstance(options, StorageOptions) else _NOTHING_OUTSIDE
