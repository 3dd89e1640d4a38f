"""Going down directories in search of datasets; nothing is opened, written or deleted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from reconciler import locations
from reconciler.storage.files import list_directories, local_path
from reconciler.storage.pylance import translated

__all__ = ["DEEPEST", "Looked", "as_plain_path", "look_into"]

DEEPEST = 10
"""How many directories below a root are gone down."""

_VERSIONS = "_versions"
_PASSED_OVER = ("_", ".")
# In a URI these would mean something else than themselves; in a path they are characters like others.
_URI_SYNTAX = str.maketrans({"%": "%25", "?": "%3F", "#": "%23"})
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True, slots=True)
class Looked:
    """What a directory is: a dataset, which has a ``_versions`` in it, or one with other directories ``below``."""

    is_dataset: bool
    below: tuple[str, ...] = ()


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
        names = list_directories(directory, options)
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
    )
