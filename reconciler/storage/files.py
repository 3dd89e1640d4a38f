"""List, read and create files at a location, on this machine or in an object store."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from itertools import chain
from pathlib import Path
from typing import Any

from reconciler.model import locations
from reconciler.model.errors import InvalidTableStateError, UnsupportedOperationError
from reconciler.storage.pylance import connection_of, translated

MANIFEST_SUFFIX = ".manifest"

# Paths that are the same as a URI and as the name of an object.
_IN_A_BUCKET = re.compile(r"(?:az|gs|s3)://[^/]+/([\w=-][\w.=-]*(?:/[\w=-][\w.=-]*)*)/?", re.ASCII)

_SENT_AS_WRITTEN = re.compile(r"[\w !$&'()+,./:;=@-]+", re.ASCII)


def local_path(location: str) -> Path | None:
    """Return the path of a location on this machine, None for one elsewhere.

    As pylance does, it takes ``..`` from the text, whatever the directory before it is.
    """
    return None if locations.path_of(location) is None else Path(locations.normalise(location))


def resolved_links(paths: Iterable[str]) -> dict[str, str]:
    """Return the real path of each local location that symbolic links lead elsewhere.

    Both are normalised. Nothing has to exist: the links of existing parent directories are followed.
    """
    elsewhere: dict[str, str] = {}
    directories: dict[str, str] = {}
    for location in paths:
        place = locations.normalise(location)
        if locations.path_of(location) is None or not place.startswith("/"):
            continue
        above, _, name = place.rpartition("/")
        if above not in directories:
            directories[above] = _follow_links(above or "/")
        real = f"{directories[above].rstrip('/')}/{name}"
        if os.path.islink(real):  # noqa: PTH114 - `Path.is_symlink` raises for an impossible file name
            real = _follow_links(real)
        if real != place:
            elsewhere[place] = real
    return elsewhere


def _follow_links(path: str) -> str:
    """Follow symbolic links; return an impossible file name as it is."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return path


def resolve_location(location: str) -> str:
    """Return ``location`` normalised, with its symbolic links followed."""
    return resolve_locations([location])[0]


def resolve_locations(paths: Sequence[str]) -> list[str]:
    """Return :func:`resolve_location` of each path; resolve each parent directory only once."""
    targets = resolved_links(paths)
    return [targets.get(path, path) for path in map(locations.normalise, paths)]


def list_directory(location: str, options: Mapping[str, str]) -> list[str]:
    """Return the names of files and directories in ``location``, if it exists.

    The empty object ``location/``, which consoles write to show a directory in a bucket, is left out.

    Raises:
        OSError, ValueError, RuntimeError: as storage reports them; see :func:`translated`.
    """
    if locations.path_of(location) is not None:
        try:
            return os.listdir(locations.normalise(location))  # noqa: PTH208 - every probe lists, and a `Path` costs more
        except FileNotFoundError:
            return []
    files, directories = _list_store(location, options)
    return [*directories, *files]


