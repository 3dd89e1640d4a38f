"""Find the files that a job leaves in a dataset without a version that needs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reconciler.model.errors import BackendError
from reconciler.storage.losses import DATA, INDICES, FileListing, own
from reconciler.storage.pylance import open_dataset, translated


class NewFiles:
    """The data files, and folders of index files, that appear in a dataset while this exists."""

    def __init__(self, location: str, options: Mapping[str, str]) -> None:
        self._location, self._options = location, options
        self._before, _ = self._listed()

    def unneeded(self) -> list[str]:
        """Return those that the latest version does not need, relative to the dataset; they may be other writers'."""
        after, needed = self._listed()
        return sorted(after - self._before - needed)

    def _listed(self) -> tuple[set[str], set[str]]:
        """Return what is there, and what the latest version needs; nothing if the dataset cannot be read."""
        try:
            with translated(self._location, self._options):
                dataset = open_dataset(self._location, self._options)
                listing = FileListing(dataset, self._location, self._options)
                needed = listing.needed_by(dataset)
        except BackendError:
            return set(), set()
        return _places(listing.found), _places([*own(needed.files), *own(needed.folders)])


def _places(paths: Iterable[str]) -> set[str]:
    """Return the data files and the folders of indices; the files of a column's blobs are in a folder beside them."""
    parts = (path.removesuffix(".lance").split("/") for path in paths)
    return {"/".join(found[:2]) for found in parts if found[0] in (DATA, INDICES)}
