"""Storage locations: compare, check and show them.

A location is written as given and compared normalised: the forms of ``file:``, doubled and trailing slashes, ``.`` and
``..`` and the three names of S3 (``s3``, ``s3a``, ``s3n``) make no difference. In a URI ``%20`` is a space, as storage
reads it, and ``a/../b`` is ``b`` whatever ``a`` is, as pylance reads it. ``storage.resolved_links`` follows links.
"""

from __future__ import annotations

import os
import re
import uuid
from functools import lru_cache
from typing import TypeVar
from urllib.parse import unquote

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_WINDOWS_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NEW_PLACE = ".lancens_"
_NEW_PLACE_NAME = re.compile(r"\.lancens_[0-9a-f]{32}")
_S3_SCHEMES = {"s3", "s3a", "s3n"}
_AZURE_SCHEMES = {"abfs", "abfss", "wasb", "wasbs"}
_IF_NONE = {"headers.If-None-Match": "*"}
CONDITIONAL = {"abfss": _IF_NONE, "az": _IF_NONE, "gs": {"headers.x-goog-if-generation-match": "0"}, "s3": _IF_NONE}
"""For each scheme that has them, the storage options with which pylance never overwrites a file."""

LOCKED = "s3+ddb"
"""The scheme of S3 with commits that lock a row of the DynamoDB table in the location's query."""

_LOCK_TABLE = re.compile(r"(s3\+ddb://[^?#@]+)(\?ddbTableName=[A-Za-z0-9_.-]{3,255})", re.IGNORECASE)

# The schemes that pylance reads from this machine's disk.
_LOCAL_SCHEMES = {"", "file", "file+uring", "file-object-store"}
# Characters with a meaning in a URI; in a path they have none.
_URI_SYNTAX = str.maketrans({"%": "%25", "?": "%3F", "#": "%23"})
_PRIVATE_MARKS = re.compile(r"[?#@]")
_OUTER_BLANKS = "".join(map(chr, range(0x21)))
_INNER_BREAKS = re.compile(r"[\t\n\r]")


def _split(location: str) -> tuple[str, str]:
    """Return scheme (lower case, empty for a plain path) and the rest, as pylance parses a URL."""
    if location.startswith("/"):
        return "", location
    text = location.strip(_OUTER_BLANKS)
    match = _SCHEME.fullmatch(text if text.isprintable() else _INNER_BREAKS.sub("", text))
    if match is None or _WINDOWS_DRIVE.match(location):
        return "", location
    return match[1].lower(), match[2]


@lru_cache(maxsize=4096)  # each location of an apply is compared some twenty times
def normalise(location: str) -> str:
    """Return the normal form of ``location``; two texts for one place have the same form.

    >>> normalise("file:///data//a.lance/"), normalise("s3a://bucket/x/../a/")
    ('/data/a.lance', 's3://bucket/a')
    """
    scheme, rest = _split(location)
    if scheme in _LOCAL_SCHEMES:
        path = _local(scheme, rest) if scheme else rest
        return _collapsed(path) or ("/" if path.startswith("/") else path and ".")
    authority, slash, path = rest.removeprefix("//").partition("/")
    path, mark, lock = path.partition("?") if _LOCK_TABLE.fullmatch(location) else (path, "", "")
    path = _collapsed(slash + unquote(path))
    return f"{'s3' if scheme in _S3_SCHEMES else scheme}://{authority}{path}{mark}{lock}"


def _local(scheme: str, rest: str) -> str:
    """Return the path of a URL on this machine, without host, query and fragment."""
    path = re.split(r"[?#]", rest.replace("\\", "/") if scheme == "file" else rest, maxsplit=1)[0]
    if path.startswith("//"):
        path = "/" + path[2:].partition("/")[2]
    return unquote(path)


def path_of(location: str) -> str | None:
    """Return the path of a location that pylance reads on this machine's disk; None for one elsewhere.

    >>> path_of("File+URing:/data/a.lance"), path_of("s3://bucket/a")
    ('/data/a.lance', None)
    """
    scheme, _ = _split(location)
    if scheme not in _LOCAL_SCHEMES:
        return None
    return normalise(location) if scheme else location


