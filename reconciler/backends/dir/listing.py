"""Find the directories under the root that are tables without an entry.

A subdirectory of the root is a table if it holds a dataset, or the marker of a declared table. ``users.lance`` and
``users`` are both the table ``users``. The Lance Namespace specification calls every subdirectory a table, which would
make tables of folders that only group datasets or hold other files. These are not tables either:

* directories that start with ``_`` or ``.``, and those with ``$`` in their name, which are ``__manifest``'s own;
* those that are, or hold, the location of a table with an entry;
* those with the name of a namespace, with or without the suffix;
* those without a dataset whose name is the percent-encoded one of another directory: pylance keeps markers there;
* those with a ``.lance-deregistered`` file in them.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import unquote

from reconciler import storage
from reconciler.backends.dir.rows import StoredLocations
from reconciler.model import locations
from reconciler.model.concurrency import in_parallel
from reconciler.model.names import DELIMITER, check_name

SUFFIX = ".lance"

IsTaken: TypeAlias = Callable[[str], bool]
"""Takes a directory; returns whether it belongs to an entry or a namespace."""

_VERSIONS = "_versions"
_CONCURRENCY = 16
_UNENCODED = re.compile(r"[A-Za-z0-9 ._+=@-]+")
"""Names that need no percent-encoding, or whose encoding is unambiguous."""


class Directory:
    """Lists and marks the directories under a root, local or in an object store.

    Errors are those of storage.
    """

    def __init__(self, root: str, options: Mapping[str, str]) -> None:
        self._root = root
        self._options = dict(options)
        self._local = storage.local_path(root)
        self.stays_inside = False

    def directories(self) -> list[str]:
        """Return the names of the directories under the root, sorted; it may not exist."""
        if self._local is None:
            listed = self._session.list_with_delimiter()
            return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in listed.common_prefixes)
        try:
            with os.scandir(self._local) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []

    def exists(self, directory: str) -> bool:
        """Return whether ``directory``, a path below the root, exists.

        In an object store it exists if it holds something.
        """
        if self._local is None:
            return bool(self._names_in(directory))
        return (self._local / directory).is_dir()

    def is_marked(self, directory: str) -> bool:
        """Return whether ``directory`` is marked as deregistered."""
        marker = f"{directory}/{storage.DEREGISTERED_MARKER}"
        if self._local is None:
            return bool(self._session.contains(marker))
        return (self._local / marker).exists()

    def marked(self, directories: Iterable[str]) -> set[str]:
        """Return those of ``directories`` that are marked as deregistered."""
        return self._matching(self.is_marked, directories)

    def mark(self, directory: str) -> None:
        """Mark ``directory`` as deregistered; its files stay."""
        self._write_marker(directory, storage.DEREGISTERED_MARKER)

    def unmark(self, directory: str) -> None:
        """Remove the mark of ``directory``, if there is one."""
        marker = f"{directory}/{storage.DEREGISTERED_MARKER}"
        if self._local is not None:
            (self._local / marker).unlink(missing_ok=True)
        elif self.is_marked(directory):
            self._session.delete_file(marker)

    def reserve(self, directory: str) -> None:
        """Create ``directory`` if it is missing, with the marker of a declared table."""
        if not self.exists(directory):
            self._write_marker(directory, storage.RESERVED_MARKER)

    def tables(self, taken: IsTaken, is_wanted: Callable[[str], bool]) -> tuple[dict[str, str], list[str]]:
        """Return the directory of each table without an entry, and notes on others.

        ``taken`` tells directories of entries and namespaces. ``is_wanted`` takes a table name; others are left out.
        """
        directory_of: dict[str, str] = {}
        notes: list[str] = []
        listed = [name for name in self.directories() if self.is_listable(name, taken)]
        candidates = [name for name in listed if is_wanted(name.removesuffix(SUFFIX))]
        tables = self._matching(self._holds_table, candidates)
        for directory in candidates:
            name = directory.removesuffix(SUFFIX)
            reason = check_name(name)
            if directory not in tables:
                continue
            if reason is not None:
                notes.append(f"the directory `{directory}` cannot be a table: {reason}")
            elif name in directory_of:
                first, second = sorted(
                    (directory_of[name], directory), key=lambda candidate: not candidate.endswith(SUFFIX)
                )
                directory_of[name] = first
                notes.append(f"`{first}` and `{second}` are both the table `{name}`: the first is shown")
            else:
                directory_of[name] = directory
        return directory_of, notes

    def table(self, name: str, taken: IsTaken) -> str | None:
        """Return the directory of table ``name`` without an entry, if there is one."""
        for directory in (name + SUFFIX, name):
            if (
                directory.removesuffix(SUFFIX) == name
                and self._may_exist(directory)
                and self.is_listable(directory, taken)
                and self._holds_table(directory)
            ):
                return directory
        return None

    def is_table(self, directory: str, *, or_unfinished: bool = False) -> bool:
        """Return whether ``directory`` exists and its content makes it a table.

        With ``or_unfinished``, also whether it will be one: it has data of a first write before its commit.
        """
        return self._may_exist(directory) and self._holds_table(directory, or_unfinished=or_unfinished)

    def _may_exist(self, directory: str) -> bool:
        """Return False if ``directory`` is missing; an object store, which would need a request, is not asked."""
        return self._local is None or (self._local / directory).is_dir()

    @staticmethod
    def is_listable(directory: str, taken: IsTaken) -> bool:
        """Return whether ``directory`` is a table by its name and not ``taken``.

        pylance keeps the markers of tables whose names need percent-encoding in directories with encoded names.
        """
        if directory[:1] in ("_", ".") or DELIMITER in directory:
            return False
        return not any(map(taken, {directory, unquote(directory), unquote(unquote(directory))}))

    def _holds_table(self, directory: str, *, or_unfinished: bool = False) -> bool:
        """Return whether what ``directory`` holds makes it a table; a missing one holds nothing."""
        if self.stays_inside and not self._is_inside(directory):
            return False
        names = set(self._names_in(directory))
        if storage.DEREGISTERED_MARKER in names:
            return False
        is_declared = storage.RESERVED_MARKER in names and not ("%" in directory and self.exists(unquote(directory)))
        return is_declared or _VERSIONS in names or (or_unfinished and "data" in names)

    def _is_inside(self, directory: str) -> bool:
        """Return whether ``directory`` is below the root after symbolic links."""
        paths = (storage.resolve_location(path) for path in (self._root, locations.join(self._root, directory)))
        return locations.is_under(*paths)

    def _names_in(self, directory: str) -> list[str]:
        if self._local is not None:
            return storage.list_directory(locations.join(self._root, directory), self._options)
        if not _UNENCODED.fullmatch(directory):  # a session takes no encoded path, and encodes it differently
            return storage.list_directory(StoredLocations(self._root).location(directory), self._options)
        listed = self._session.list_with_delimiter(directory)
        return [entry.rstrip("/").rpartition("/")[2] for entry in (*listed.common_prefixes, *listed.objects)]

    def _matching(self, matches: Callable[[str], bool], directories: Iterable[str]) -> set[str]:
        checked = list(directories)
        answers = in_parallel(matches, checked, 1 if self._local is not None else _CONCURRENCY)
        return {directory for directory, is_match in zip(checked, answers, strict=True) if is_match}

    def _write_marker(self, directory: str, marker: str) -> None:
        if self._local is not None:
            (self._local / directory).mkdir(parents=True, exist_ok=True)
            (self._local / directory / marker).touch()
            return
        with tempfile.NamedTemporaryFile() as empty:
            self._session.upload_file(empty.name, f"{directory}/{marker}")

    @cached_property
    def _session(self) -> Any:
        """The session of this root, shared because each one resolves credentials."""
        return storage.session_at(self._root, self._options)
