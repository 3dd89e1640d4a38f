"""Which tags and branches of a dataset lead to versions that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import unquote

from reconciler.storage.losses import MAIN, FileListing, Needed
from reconciler.storage.pylance import or_none

BRANCHES = "tree"
_BRANCH_REFS, _TAG_REFS, _REF = "_refs/branches/", "_refs/tags/", ".json"


@dataclass(frozen=True, slots=True)
class BrokenReference:
    """A tag or branch whose version cannot be read.

    ``version`` is the one that it leads to, if it can be told, and ``whole`` the newest version of a branch whose files
    are all there.
    """

    name: str
    version: int | None = None
    whole: int | None = None

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name} (version {self.version})"


class References:
    """The tags and branches of a dataset.

    Args:
        dataset: the latest version of its main branch.
        listing: its files.
        known: what that version has lost, which alone breaks no tag or branch.
    """

    def __init__(self, dataset: Any, listing: FileListing, known: set[str]) -> None:
        self._dataset, self._listing, self._known = dataset, listing, known
        self._branches, self._tags = self._named(_BRANCH_REFS), self._named(_TAG_REFS)
        self.tagged: dict[int, Needed] = {}
        """What each tagged version of the main branch needs."""
        self.has_branches = bool(self._branches)
        self.has_moved = False
        """Whether a branch has a version that came after the listing."""

    def broken_tags(self) -> Iterator[BrokenReference]:
        """Yield the broken tags.

        Each tag is opened by itself, as ``tags.list()`` of pylance 14 fails if one file is damaged or a name is not
        ASCII.
        """
        for path, name in self._tags.items():
            branch = self._listing.document(path).get("branch") if self.has_branches else None
            version = or_none(partial(self._dataset.checkout_version, name))
            needed = self._whole(version, _home(branch))
            if needed is None:
                yield BrokenReference(name, or_none(partial(self._dataset.tags.get_version, name)))
            elif branch is None:
                self.tagged[version.version] = needed

    def broken_branches(self) -> Iterator[BrokenReference]:
        """Yield the branches whose latest version cannot be read."""
        for name in self._branches.values():
            home = _home(name)
            listed = max((self._listing.named_version(home), *self._listing.versions(home)))
            latest = or_none(partial(self._checked_out, name, None))
            if latest is not None and latest.version > listed:
                self.has_moved = True
            elif latest is None or latest.version < listed or self._whole(latest, home) is None:
                whole = self._listing.newest_whole(partial(self._checked_out, name), listed, home)
                yield BrokenReference(name, listed or None, whole)

    def _named(self, folder: str) -> dict[str, str]:
        """Return the name of the tag or branch in each file below ``folder``."""
        paths = (path for path in sorted(self._listing.found) if path.startswith(folder) and path.endswith(_REF))
        return {path: unquote(path.removeprefix(folder).removesuffix(_REF)) for path in paths}

    def _checked_out(self, branch: str, number: int | None) -> Any:
        return self._dataset.checkout_version((branch, number))

    def _whole(self, version: Any, home: str) -> Needed | None:
        """Return what a version needs; None if it has lost more than the latest of the main branch."""
        if version is None:
            return None
        needed = self._listing.needed_by(version, home)
        return needed if self._known.issuperset(chain(*self._listing.lost(needed))) else None


def _home(branch: str | None) -> str:
    return MAIN if branch is None else f"{BRANCHES}/{branch}/"