def _collapsed(path: str) -> str:
    """Return ``path`` without doubled and trailing slashes, ``.`` and ``..``; a relative one may begin with ``..``."""
    if "//" not in path and "/." not in path and not path.startswith("."):
        return path.removesuffix("/")
    names: list[str] = []
    for name in path.split("/"):
        if name == ".." and names and names[-1] != "..":
            names.pop()
        elif name not in ("", ".") and not (name == ".." and path.startswith("/")):
            names.append(name)
    return ("/" if names and path.startswith("/") else "") + "/".join(names)


def names_in(location: str) -> list[str]:
    """Return the names between the slashes of ``location``, with ``.`` and ``..`` as written.

    >>> names_in("file:///data/%2e%2e/a")[-3:]
    ['data', '..', 'a']
    """
    scheme, rest = _split(location)
    return (unquote(rest) if scheme else rest).split("/")


def is_cut(location: str) -> bool:
    """Return whether Lance opens only the part of ``location`` before a ``?`` or ``#``.

    >>> is_cut("s3://bucket/a#b"), is_cut("/data/a#b"), is_cut("s3://bucket/a%23b")
    (True, False, False)
    """
    if _LOCK_TABLE.fullmatch(location):
        return False
    scheme, rest = _split(location)
    return bool(scheme) and re.search("[?#]", rest) is not None


def pylance_uri(location: str) -> str:
    """Return ``location`` as pylance takes it, with ``s3`` for all names of S3."""
    return re.sub(r"^s3[an]:", "s3:", location, count=1, flags=re.IGNORECASE)


def scheme(location: str) -> str:
    """Return the scheme in lower case; ``file`` for a plain path.

    >>> scheme("S3A://bucket/a"), scheme("/data/a.lance")
    ('s3a', 'file')
    """
    return _split(location)[0] or "file"


def same(location: str | None, other: str | None) -> bool:
    """Return whether both locations are the same place; None is the same as None only."""
    if location == other:
        return True
    return location is not None and other is not None and normalise(location) == normalise(other)


def is_under(root: str, location: str) -> bool:
    """Return whether ``location`` is strictly below ``root`` and does not leave it by ``..``."""
    base, place = normalise(root), normalise(location)
    may_leave = ".." in location or "%" in location or not location.isprintable()
    return place.startswith(base.rstrip("/") + "/") and not (may_leave and ".." in names_in(location))


def join(root: str, *names: str) -> str:
    """Return the location ``names`` below ``root``."""
    return "/".join((root.rstrip("/"), *names))


def join_names(root: str, *names: str) -> str:
    """Return the location of the files or directories ``names`` below ``root``, escaped if it is a URI.

    >>> join_names("s3://bucket/a", "50%"), join_names("/data/a", "50%")
    ('s3://bucket/a/50%25', '/data/a/50%')
    """
    return join(root, *(map(escape_name, names) if _split(root)[0] else names))


def escape_name(name: str) -> str:
    """Return the name or relative path of a file as a URI has it."""
    return name.translate(_URI_SYNTAX)


def absolute(location: str, base: str) -> str:
    """Return ``location`` with a relative POSIX path resolved against the directory ``base``; URIs as they are."""
    scheme, _ = _split(location)
    if scheme or location.startswith("/") or _WINDOWS_DRIVE.match(location):
        return location
    parts = [part for part in location.split("/") if part not in ("", ".")]
    folders = base.rstrip("/").split("/")
    while parts and parts[0] == "..":
        parts.pop(0)
        if len(folders) > 1:
            folders.pop()
    return "/".join([*folders, *parts]) or "/"


