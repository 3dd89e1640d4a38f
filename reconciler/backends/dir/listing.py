"""Find the directories under the root that are tables without an entry.

This implements the Directory section of the Lance Namespace specification: a subdirectory of the root is a table,
whatever it holds. ``users.lance`` and ``users`` are both the table ``users``. These are not tables:

* directories that start with ``_`` or ``.``, and those with ``$`` in their name, which are ``__manifest``'s own;
* those that are, or hold, the location of a table with an entry;
* those with the name of a namespace, with or without the suffix;
* those that hold ``*.lance`` directories and no dataset: they group tables;
* those without a dataset whose name is the percent-encoded one of another directory;
* those with a ``.lance-deregistered`` file in them.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import unquote

from reconciler import storage
from reconciler.backends.dir.rows import DirectoryPlaces
from reconciler.model import locations
from reconciler.model.concurrency import in_parallel
from reconciler.model.names import DELIMITER, check_name

SUFFIX = ".lance"

Taken: TypeAlias = Callable[[str], bool]
"""Whether a directory belongs to an entry, so that it is not a table of its own."""

_SIGNS = frozenset({"_versions", storage.RESERVED_MARKER})
_CONCURRENCY = 16
_AS_IT_IS = re.compile(r"[A-Za-z0-9 ._+=@-]+")
"""The names that are the same in a path and in a URI, or become so in one way only."""


class Directory:
    """The root of a directory catalog, local or in an object store.

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
            return sorted(entry.name for entry in self._local.iterdir() if entry.is_dir())
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
        return self._where(self.is_marked, directories)

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

    def tables(self, taken: Taken, is_wanted: Callable[[str], bool]) -> tuple[dict[str, str], list[str]]:
        """Return the directory of each table without an entry, and notes on others.

        ``taken``: whether a directory belongs to entries. ``is_wanted``: which table names to return.
        """
        directory_of: dict[str, str] = {}
        notes: list[str] = []
        listed = [name for name in self.directories() if self.is_listable(name, taken)]
        candidates = [name for name in listed if is_wanted(name.removesuffix(SUFFIX))]
        no_tables = self._where(self._is_no_table, candidates)
        for directory in candidates:
            name = directory.removesuffix(SUFFIX)
            reason = check_name(name)
            if directory in no_tables:
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

    def table(self, name: str, taken: Taken) -> str | None:
        """Return the directory of table ``name`` without an entry, if there is one."""
        for directory in (name + SUFFIX, name):
            if (
                directory.removesuffix(SUFFIX) == name
                and self.is_listable(directory, taken)
                and self.is_table(directory)
            ):
                return directory
        return None

    def is_table(self, directory: str) -> bool:
        """Return whether ``directory`` exists and its content makes it a table."""
        return self.exists(directory) and not self._is_no_table(directory)

    def is_surely_table(self, directory: str) -> bool:
        """Return whether more than its place makes a listed directory a table: its suffix, or a dataset or marker."""
        return directory.endswith(SUFFIX) or not _SIGNS.isdisjoint(self._names_in(directory))

    @staticmethod
    def is_listable(directory: str, taken: Taken) -> bool:
        """Return whether ``directory`` is a table by its name and not ``taken``.

        pylance keeps the markers of tables whose names need percent-encoding in directories with encoded names.
        """
        if directory[:1] in ("_", ".") or DELIMITER in directory:
            return False
        return not any(map(taken, {directory, unquote(directory), unquote(unquote(directory))}))

    def _is_no_table(self, directory: str) -> bool:
        if self.stays_inside and not self._is_inside(directory):
            return True
        if directory.endswith(SUFFIX) and "%" not in directory:
            return self.is_marked(directory)
        names = set(self._names_in(directory))
        if storage.DEREGISTERED_MARKER in names:
            return True
        if "_versions" in names:
            return False
        groups_tables = not directory.endswith(SUFFIX) and any(name.endswith(SUFFIX) for name in names)
        return groups_tables or self._is_of_tags(directory, names)

    def _is_of_tags(self, directory: str, names: set[str]) -> bool:
        """Return whether pylance made ``directory``, which holds ``names``, for the tags of the decoded path.

        pylance 14 writes those of a local path that needs percent-encoding to the encoded path.
        """
        return "%" in directory and (names == {"_refs"} or self.exists(unquote(directory)))

    def _is_inside(self, directory: str) -> bool:
        """Return whether no symbolic link leads out of the root."""
        paths = (storage.place_of(path) for path in (self._root, locations.join(self._root, directory)))
        return locations.is_under(*paths)

    def _names_in(self, directory: str) -> list[str]:
        if self._local is not None:
            return storage.list_directory(locations.join(self._root, directory), self._options)
        if not _AS_IT_IS.fullmatch(directory):  # a session takes no encoded path, and encodes it differently
            return storage.list_directory(DirectoryPlaces(self._root).location(directory), self._options)
        listed = self._session.list_with_delimiter(directory)
        return [entry.rstrip("/").rpartition("/")[2] for entry in (*listed.common_prefixes, *listed.objects)]

    def _where(self, holds: Callable[[str], bool], directories: Iterable[str]) -> set[str]:
        checked = list(directories)
        answers = in_parallel(holds, checked, 1 if self._local is not None else _CONCURRENCY)
        return {directory for directory, held in zip(checked, answers, strict=True) if held}

    def _write_marker(self, directory: str, marker: str) -> None:
        if self._local is not None:
            (self._local / directory).mkdir(parents=True, exist_ok=True)
            (self._local / directory / marker).touch()
            return
        with tempfile.NamedTemporaryFile() as empty:
            self._session.upload_file(empty.name, f"{directory}/{marker}")

    @cached_property
    def _session(self) -> Any:
        """The only session of this root: each one resolves credentials itself."""
        return storage.session_at(self._root, self._options)
