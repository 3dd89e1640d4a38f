"""From the paths a user gives to the merged content of all files, includes followed."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from glob import has_magic, iglob
from itertools import dropwhile, islice, takewhile
from pathlib import Path

from reconciler.manifest.faults import Faults, SourceFile
from reconciler.manifest.nodes import Mapping, Node, Place, ScalarNode, Sequence
from reconciler.manifest.policy import Policy
from reconciler.manifest.reader import MAX_FILE_BYTES, read_document

_SUFFIXES = (".yaml", ".yml")
_MAX_FILES = 10_000
STDIN = "-"
"""What a path is that means standard input; relative paths in it start at the current folder."""
# Said by every file that wants to, as long as they agree.
_REPEATABLE = ("version", "name")


@dataclass(frozen=True, slots=True)
class Content:
    """The merged content of all files. Not ``complete``: a file could not be read, so what is missing may be in it.

    ``folders`` are those of the paths, links resolved.
    """

    folders: tuple[str, ...]
    root: Mapping
    complete: bool


def read_files(
    paths: SequenceOf[str | os.PathLike[str]],
    faults: Faults,
    policy: Policy,
) -> Content:
    """Return the merged content of ``paths`` and all they include.

    A folder stands for the YAML files directly in it, ``-`` for standard input. A file that is reached twice is read
    once. Every fault goes to ``faults``; ``faults.files`` then lists the files in the order they were read. What is
    included, or is in a folder, lies beneath the folders of ``paths``, unless ``policy`` lets it lie elsewhere.
    """
    folders = tuple(dict.fromkeys(map(_folder_of, map(Path, paths))))
    reading = _Reading(folders, faults, policy)
    for path in paths:
        reading.add(os.fspath(path))
    return Content(folders, reading.merged, reading.complete)


def _folder_of(path: Path) -> str:
    return os.path.realpath(path if _is_dir(path) else path.parent)


class _Reading:
    def __init__(
        self,
        folders: tuple[str, ...],
        faults: Faults,
        policy: Policy,
    ) -> None:
        self._folders = folders
        self._faults = faults
        self._policy = policy
        self._seen: set[str] = set()
        self._open: list[str] = []
        self.merged = Mapping(0, 0)
        self.complete = True

    def add(self, given: str) -> None:
        """Read one path of the user."""
        path = Path(given)
        if given == STDIN or not _is_dir(path):
            self._read(os.path.realpath(given), given)
            return
        try:
            inside = sorted(entry for entry in path.iterdir() if entry.suffix in _SUFFIXES and _is_file(entry))
        except OSError as error:
            self._faults.in_file(given, f"cannot be read: {error.strerror}")
            return
        if not inside:
            self._faults.in_file(given, "the folder holds no *.yaml and no *.yml file")
        for entry in inside:
            real = os.path.realpath(entry)
            if self._policy.may_read(real, self._folders):
                self._read(real, os.fspath(entry))
            else:
                self._faults.in_file(
                    os.fspath(entry), "leads out of the manifest's folder; --allow-outside lets it be read"
                )

    def _read(self, path: str, given: str) -> None:
        if path in self._seen:
            return
        self._seen.add(path)
        data = self._data(path, given)
        if data is None:
            self.complete = False
            return
        number = len(self._faults.files)
        name = Path(os.path.relpath(path)).as_posix()
        self._faults.files.append(SourceFile(name, str(Path(path).parent), path))
        document = read_document(data, number, self._faults)
        del data
        if document is None:
            self.complete = False
            return
        include = document.pop("include", None)
        self._merge(self.merged, document, ())
        if include is not None:
            self._open.append(path)
            self._follow(include, Path(path).parent)
            self._open.pop()

    def _data(self, path: str, given: str) -> bytes | None:
        if given == STDIN:
            return sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        try:
            status = Path(path).stat()
            if not stat.S_ISREG(status.st_mode):
                self._faults.in_file(given, "not a regular file")
                return None
            with Path(path).open("rb") as opened:
                return opened.read(MAX_FILE_BYTES + 1 if status.st_size > MAX_FILE_BYTES else -1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            self._faults.in_file(given, f"cannot be read: {reason or 'the path is not valid'}")
            return None

    # ---- includes

    def _follow(self, include: Node, folder: Path) -> None:
        if not isinstance(include, Sequence):
            if not (isinstance(include, ScalarNode) and include.is_null):
                self._faults.at(include.place, "`include` is not a list; expected paths such as [teams/*.yaml]")
            return
        for item in include:
            if not isinstance(item, ScalarNode) or not item.text.strip():
                self._faults.at(item.place, "an include is not a path; expected text such as teams/*.yaml")
            elif "${" in item.text:
                self._faults.at(item.place, f"include `{item.text}`: placeholders do not work in `include`")
            else:
                self._include(item.text, item.place, folder)

    def _include(self, pattern: str, place: Place, folder: Path) -> None:
        is_pattern = has_magic(pattern)
        found = self._matches(pattern, is_pattern, place, folder)
        for name in found:
            path = os.path.realpath(folder / name)
            if not self._policy.may_read(path, self._folders):
                self._leads_out(pattern, place)
                return
            if path in self._open:
                if not is_pattern:
                    chain = " -> ".join(Path(step).name for step in [*self._open[self._open.index(path) :], path])
                    self._faults.at(place, f"include `{pattern}` makes a dependency cycle: {chain}")
            elif len(self._faults.files) >= _MAX_FILES:
                self._faults.at(place, f"the manifest has more than {_MAX_FILES:,} files")
                return
            else:
                self._read(path, name)

    def _leads_out(self, pattern: str, place: Place) -> None:
        self._faults.at(
            place, f"include `{pattern}` leads out of the manifest's folder; --allow-outside lets it be read"
        )

    def _matches(self, pattern: str, is_pattern: bool, place: Place, folder: Path) -> list[str]:
        if not self._policy.may_read(os.path.realpath(folder / _fixed_part(pattern)), self._folders):
            # Not even whether something is there is told of what may not be read.
            self._leads_out(pattern, place)
            return []
        if not is_pattern:
            if _is_file(folder / pattern):
                return [pattern]
            hint = "is not there; paths are relative to this file"
            if _is_dir(folder / pattern):
                hint = f"is a folder; expected files, such as {pattern.rstrip('/')}/*.yaml"
            self._faults.at(place, f"include `{pattern}` {hint}")
            return []
        if ".." in dropwhile(lambda part: not has_magic(part), Path(pattern).parts):
            # Each `**/..` would look through all folders again for each that is found.
            self._faults.at(place, f"include `{pattern}` goes up after a wildcard; write `..` before the first one")
            return []
        # Path.glob takes no absolute pattern and does not leave out hidden files.
        matches = iglob(pattern, root_dir=folder, recursive=True)  # noqa: PTH207
        found = sorted(name for name in islice(matches, _MAX_FILES + 1) if _is_file(folder / name))
        if not found:
            self._faults.at(place, f"include `{pattern}` matches no file; patterns are relative to this file")
        return found

    # ---- merging

    def _merge(self, into: Mapping, other: Mapping, path: tuple[str, ...]) -> None:
        for key, node in other.items():
            there = into.setdefault(key, node)
            if there is node:
                continue
            if _is_block(there) and _is_block(node):
                if isinstance(there, Mapping) and isinstance(node, Mapping):
                    self._merge(there, node, (*path, key))
                elif isinstance(node, Mapping):
                    into[key] = node
            elif _is_listed(path, key) and isinstance(there, Sequence) and isinstance(node, Sequence):
                there += node
            elif not (key in _REPEATABLE and not path and _same_text(there, node)):
                label = "/".join((*path, key))
                self._faults.at(
                    node.key_place, f"`{label}` is a duplicate, first at {self._faults.shown(there.key_place)}"
                )


def _fixed_part(pattern: str) -> str:
    """Return the path below which everything is that ``pattern`` matches, links left aside."""
    return os.path.join(*takewhile(lambda part: not has_magic(part), Path(os.path.normpath(pattern)).parts), "")  # noqa: PTH118


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name that is too long
        return False


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _is_block(node: Node) -> bool:
    return isinstance(node, Mapping) or (isinstance(node, ScalarNode) and node.is_null)


def _is_listed(path: tuple[str, ...], key: str) -> bool:
    """Return whether a key is one whose lists in several files add up: the ``moved`` of a catalog."""
    return key == "moved" and len(path) == 2 and path[0] == "catalogs"


def _same_text(one: Node, other: Node) -> bool:
    return isinstance(one, ScalarNode) and isinstance(other, ScalarNode) and one.text == other.text
