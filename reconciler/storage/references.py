"""Find tags and branches of a dataset whose versions cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import quote, unquote
from uuid import NAMESPACE_URL, uuid5

from reconciler.storage.listing import MAIN, VERSIONS
from reconciler.storage.losses import LossFinder
from reconciler.storage.needed import NeededFiles, needed_files
from reconciler.storage.pylance import or_none
from reconciler.storage.reading import list_references

BRANCHES = "tree"
_BRANCH_REFS, _TAG_REFS, _REF = "_refs/branches/", "_refs/tags/", ".json"


@dataclass(frozen=True, slots=True)
class BrokenReference:
    """A tag or branch whose version cannot be read.

    ``version`` is its number, if known. ``complete_version`` is the newest version of a branch whose files all exist.
    ``lost_file``: the branch can be read, and its file below ``_refs/branches`` is damaged or gone; ``content`` is what
    the file has to hold, where that is known.
    """

    name: str
    version: int | None = None
    complete_version: int | None = None
    lost_file: bool = False
    content: str | None = None

    @property
    def file(self) -> str:
        """The name of its own file, as Lance encodes it."""
        return f"{quote(self.name, safe='')}{_REF}"

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name} (version {self.version})"


class References:
    """The tags and branches of a dataset.

    Args:
        dataset: the latest version of its main branch.
        finder: finds what versions have lost.
        known_losses: lost files of that version; a tag or branch that has lost no others is not broken.
    """

    def __init__(self, dataset: Any, finder: LossFinder, known_losses: set[str]) -> None:
        self._dataset, self._finder, self._known_losses = dataset, finder, known_losses
        self._listing = finder.listing
        self._branches, self._tags = self._list_references(_BRANCH_REFS), self._list_references(_TAG_REFS)
        self.needed: dict[str, NeededFiles] = {}
        """What each tag and branch that can be read needs, by its kind and name."""
        self.tagged_versions: set[int] = set()
        """The tagged versions of the main branch."""
        self.has_moved = False
        """Whether a branch has a version that came after the listing."""

    def broken_tags(self) -> Iterator[BrokenReference]:
        """Yield the broken tags.

        Each tag is opened by itself, as ``tags.list()`` of pylance 14 fails if one file is damaged or a name is not
        ASCII.
        """
        for path, name in self._tags.items():
            branch = self._listing.document(path).get("branch") if self._branches else None
            version = or_none(partial(self._dataset.checkout_version, name))
            needed = self._needed_unless_broken(version, _branch_folder(branch))
            if needed is None:
                yield BrokenReference(name, or_none(partial(self._dataset.tags.get_version, name)))
            else:
                self.needed[f"tag `{name}`"] = needed
                self.tagged_versions.update([version.version] if branch is None else [])

    def broken_branches(self) -> Iterator[BrokenReference]:
        """Yield the branches whose latest version cannot be read."""
        for name in self._branches.values():
            branch_folder = _branch_folder(name)
            listed = max((self._listing.last_known_version(branch_folder), *self._listing.versions(branch_folder)))
            latest = or_none(partial(self._check_out, name, None))
            if latest is not None and latest.version > listed:
                self.has_moved = True
                continue
            is_whole = latest is not None and latest.version == listed
            needed = self._needed_unless_broken(latest, branch_folder) if is_whole else None
            if needed is not None:
                self.needed[f"branch `{name}`"] = needed
            else:
                complete_version = self._finder.newest_complete(partial(self._check_out, name), listed, branch_folder)
                yield BrokenReference(name, listed or None, complete_version)

    def unreferenced_branches(self) -> Iterator[BrokenReference]:
        """Yield the branches that can be read and whose own files are damaged or gone.

        pylance keeps the folder of a deleted branch while another branch is inside, so such a folder counts only if
        the other one began there.
        """
        known = self._known_branches()
        parents = {parent for parent, _ in known.values()}
        folders = {path.partition(f"/{VERSIONS}/")[0] for path in self._listing.file_sizes if f"/{VERSIONS}/" in path}
        names = {folder.removeprefix(f"{BRANCHES}/") for folder in folders if folder.startswith(f"{BRANCHES}/")}
        lost = {}
        for name in sorted(names - known.keys()):
            is_deleted = name not in self._branches.values() and any(
                other.startswith(f"{name}/") and name not in parents for other in known
            )
            latest = None if is_deleted else or_none(partial(self._check_out, name, None))
            if latest is not None:
                lost[name] = latest
        # A branch comes before the one that it began at, of which its own file tells.
        for name, latest in sorted(lost.items(), key=lambda item: -len(item[1].base_paths())):
            content = self._content_for(name, latest, known)
            yield BrokenReference(name, latest.version, None, lost_file=True, content=content)

    def _known_branches(self) -> dict[str, tuple[str | None, list[Any]]]:
        """Return the parent and the lineage of each branch whose file can be read, by name.

        pylance lists none if one file is damaged, or a name is not ASCII. Then the files are read.
        """
        listed = or_none(partial(list_references, self._dataset.branches))
        if listed is not None:
            return {name: (branch["parent_branch"], [*branch["branch_identifier"]]) for name, branch in listed.items()}
        documents = {name: self._listing.document(path) for path, name in self._branches.items()}
        return {
            name: (document.get("parentBranch"), _lineage(document))
            for name, document in documents.items()
            if isinstance(document.get("parentVersion"), int) and isinstance(document.get("identifier"), dict)
        }

    def _content_for(self, name: str, latest: Any, known: dict[str, tuple[str | None, list[Any]]]) -> str | None:
        """Return what the file of a branch has to hold; None if that depends on another lost file.

        The branch is added to ``known``. Its lineage must be the one that branches of it have in theirs: a clean-up
        finds by that which of its files they need.
        """
        bases = (base for _, base in sorted(latest.base_paths().items()))
        branches = [base.name for base in bases if base.path.endswith(f"/{BRANCHES}/{base.name}")]
        parent = branches[-1] if branches else None
        versions = self._listing.versions(_branch_folder(name))
        lineage = next((of_child[:-1] for its_parent, of_child in known.values() if its_parent == name), [])
        above = [] if parent is None else known.get(parent, (None, []))[1]
        if not versions or not (lineage or above or parent is None):
            return None
        first = min(versions)
        lineage = lineage or [*above, [first, uuid5(NAMESPACE_URL, name).hex]]
        known[name] = parent, lineage
        document = {
            "parentBranch": parent,
            "identifier": {"version_mapping": lineage},
            "parentVersion": lineage[-1][0],
            "createAt": int(latest.get_version()["timestamp"].timestamp()),
            "manifestSize": self._listing.file_sizes[versions[first]],
        }
        return json.dumps(document)

    def _list_references(self, folder: str) -> dict[str, str]:
        """Return the name of each tag or branch, by the path of its file below ``folder``."""
        paths = (path for path in sorted(self._listing.file_sizes) if path.startswith(folder) and path.endswith(_REF))
        return {path: unquote(path.removeprefix(folder).removesuffix(_REF)) for path in paths}

    def _check_out(self, branch: str, number: int | None) -> Any:
        return self._dataset.checkout_version((branch, number))

    def _needed_unless_broken(self, version: Any, branch_folder: str) -> NeededFiles | None:
        """Return the files that a version needs; None if there is no version, or it lost others than known."""
        if version is None:
            return None
        needed = needed_files(self._listing, version, branch_folder)
        return needed if self._known_losses.issuperset(chain(*self._finder.lost_files(needed))) else None


def _lineage(document: Mapping[str, Any]) -> list[Any]:
    """Return the lineage in the own file of a branch; empty if it has another form."""
    mapping = document["identifier"].get("version_mapping")
    is_lineage = isinstance(mapping, list) and all(isinstance(step, list) and len(step) == 2 for step in mapping)
    return mapping if is_lineage else []


def _branch_folder(branch: str | None) -> str:
    return MAIN if branch is None else f"{BRANCHES}/{branch}/"
