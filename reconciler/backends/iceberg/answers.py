"""The answers of an Iceberg REST catalog: errors, entries, vended credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.backends.http.refusals import Refusal, VendorError
from reconciler.model import errors

LANCE = "lance"
TABLE_TYPE = "table_type"
# Only the call knows what an AlreadyExistsException or a conflict is about.
_KINDS: Mapping[str, type[errors.BackendError]] = {
    "NoSuchNamespaceException": errors.NamespaceNotFoundError,
    "NoSuchTableException": errors.TableNotFoundError,
    "NamespaceNotEmptyException": errors.NamespaceNotEmptyError,
    "CommitFailedException": errors.ConcurrentModificationError,
    "NotAuthorizedException": errors.UnauthenticatedError,
    "ForbiddenException": errors.PermissionDeniedError,
    "UnsupportedOperationException": errors.UnsupportedOperationError,
    "TooManyRequestsException": errors.ThrottlingError,
}
# Servers disagree on the status of this error (404, 400, and Nessie's is 500). Many a location has the word, too.
_NO_WAREHOUSE = re.compile(
    r"(?<![\w./:-])warehouse\b(?![./-]).{0,400}\b(?:not known|unknown|not found|does(?: not|n't) exist)"
    r"|\b(?:unknown|no such|find|found no)\b.{0,400}(?<![\w./:-])warehouse\b(?![./-])",
    re.IGNORECASE,
)
WAYS_OUT = (
    "leave `location` out or name one there; or set `polaris.config.allow.unstructured.table.location` to true in the "
    "catalog's properties in Polaris, and `unstructured_table_location: true` in `config`"
)
"""What to do about a location that Polaris refuses."""
_NOT_THERE = "not in the list of allowed locations"
# Nessie adds at which of its commits it read a table, which changes with every commit to any table.
_READ_AT = frozenset({"nessie.commit.id", "nessie.commit.ref"})
_NAMES = {
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.endpoint": "aws_endpoint",
    "client.region": "aws_region",
    "s3.region": "aws_region",
    "gcs.oauth2.token": "google_storage_token",
}
_SAS = re.compile(r"adls\.sas-token\.(?P<account>[a-z0-9]+)(\.(dfs|blob)\..+)?")


class UnreadableTableError(errors.InternalError):
    """The service lists a table and cannot load it.

    Its metadata is lost, or breaks the protocol.
    """


class BrokenOffCommitError(errors.InternalError):
    """The service failed during a commit, which may have been made or not."""


@dataclass(frozen=True, slots=True)
class TableEntry:
    """The parts of a table's entry that matter here, of whatever format.

    ``uuid`` is another one once the table is created again. ``unreadable`` completes "a table that" for a table that is
    listed and cannot be loaded, or has no location; of the former nothing else is known.
    """

    uuid: str = ""
    location: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    unreadable: str = ""

    @property
    def is_lance(self) -> bool:
        """Whether the entry is marked ("Lance Table Identification")."""
        return not self.unreadable and self.properties.get(TABLE_TYPE, "").lower() == LANCE


def translate(refusal: Refusal) -> VendorError | None:
    """Return the error of ``{"error": {"message", "type", "code"}}``.

    The server's stack trace is left out.
    """
    error = refusal.body.get("error") if isinstance(refusal.body, Mapping) else None
    if not isinstance(error, Mapping):
        return None
    message, name = str(error.get("message") or ""), str(error.get("type") or "")
    kind = _KINDS.get(name)
    if kind is None and _NO_WAREHOUSE.search(message):
        kind = errors.NamespaceNotFoundError
    if kind is errors.PermissionDeniedError and _NOT_THERE in message:
        message = f"tables go below their namespace's location: {WAYS_OUT} ({message})"
    return VendorError(message or name, kind)


def properties_in(answer: Mapping[str, object], doing: str) -> dict[str, str]:
    """Return the properties that an answer holds; errors name the call by ``doing``."""
    properties = answer.get("properties") or {}
    if not isinstance(properties, Mapping):
        raise errors.InternalError(f"iceberg: {doing}: the properties in the answer are not an object")
    return {str(key): str(value) for key, value in properties.items() if value is not None and key not in _READ_AT}


def entry_in(answer: Mapping[str, object], doing: str) -> TableEntry:
    """Return the table that an answer holds; errors name the call by ``doing``.

    Raises:
        UnreadableTableError: the service answers for a table and does not say what it is.
        InternalError: the answer is not one of LoadTable, which says nothing of the table.
    """
    if "metadata" not in answer:
        raise errors.InternalError(f"iceberg: {doing}: the answer is not a table; check what answers at this URL")
    metadata = answer["metadata"]
    location = metadata.get("location") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping):
        raise UnreadableTableError(f"iceberg: {doing}: the answer holds no metadata")
    uuid, properties = str(metadata.get("table-uuid") or ""), properties_in(metadata, doing)
    if not isinstance(location, str):
        return TableEntry(uuid, properties=properties, unreadable="has no location")
    return TableEntry(uuid, location, properties)


def written_entry(answer: Mapping[str, object], doing: str) -> TableEntry:
    """Return the table that the answer to a write holds.

    Raises:
        InternalError: it holds none, or one without a location.
    """
    entry = entry_in(answer, doing)
    if entry.unreadable:
        raise UnreadableTableError(f"iceberg: {doing}: the answer holds no metadata with a location")
    return entry


def vended_options(answer: Mapping[str, object], location: str) -> dict[str, str]:
    """Return the storage options that an answer of LoadTable vends.

    ``storage-credentials`` holds them by the beginning of locations, ``config`` for all others. The names are those of
    Iceberg's own clients (`s3.*`, `gcs.*`, `adls.*`).
    """
    entries = answer.get("storage-credentials")
    credentials = [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
    matching = [entry for entry in credentials if location.startswith(str(entry.get("prefix") or ""))]
    best = max(matching, key=lambda entry: len(str(entry.get("prefix") or "")), default={})
    return dict(_renamed({**_texts(answer.get("config")), **_texts(best.get("config"))}))


def _renamed(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in config.items():
        if key in _NAMES:
            yield _NAMES[key], value
        elif sas := _SAS.fullmatch(key):
            yield "azure_storage_account_name", sas["account"]
            yield "azure_storage_sas_token", value
    if config.get("s3.path-style-access", "").lower() == "true":
        yield "aws_virtual_hosted_style_request", "false"
    if config.get("s3.endpoint", "").startswith("http://"):
        yield "allow_http", "true"


def _texts(config: object) -> dict[str, str]:
    known = config if isinstance(config, Mapping) else {}
    return {str(key): value for key, value in known.items() if isinstance(value, str)}
