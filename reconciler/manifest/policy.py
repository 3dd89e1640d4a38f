"""Permissions of a manifest: which variables, files and hosts it may use.

A manifest names environment variables, files and hosts. The person at a command line, or a workflow that plans a
proposed change, decides which of these it may use.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from reconciler.model.hosts import bucket_of, hosts_in, is_admitted, texts_in

_LARGEST_FILE_BYTES = 1024 * 1024
_STORAGE = "storage."
_FILE_OPTION = re.compile(r"(?:.*[._-])?(?:file|path|application_credentials|service_account)", re.IGNORECASE)
_FILE_IN_JSON = frozenset({"file", "output_file"})
"""Google's external accounts read a file, or run a command, named in their JSON."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The permissions of one run of a manifest.

    Args:
        schemes: the placeholders that are resolved: ``env``, ``file`` and ``var``. The value of another one stays
            unknown: nothing is read, and what depends on it is not checked.
        environment: the environment variables that may be read; None for all.
        outside: whether files and includes may be outside of the folders of the manifest's paths.
        hosts: the hosts that a catalog's configuration may name, ``.example.com`` for all below it; None for any.
        places_outside: whether datasets may refer to places outside the roots of their catalog.
    """

    schemes: Collection[str] = ("env", "file", "var")
    environment: Collection[str] | None = None
    outside: bool = False
    hosts: Collection[str] | None = None
    places_outside: bool = False

    def admits(self, host: str) -> bool:
        """Return whether a configuration may name ``host``."""
        return is_admitted(host, self.hosts)

    def may_read(self, path: str, folders: Collection[str]) -> bool:
        """Return whether a manifest in ``folders`` may read the file at ``path``; both without links."""
        return self.outside or any(PurePath(path).is_relative_to(folder) for folder in folders)

    def bucket_refusal(self, location: str) -> str | None:
        """Return why a ``location`` with values of the environment or a file cannot be used, None when it can.

        The owner of a bucket sees the names requested in it, without any host being allowed.
        """
        bucket = bucket_of(location)
        if bucket is None or self.admits(bucket):
            return None
        return (
            "takes a value of the environment or a file to a bucket that is not allowed; --allow-host names those, too"
        )

    def config_refusals(self, key: str, text: str, folders: Collection[str], *, is_literal: bool) -> Iterator[str]:
        """Yield why ``text`` cannot be the value of ``key`` in a ``config``: hosts and files that are not allowed.

        This includes hosts and files in JSON, and in the file that a ``storage.*`` option names. A host is in the
        message only where the value ``is_literal``.
        """
        for name, value in self._texts(key, text, folders):
            if value is None:
                yield "names a file outside of the manifest's folder; --allow-outside lets it be read"
                continue
            for host in hosts_in(name, value):
                if not self.admits(host):
                    named = f"the host `{host}`" if is_literal else "a host"
                    yield f"names {named} that is not allowed; --allow-host names those that are"

    def _texts(self, key: str, text: str, folders: Collection[str]) -> Iterator[tuple[str, str | None]]:
        """Yield the texts to check, by key; None for a file that may not be read."""
        if not key.startswith(_STORAGE):
            yield key, text
            return
        texts = [*texts_in(key, text)]
        if is_file_option(key):
            content = self._content(text, folders)
            if content is None:
                yield key, None
            texts += [*texts_in(key, content or "")][1:]
        for name, value in texts:
            is_refused = name in _FILE_IN_JSON and self._content(value, folders) is None
            is_refused |= name == "command" and not self.outside
            yield name, None if is_refused else value

    def _content(self, path: str, folders: Collection[str]) -> str | None:
        """Return the text of the file at ``path``, empty if there is none; None if it may not be read."""
        try:
            real = os.path.realpath(path)
            if not self.may_read(real, folders):
                return None
            if not Path(real).is_file():  # reading a pipe would consume it
                return "" if self.outside or not Path(real).exists() else None
            data = read_file(real, _LARGEST_FILE_BYTES)
        except (OSError, ValueError):
            return None
        return data.decode("utf-8", "replace") if len(data) <= _LARGEST_FILE_BYTES else None


OPEN = Policy()
"""The permissions at a command line: every variable, files beneath the manifest's folders, any host."""

VARIABLES_ONLY = Policy(schemes=("var",))
"""The permissions to validate: ``${var:…}`` only. Any host may be named, since nothing connects to it."""

UNTRUSTED = Policy(schemes=())
"""The permissions of an untrusted manifest: no placeholder is resolved. Nothing connects to the hosts it names."""


def is_file_option(key: str) -> bool:
    """Return whether ``key`` of a ``config`` names a file that pylance reads."""
    return key.startswith(_STORAGE) and _FILE_OPTION.fullmatch(key) is not None


class UnreadableFileError(ValueError):
    """A file cannot be read; the message says why."""


class MissingFileError(UnreadableFileError):
    """A file does not exist."""


def read_file(path: str, most: int) -> bytes:
    """Return the content of a regular file; of one that is larger than ``most``, one byte more than that.

    Raises:
        UnreadableFileError: it cannot be read.
    """
    file = Path(path)
    try:
        status = file.stat()
        if stat.S_ISREG(status.st_mode):  # opening a pipe would block
            with file.open("rb") as opened:
                return opened.read(most + 1 if status.st_size > most else -1)
    except FileNotFoundError as error:
        raise MissingFileError(error.strerror) from None
    except (OSError, ValueError) as error:
        raise UnreadableFileError(getattr(error, "strerror", None) or "the path is not valid") from None
    raise UnreadableFileError("it is not a regular file")
