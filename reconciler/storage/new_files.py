"""Find the files that a job leaves in a dataset without a version that needs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reconciler.model.errors import BackendError
from reconciler.storage.losses import DATA, INDICES, FileListing, own
from reconciler.storage.opening import open_dataset
from reconciler.storage.pylance import translated


class NewFiles:
    """The data files, and folders of index files, that appear in a dataset while this exists."""

    def __init__(self, location: str, options: Mapping[str, str]) -> None:
        self._location, self._options = location, options
        self._before = self._listed()

    def unneeded(self) -> list[str]:
        """Return those that the latest version does not need, relative to the dataset; they may be other writers'."""
        after = self._listed()
        if self._before is None or after is None:
            return []
        (before, _), (paths, needed) = self._before, after
        return sorted(path for key, path in paths.items() if key not in before and key not in needed)

    def _listed(self) -> tuple[Mapping[str, str], Mapping[str, str]] | None:
        """Return what is there, and what the latest version needs; None if the dataset cannot be read."""
        try:
            with translated(self._location, self._options):
                dataset = open_dataset(self._location, self._options)
                listing = FileListing(dataset, self._location, self._options)
                needed = listing.needed_by(dataset)
        except BackendError:
            return None
        return _places(listing.found), _places([*own(needed.files), *own(needed.folders)])


def _places(paths: Iterable[str]) -> Mapping[str, str]:
    """Return data files and folders of indices by a name that a data file shares with the folder of its blobs."""
    top_paths = ("/".join(path.split("/")[:2]) for path in paths if path.startswith((f"{DATA}/", f"{INDICES}/")))
    return {path.removesuffix(".lance"): path for path in top_paths}