def list_entries(location: str, options: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the names of files, and those of directories, without symbolic links.

    Raises:
        OSError, ValueError, RuntimeError: as for :func:`list_directory`.
    """
    path = local_path(location)
    if path is None:
        return _list_store(location, options)
    try:
        with os.scandir(path) as entries:
            unlinked = [entry for entry in entries if not entry.is_symlink()]
        directories = {entry.name for entry in unlinked if entry.is_dir()}
        return [entry.name for entry in unlinked if entry.name not in directories], sorted(directories)
    except FileNotFoundError:
        return [], []


def _list_store(location: str, options: Mapping[str, str]) -> tuple[list[str], list[str]]:
    session, prefix = _store_session(location, options)
    listed = session.list_with_delimiter(prefix)
    files, directories = (
        [name for entry in entries if (path := entry.rstrip("/")) != prefix and (name := path.rpartition("/")[2])]
        for entries in (listed.objects, listed.common_prefixes)
    )
    return files, directories


def _store_session(location: str, options: Mapping[str, str]) -> tuple[Any, str | None]:
    """Return pylance's file session, and the path of ``location`` in it.

    The session of a bucket is shared. The path is None for a session that starts at ``location``.
    """
    shared = _IN_A_BUCKET.fullmatch(locations.pylance_uri(location))
    connection = connection_of(location, options) if shared else None
    if shared is None or connection is None:
        return session_at(location, options), None
    return connection.files, shared[1]


def contains(location: str, name: str, options: Mapping[str, str]) -> bool:
    """Return whether the file ``name`` is below ``location``.

    Raises:
        OSError, ValueError, RuntimeError: as for :func:`list_directory`.
    """
    session, prefix = _store_session(location, options)
    return bool(session.contains(name if prefix is None else f"{prefix}/{name}"))


def version_of(name: str) -> int | None:
    """Return the version whose manifest the file ``name`` is; None for another file.

    Lance numbers manifests upwards, or downwards from the largest 64-bit number in twenty digits.
    """
    number = name.removesuffix(MANIFEST_SUFFIX)
    if number == name or not number.isdecimal():
        return None
    return 2**64 - 1 - int(number) if len(number) == 20 else int(number)


def content_of(folder: str, name: str, options: Mapping[str, str], limit: int) -> bytes | None:
    """Return the content of a regular file of at most ``limit`` bytes, else None.

    Raises:
        OSError, ValueError, RuntimeError: as for :func:`list_directory`.
    """
    path = local_path(folder)
    if path is not None:
        if not (path / name).is_file():
            return None
        with (path / name).open("rb") as opened:
            content = opened.read(limit + 1)
        return content if len(content) <= limit else None
    session = session_at(folder, options)
    with suppress(OSError):  # a file that is small enough has no byte at `limit`
        session.read_range(name, limit, 1)
        return None
    return _download(session, name)


def _download(session: Any, name: str) -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch, "copy")
        session.download_file(name, str(copy))
        return copy.read_bytes()


def is_object(location: str, options: Mapping[str, str]) -> bool:
    """Return whether ``location`` is the name of an object in an object store, not of a directory.

    Raises:
        OSError, ValueError, RuntimeError: as for :func:`list_directory`.
    """
    if local_path(location) is not None or "//" not in location.rstrip("/").rpartition("/")[0]:
        return False
    return bool(session_at(location.rstrip("/"), options).contains(""))


def rename_new(folder: str, old: str, new: str, options: Mapping[str, str]) -> None:
    """Rename a small file and overwrite none; the ``old`` name goes even then.

    An object store must be one of :data:`locations.CONDITIONAL`.

    Raises:
        OSError, ValueError, RuntimeError: the ``new`` name is taken; or as for :func:`list_directory`.
    """
    path = local_path(folder)
    if path is not None:
        try:
            os.link(path / old, path / new)
        finally:
            with suppress(OSError):
                (path / old).unlink()
        return
    session, uri = session_at(folder, options), locations.pylance_uri(folder)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch, new)
        session.download_file(old, copy)
        try:
            session_at(folder, {**options, **locations.CONDITIONAL[locations.scheme(uri)]}).upload_file(copy, new)
        finally:
            with suppress(OSError):  # the credentials may write and not delete; nothing reads the file
                session.delete_file(old)


class ObjectFolder:
    """A folder of small objects in an object store, each of which is created once and never overwritten.

    Raises:
        UnsupportedOperationError: the store cannot create an object only if there is none.
        BackendError: the store cannot be reached; every method raises it, too.
    """

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self.uri = locations.pylance_uri(uri).rstrip("/")
        self._options = options
        condition = locations.CONDITIONAL.get(locations.scheme(self.uri))
        problem = locations.problem(uri)
        if condition is None:
            problem = f"expected a folder in one of {', '.join(sorted(locations.CONDITIONAL))}"
        if condition is None or problem is not None:
            raise UnsupportedOperationError(f"{locations.redact(uri)}: {problem}")
        with translated(self.uri, options):
            session = _file_session_class()
            self._reading = session(self.uri, dict(options) or None)
            self._creating = session(self.uri, {**options, **condition})

    def create(self, name: str, content: bytes) -> None:
        """Create the object ``name``, and fail if there is another one."""
        with translated(self.uri, self._options), tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch, "object")
            copy.write_bytes(content)
            try:
                self._creating.upload_file(str(copy), name)
            except OSError:
                # The store may have created it in an attempt whose answer was lost, and refuse the next one.
                with suppress(OSError):
                    if _download(self._reading, name) == content:
                        return
                raise

    def read(self, name: str) -> bytes:
        """Return the content of an object."""
        with translated(self.uri, self._options):
            return _download(self._reading, name)

    def names(self, below: str | None = None) -> list[str]:
        """Return the last names of the objects and folders directly in the folder, or ``below`` it."""
        with translated(self.uri, self._options):
            listed = chain(*self._reading.list_with_delimiter(below))
        return sorted(name.rstrip("/").rpartition("/")[2] for name in listed)


def _file_session_class() -> Any:
    """Return the native class behind pylance's access to files.

    Its module is loaded alone: importing pylance with pyarrow takes 0.4 s of CPU, which a journal need not wait for. A
    later import of pylance uses it.
    """
    name = "lance.lance"
    if sys.modules.keys().isdisjoint(("lance", name)):
        package = find_spec("lance")
        spec = PathFinder.find_spec(name, package.submodule_search_locations) if package is not None else None
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(name=name)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return import_module(name).LanceFileSession  # waits for an import by another thread


def session_at(folder: str, options: Mapping[str, str]) -> Any:
    """Return pylance's access to the files below ``folder``."""
    from lance.file import LanceFileSession

    return LanceFileSession(locations.pylance_uri(folder), storage_options=dict(options) or None)


def session_of(path: str, session: Callable[[], Any], folder: str, options: Mapping[str, str]) -> tuple[Any, str]:
    """Return access to the file at ``path`` below ``folder``, to which ``session`` has it, and the path to read there.

    A session of pylance 14 encodes the paths below it, and finds no file whose name is not ASCII or has `%`. Such a
    file has a session of its own.
    """
    if _SENT_AS_WRITTEN.fullmatch(path):
        return session(), path
    return session_at(locations.join_names(folder, path), options), ""


DEEPEST = 16
"""How many levels of directories below a root are searched."""

_VERSIONS, _DATA = "_versions", "data"
_DATA_FILE = ".lance"
_MAX_SCHEMAS_READ = 10
"""The most data files whose schema is read: in an object store each takes one or two requests."""
_HIDDEN_PREFIXES = ("_", ".")


@dataclass(frozen=True, slots=True)
class DirectoryContent:
    """Whether a directory is a dataset, and the directories ``below`` it if not.

    ``is_data``: it is the ``data`` directory of a dataset that has lost its versions.
    """

    is_dataset: bool
    below: tuple[str, ...] = ()
    is_data: bool = False


def as_plain_path(location: str) -> str:
    """Return a local location as a path, to which names can be joined unescaped."""
    return location if locations.path_of(location) is None else locations.normalise(location)


def classify_directory(directory: str, options: Mapping[str, str]) -> DirectoryContent:
    """Return whether ``directory`` is a dataset, else the directories below it.

    Names that begin with ``_`` or ``.`` are left out.

    Raises:
        BackendError: it could not be listed.
    """
    with translated(directory, options):
        files, names = list_entries(directory, options)
    if _VERSIONS in names:
        return DirectoryContent(is_dataset=True)
    is_data = directory.rstrip("/").rpartition("/")[2] == _DATA
    return DirectoryContent(
        is_dataset=False,
        below=tuple(locations.join_names(directory, name) for name in names if not name.startswith(_HIDDEN_PREFIXES)),
        is_data=is_data and any(name.endswith(_DATA_FILE) for name in files),
    )


def holds_data_files(location: str, options: Mapping[str, str]) -> bool:
    """Return whether ``location`` has a dataset's data files.

    Raises:
        BackendError: it could not be listed.
    """
    with translated(location, options):
        return any(name.endswith(_DATA_FILE) for name in list_directory(locations.join(location, _DATA), options))


def holds_first_write(location: str, mark: bytes, options: Mapping[str, str], *ignored: str) -> bool:
    """Return whether ``location`` has only the files of a first write that was interrupted before its commit.

    Its data files must have ``mark`` in their schema's metadata. Directories in ``ignored`` may exist as well.

    Raises:
        BackendError: it could not be listed, or a data file could not be read.
    """
    with translated(location, options):
        if not {_VERSIONS, _DATA, "_transactions", *ignored}.issuperset(list_directory(location, options)):
            return False
        # A local file is written under a name with a dot in front, and renamed when it is whole.
        listed = list_directory(locations.join(location, _DATA), options)
        names, session = [name for name in listed if not name.startswith(".")], session_at(location, options)
    return all(_DATA_FILE in name for name in names) and all(
        _has_mark(session, f"{_DATA}/{name}", mark, location, options) for name in names[:_MAX_SCHEMAS_READ]
    )


def _has_mark(session: Any, path: str, mark: bytes, location: str, options: Mapping[str, str]) -> bool:
    """Return whether the schema of a data file has ``mark``; a file that was cut off has no schema to read."""
    try:
        with translated(location, options), suppress(RuntimeError):  # of a file in Lance's first format
            return mark in (session.open_reader(path).metadata().schema.metadata or {})
    except InvalidTableStateError:
        return True
    return False