def problem(location: str) -> str | None:
    """Return why ``location`` cannot be used, for an error; None if it can.

    User information, queries and fragments carry credentials (SAS tokens, keys) and are refused.
    """
    if not location.strip():
        return "a location cannot be empty"
    if _CONTROL.search(location):
        return "a location cannot contain control characters"
    scheme, rest = _split(location)
    if not scheme:
        return None
    if scheme in _LOCAL_SCHEMES and not normalise(location).startswith("/"):
        return f"a location with {scheme}: needs the whole path, such as file:///data/users.lance"
    authority = rest.removeprefix("//").partition("/")[0] if rest.startswith("//") else ""
    # Azure's locations name the container before the @.
    if ":" in authority.rpartition("@")[0] or ("@" in authority and scheme not in _AZURE_SCHEMES):
        return "a location cannot hold user information; give credentials in `config` (`storage.*`)"
    if scheme != "file" and ("?" in rest or "#" in rest):
        return "a location cannot hold a query or fragment; give credentials in `config` (`storage.*`)"
    return None


_BLOB_HOST = re.compile(r"//([a-z0-9]+)\.(?:blob|dfs)\.core\.windows\.net/([^/]+)(.*)")
_S3_HOSTS = (
    re.compile(r"//([^./@:]+)\.s3[.-][a-z0-9.-]*amazonaws\.com/([^?#]*)"),
    re.compile(r"//s3[.-][a-z0-9.-]*amazonaws\.com/([^?#]+)"),
)
_GCS_HOST = re.compile(r"//storage\.googleapis\.com/([^?#]+)")
_S3_NAME = re.compile(r"aws[a-z-]*:s3:::([^?#]+)")
_BUCKETS = _S3_SCHEMES | {"gs"}
_OTHER_SCHEMES = {"gcs": "gs", "google": "gs", "azure": "az", "adl": "az", "aws": "s3"}


_UNRENDERED = re.compile(
    r"(?P<template>\{\{.*?\}\}|<%.*?%>)"
    r"|(?:^|(?<=/))(?:(?P<shell>\$\{?(?P<name>[A-Za-z_]\w*)\}?)(?=/|$)|(?P<windows>%[A-Za-z_]\w*%)(?=[/\\]|$))"
)

_ENVIRONMENT_CALL = re.compile(r"\benv(?:_var)?\b\W*([A-Za-z_]\w*)")


def home_is_kept(below: str = "/…") -> str:
    """Return that `~` does not stand for a home here, and what does for the path ``below`` it."""
    return f'`~` is not replaced; write the whole path, or `"${{env:HOME}}{below}"`'


def foreign_text(location: str) -> str | None:
    """Return what is wrong with a location that somebody else's tool should have rendered or opens; None if nothing is.

    >>> foreign_text("gcs://lake/a.lance")
    'Lance opens no gcs: locations; write gs://lake/a.lance'
    >>> foreign_text("$ROOT/lake")
    '`$ROOT` is not replaced; write `${env:ROOT}`'
    >>> foreign_text("%ROOT%/lake")
    '`%ROOT%` is not replaced; write `${var:NAME}`'
    >>> foreign_text("{{ env_var('ROOT') }}")
    "`{{ env_var('ROOT') }}` is not replaced; write `${env:ROOT}`"
    >>> foreign_text("s3://lake/%C3%A9%20x%20y/%2E%2E/b")
    """
    if location.startswith("~/"):
        return home_is_kept(location.removeprefix("~"))
    unrendered = _UNRENDERED.search(location)
    if unrendered is not None:
        name = unrendered["name"] or "NAME"
        if (of_environment := _ENVIRONMENT_CALL.search(unrendered[0])) is not None:
            name = of_environment[1]
        kind = "env" if unrendered["shell"] or of_environment else "var"
        return f"`{unrendered[0]}` is not replaced; write `${{{kind}:{name}}}`"
    if _WINDOWS_DRIVE.match(location) and os.name != "nt":
        return "a path of Windows, which is a relative one here; write the path of this machine"
    return _foreign_scheme(location)


def _bucket_path(rest: str) -> str | None:
    """Return the location of an object whose web address ends in ``rest``."""
    if (host := _S3_HOSTS[0].match(rest)) is not None:
        return f"s3://{host[1]}/{host[2]}"
    if (host := _S3_HOSTS[1].match(rest)) is not None:
        return f"s3://{host[1]}"
    return f"gs://{host[1]}" if (host := _GCS_HOST.match(rest)) is not None else None


