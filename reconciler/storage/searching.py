"""Going down directories in search of datasets; nothing is opened, written or deleted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.model import locations
from reconciler.storage.files import list_directory, list_entries, local_path
from reconciler.storage.pylance import translated

DEEPEST = 10
"""How many directories below a root are gone down."""

_VERSIONS, _DATA = "_versions", "data"
_DATA_FILE = ".lance"
_PASSED_OVER = ("_", ".")
# In a URI these would mean something else than themselves; in a path they are characters like others.
_URI_SYNTAX = str.maketrans({"%": "%25", "?": "%3F", "#": "%23"})
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True, slots=True)
class Looked:
    """What a directory is: a dataset, which has a ``_versions`` in it, or one with other directories ``below``.

    ``is_data``: it is what a dataset keeps its files of data in. Where it is found, no version names them.
    """

    is_dataset: bool
    below: tuple[str, ...] = ()
    is_data: bool = False


def as_plain_path(location: str) -> str:
    """Return a place on this machine by its plain path, so that names can be put behind it as they are."""
    path = local_path(location)
    return location if path is None else str(path)


def look_into(directory: str, options: Mapping[str, str]) -> Looked:
    """Return what ``directory`` is. Nothing whose name begins with ``_`` or ``.`` is below it.

    Raises:
        BackendError: it could not be listed.
    """
    with translated(directory, options):
        files, names = list_entries(directory, options)
    if _VERSIONS in names:
        return Looked(is_dataset=True)
    is_uri = _URI.match(directory) is not None
    return Looked(
        is_dataset=False,
        below=tuple(
            locations.join(directory, name.translate(_URI_SYNTAX) if is_uri else name)
            for name in names
            if not name.startswith(_PASSED_OVER)
        ),
        is_data=_is_data(directory) and any(name.endswith(_DATA_FILE) for name in files),
    )


def _is_data(directory: str) -> bool:
    return directory.rstrip("/").rpartition("/")[2] == _DATA


def holds_data_files(location: str, options: Mapping[str, str]) -> bool:
    """Return whether files of data as a dataset has them are at ``location``.

    Raises:
        BackendError: it could not be listed.
    """
    with translated(location, options):
        return any(name.endswith(_DATA_FILE) for name in list_directory(locations.join(location, _DATA), options))
