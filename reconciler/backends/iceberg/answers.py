"""Parse the responses of an Iceberg REST catalog."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.backends.http.refusals import Refusal, VendorError
from reconciler.model import errors

LANCE = "lance"
TABLE_TYPE = "table_type"
# AlreadyExistsException is missing: only the call knows whether it concerns a namespace or a table.
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
# A missing warehouse: servers send 404, 400 or 500 (Nessie). Locations may have the word, too.
_NO_WAREHOUSE = re.compile(
    r"(?<![\w./:-])warehouse\b(?![./-]).{0,400}\b(?:not known|unknown|not found|does(?: not|n't) exist)"
    r"|\b(?:unknown|no such|find|found no)\b.{0,400}(?<![\w./:-])warehouse\b(?![./-])",
    re.IGNORECASE,
)
LOCATION_REMEDY = (
    "leave `location` out or name one there; or set `polaris.config.allow.unstructured.table.location` to true in the "
    "catalog's properties in Polaris, and `unstructured_table_location: true` in `config`"
)
"""The remedy for a location that Polaris refuses."""
_LOCATION_DENIED = "not in the list of allowed locations"
# Nessie adds the commit at which it read a table; it changes with every commit to any table.
_VOLATILE_PROPERTIES = frozenset({"nessie.commit.id", "nessie.commit.ref"})
_OPTION_NAMES = {
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
    """The service lists a table but cannot load it.

    Its metadata is lost, or breaks the protocol.
    """


class UncertainCommitError(errors.InternalError):
    """The service failed during a commit; it may have been made."""


@dataclass(frozen=True, slots=True)
class TableEntry:
    """The entry of a table of any format.

    A table that is created again gets another ``uuid``. ``unreadable`` is empty, or says why the table cannot be used,
    as a clause after "a table that"; if it could not be loaded, the other fields are empty.
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
    """Translate an error body, ``{"error": {"message", "type", "code"}}``.

    The server's stack trace is left out.
    """
    error = refusal.body.get("error") if isinstance(refusal.body, Mapping) else None
    if not isinstance(error, Mapping):
        return None
    message, name = str(error.get("message") or ""), str(error.get("type") or "")
    kind = _KINDS.get(name)
    if kind is None and _NO_WAREHOUSE.search(message):
        kind = errors.NamespaceNotFoundError
    if kind is errors.PermissionDeniedError and _LOCATION_DENIED in message:
        message = f"tables go below their namespace's location: {LOCATION_REMEDY} ({message})"
    return VendorError(message or name, kind)


def parse_properties(answer: Mapping[str, object], doing: str) -> dict[str, str]:
    """Return the properties of a response; errors name the call by ``doing``."""
    properties = answer.get("properties") or {}
    if not isinstance(properties, Mapping):
        raise errors.InternalError(f"iceberg: {doing}: the properties in the answer are not an object")
    return {
        str(key): str(value)
        for key, value in properties.items()
        if value is not None and key not in _VOLATILE_PROPERTIES
    }


def parse_entry(answer: Mapping[str, object], doing: str) -> TableEntry:
    """Parse a LoadTable response; errors name the call by ``doing``.

    Raises:
        UnreadableTableError: the response has no metadata.
        InternalError: it is no LoadTable response.
    """
    if "metadata" not in answer:
        raise errors.InternalError(f"iceberg: {doing}: the answer is not a table; check what answers at this URL")
    metadata = answer["metadata"]
    location = metadata.get("location") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping):
        raise UnreadableTableError(f"iceberg: {doing}: the answer holds no metadata")
    uuid, properties = str(metadata.get("table-uuid") or ""), parse_properties(metadata, doing)
    if not isinstance(location, str):
        return TableEntry(uuid, properties=properties, unreadable="has no location")
    return TableEntry(uuid, location, properties)


def parse_written_entry(answer: Mapping[str, object], doing: str) -> TableEntry:
    """Parse the table in the response to a write.

    Raises:
        InternalError: there is none, or it has no location.
    """
    entry = parse_entry(answer, doing)
    if entry.unreadable:
        raise UnreadableTableError(f"iceberg: {doing}: the answer holds no metadata with a location")
    return entry


def vended_options(answer: Mapping[str, object], location: str) -> dict[str, str]:
    """Return the storage options in a LoadTable response, by pylance's names.

    ``storage-credentials`` has options by prefixes of locations, ``config`` those for all locations. In them,
    options have the names of Iceberg's own clients (`s3.*`, `gcs.*`, `adls.*`).
    """
    entries = answer.get("storage-credentials")
    credentials = [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
    matching = [entry for entry in credentials if location.startswith(str(entry.get("prefix") or ""))]
    best = max(matching, key=lambda entry: len(str(entry.get("prefix") or "")), default={})
    return dict(_pylance_options({**_texts(answer.get("config")), **_texts(best.get("config"))}))


def _pylance_options(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in config.items():
        if key in _OPTION_NAMES:
            yield _OPTION_NAMES[key], value
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