def _foreign_scheme(location: str) -> str | None:
    scheme, rest = _split(location)
    expected = "expected a path, s3://, gs:// or az://"
    if scheme in _OTHER_SCHEMES:
        expected = f"write {_OTHER_SCHEMES[scheme]}:{redact(location).partition(':')[2]}"
    elif scheme in ("http", "https") and (blob := _BLOB_HOST.match(rest)) is not None:
        expected = f"write az://{blob[2]}{blob[3]}, and `storage.account_name: {blob[1]}` in `config`"
    elif scheme in ("http", "https") and (path := _bucket_path(rest)) is not None:
        expected = f"write {path}"
    elif scheme == "arn" and (bucket := _S3_NAME.match(rest)) is not None:
        expected = f"write s3://{bucket[1]}"
    elif scheme in ("r2", "minio"):
        expected = f"write s3:{redact(location).partition(':')[2]}, and `storage.endpoint` in `config`"
    elif scheme in _BUCKETS and not re.match("//[^/]", rest):
        return f"a location with {scheme}: needs a bucket after `//`, such as {scheme}://bucket/lake"
    elif scheme not in ("http", "https", "ftp", "hdfs", "dbfs", "viewfs"):
        return None
    return f"Lance opens no {scheme}: locations; {expected}"


def table_problem(location: str) -> str | None:
    """Return why no table can be at ``location``; None if one can.

    Unlike other locations, that of a table may have a query with the name of a lock table.

    >>> table_problem("s3+ddb://bucket/a.lance?ddbTableName=locks")
    """
    locked = _LOCK_TABLE.fullmatch(location)
    return problem(locked[1] if locked else location)


LocationT = TypeVar("LocationT", str, str | None)


def redact(location: LocationT) -> LocationT:
    """Return ``location`` safe to show, without user information and query, but with the name of a lock table."""
    if location is None:
        return None
    is_plain = location.isprintable() and not _PRIVATE_MARKS.search(location)
    if is_plain or _LOCK_TABLE.fullmatch(location):
        return location
    scheme, rest = _split(location)
    if scheme in _LOCAL_SCHEMES:
        return location
    rest = re.sub(r"[?#].*", "?(redacted)", rest, count=1, flags=re.DOTALL)
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        user, at, host = authority.rpartition("@")
        if at and not (scheme in _AZURE_SCHEMES and ":" not in user):
            authority = f"(redacted)@{host}"
        rest = f"//{authority}{slash}{path}"
    return f"{location[: len(scheme)]}:{rest}"


def objects_of(place: str) -> str:
    """Return the place of the objects at ``place``, a normal form: for ``s3+ddb`` the ``s3`` place without its lock.

    ``s3+ddb`` is S3 with a table of locks. The lock table is part of a location's identity, but not of its objects'.

    >>> objects_of("s3+ddb://bucket/a.lance?ddbTableName=locks")
    's3://bucket/a.lance'
    """
    bucket = place.removeprefix(f"{LOCKED}:")
    return place if bucket == place else f"s3:{bucket.partition('?')[0].rstrip('/')}"


def with_ancestors(place: str) -> list[str]:
    """Return ``place``, a normal form, and the normal forms of all directories above it.

    >>> with_ancestors("/data/a.lance")
    ['', '/data', '/data/a.lance']
    """
    names = place.split("/")
    return ["/".join(names[:depth]) for depth in range(1, len(names) + 1)]


def place(location: str) -> str:
    """Return the normal form as a saved plan shows it."""
    return normalise(redact(location))


def new_place_in(home: str) -> str:
    """Return a new, unique location in the directory ``home``, which no other writer uses."""
    return join(home, f"{_NEW_PLACE}{uuid.uuid4().hex}")


def is_new_place(name: str) -> bool:
    """Return whether ``name`` is the last part of a place from :func:`new_place_in`."""
    return _NEW_PLACE_NAME.fullmatch(name) is not None


def home_of(location: str) -> str:
    """Return the directory of a location from :func:`new_place_in`; any other location unchanged."""
    return location.partition(f"/{_NEW_PLACE}")[0]
