"""Which places outside its own directory a dataset may refer to.

The writer of a dataset chooses its base paths and links. They are admitted as the location of a table is: below the
roots of its catalog, or where the one who runs lancens lets them be.
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
        roots: places whose contents are admitted, normalised and with symbolic links followed.
        same_bucket: whether all of a dataset's own bucket is admitted, as where a catalog has no roots.
        outside: whether every other place is, too (``--allow-outside``).
        hosts: the only hosts that a place may name; None for any.
    """

    roots: tuple[str, ...] = ()
    same_bucket: bool = False
    outside: bool = False
    hosts: Collection[str] | None = None

    def admits(self, dataset: str, place: str) -> bool:
        """Return whether a dataset may refer to ``place``; both are normalised, with symbolic links followed.

        A dataset in an object store never refers to this machine's disk.
        """
        if locations.path_of(place) is not None and locations.path_of(dataset) is None:
            return False
        if not all(is_admitted(host, self.hosts) for host in hosts_in("location", place)):
            return False
        bucket = bucket_of(dataset) if self.same_bucket else None
        is_beside = bucket is not None and bucket == bucket_of(place)
        is_beside &= locations.scheme(dataset) == locations.scheme(place)
        return self.outside or is_beside or any(root == place or locations.is_under(root, place) for root in self.roots)


_NOWHERE = Admission()


class StorageOptions(dict[str, str]):
    """pylance's options for opening a dataset, and which places it may refer to.

    With options of another type, a dataset that refers to any place outside its directory is not opened.
    """

    def __init__(self, options: Mapping[str, str], admission: Admission = _NOWHERE) -> None:
        super().__init__(options)
        self.admission = admission

    def updated(self, options: Mapping[str, str]) -> StorageOptions:
        """Return these options with ``options`` in place of those of the same name."""
        return StorageOptions({**self, **options}, self.admission)


def admission_of(options: Mapping[str, str]) -> Admission:
    """Return what ``options`` admit."""
    return options.admission if isinstance(options, StorageOptions) else _NOWHERE
