"""Find files that a maintenance job left in a dataset and that its latest version does not need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reconciler.model.errors import BackendError
from reconciler.storage.listing import FileListing
from reconciler.storage.needed import DATA, INDICES, needed_files, own_paths
from reconciler.storage.opening import open_dataset
from reconciler.storage.pylance import translated


class NewFiles:
    """The data files and index folders that were added to a dataset since this object was made."""

    def __init__(self, location: str, options: Mapping[str, str]) -> None:
        self._location, self._options = location, options
        self._before = self._existing_and_needed()

    def unneeded(self) -> list[str]:
        """Return the paths of added files that the latest version does not need; they may be other writers'."""
        after = self._existing_and_needed()
        if self._before is None or after is None:
            return []
        (before, _), (paths, needed) = self._before, after
        return sorted(path for key, path in paths.items() if key not in before and key not in needed)

    def _existing_and_needed(self) -> tuple[Mapping[str, str], Mapping[str, str]] | None:
        """Return the existing and the needed paths by their keys; None if the dataset cannot be read."""
        try:
            with translated(self._location, self._options):
                dataset = open_dataset(self._location, self._options)
                listing = FileListing(dataset, self._location, self._options)
                needed = needed_files(listing, dataset)
        except BackendError:
            return None
        return _paths_by_key(listing.file_sizes), _paths_by_key([*own_paths(needed.files), *own_paths(needed.folders)])


def _paths_by_key(paths: Iterable[str]) -> Mapping[str, str]:
    """Return the paths of data files and index folders; a data file and the folder of its blobs share a key."""
    top_paths = ("/".join(path.split("/")[:2]) for path in paths if path.startswith((f"{DATA}/", f"{INDICES}/")))
    return {path.removesuffix(".lance"): path for path in top_paths}
