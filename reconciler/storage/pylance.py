"""The edge to pylance: opens datasets, and translates errors into our own.

Messages name the location without credentials, and never hold the value of a storage option.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from reconciler.model import locations
from reconciler.model.errors import (
    BackendError,
    ConcurrentModificationError,
    InternalError,
    InvalidTableStateError,
    PermissionDeniedError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
)
from reconciler.model.redaction import scrub
from reconciler.storage.connections import StoreConnection, connection_to

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

ReadT = TypeVar("ReadT")

SCHEMES = frozenset(
    {"abfss", "az", "cos", "file", "file+uring", "file-object-store", "goosefs", "gs", "hf", "memory", "oss"}
    | {"s3", "s3+ddb", "shared-memory", "tos"}
)
"""The URI schemes that pylance can open."""


def has_driver(location: str) -> bool:
    """Return whether pylance can open the scheme of ``location``."""
    return locations.scheme(locations.pylance_uri(location)) in SCHEMES


OBJECT_STORES = frozenset({"abfss", "az", "cos", "gs", "hf", "oss", "s3", "tos"})
"""Schemes that are neither on this machine nor name a host to which requests go."""

# Another writer's clean-up may remove the latest version between its listing and its opening.
VERSION_GONE = re.compile(r"not found\b.*/_versions/\S+\.manifest", re.IGNORECASE)
ATTEMPTS = 10

_USER_INPUT = "Invalid user input: "
_EVALUATION = re.compile(
    r"\b(Execution|Cast|Arrow|Compute|Parser|Divide by zero|Resources exhausted) error|LanceError\(Arrow\)"
    r"|This feature is not implemented|Error during planning"
)

_EXISTS = re.compile(r"already exists", re.IGNORECASE)

# In words of a message, and in no name of a path in it, such as `user_connections.lance`.
_WORD = r"(?<![/$_-])"

_DENIED = re.compile(
    rf"{_WORD}(permission ?denied|access ?denied|forbidden|unauthorized|unauthenticated|not authorized|os error 13\b"
    r"|failed to get aws credentials|authorization(failure|permissionmismatch)"
    r"|signaturedoesnotmatch|invalidaccesskeyid|expiredtoken|\b40[13]\b)",
    re.IGNORECASE,
)

# No credentials were configured and the machine has none of its own, where object stores look last.
_CREDENTIALS_MISSING = re.compile(
    r"failed to get aws credentials.*(notloaded|failedtoloadtoken)"
    r"|error performing token request.*169\.254\.169\.254|no azure account name in uri",
    re.IGNORECASE | re.DOTALL,
)
_NO_CREDENTIALS = (
    "no credentials were given for it, in `storage.*` or the environment, and this machine has none of its own"
)

_UNAVAILABLE = re.compile(
    rf"{_WORD}(generic \w+ error|http error|timed? ?out|connect|dns|throttl|slow ?down|\b(429|50[0234])\b)",
    re.IGNORECASE,
)

# pylance asks S3 for the region of a bucket unless it is configured, and says the same of a wrong name and no network.
_NO_REGION = re.compile(r".*Failed to resolve region for bucket '([^']*)'.*", re.DOTALL)

_XML_ERROR = re.compile(r"<\?xml.*?<Code>(.*?)</Code>\s*<Message>(.*?)</Message>.*", re.DOTALL)

# Durations of requests, and a list whose order varies, left out so that equal errors have equal texts.
_VARYING = re.compile(r",? in \d[\d.]*(?:ns|[uµ]s|ms|s)\b|\s*Valid schemes: [\w+, -]+")

_MAX_PART = 2000

_RUST_PLACE = re.compile(r",?\s*(?:\bat\s+)?[^\s,]+\.rs:\d+(?::\d+)?")


def repeated(ask: Callable[[], ReadT], gone: re.Pattern[str]) -> ReadT:
    """Return the result of ``ask``; retry after errors that match ``gone``: another writer removed a file."""
    for _ in range(ATTEMPTS - 1):
        try:
            return ask()
        except (OSError, ValueError) as error:
            if not gone.search(str(error)):
                raise
    return ask()


def connection_of(location: str, options: Mapping[str, str]) -> StoreConnection | None:
    """Return the shared connection to the bucket of ``location``; None outside an object store."""
    uri = locations.pylance_uri(location)
    return connection_to("/".join(uri.split("/")[:3]), options) if locations.scheme(uri) in OBJECT_STORES else None


def read_latest(opened: Callable[[], Any], read: Callable[[Any], ReadT]) -> ReadT:
    """Call ``read`` with the dataset that ``opened`` opens; retry if a clean-up removed its files."""
    for _ in range(ATTEMPTS - 1):
        dataset = opened()
        try:
            return read(dataset)
        except (OSError, ValueError):
            if dataset is None or dataset.latest_version == dataset.version:
                raise
    return read(opened())


@contextmanager
def translated(location: str, options: Mapping[str, str]) -> Iterator[None]:
    """Turn errors of pylance and the file system inside the block into our own."""
    try:
        yield
    except BaseException as error:
        if not is_storage_error(error):
            raise
        raise _translation(error, location, options) from None


def expression_error(error: Exception) -> str | None:
    """Return pylance's reason for rejecting a SQL expression, else None."""
    _, is_user_input, message = str(error).partition(_USER_INPUT)
    return _without_source_place(message) if is_user_input else None


def _without_source_place(text: str) -> str:
    """Cut pylance's message before a position in its source, or a request to report a bug of DataFusion."""
    return text.partition(", /")[0].partition("\nThis issue was likely caused by a bug")[0]


def is_expression_error(error: Exception) -> bool:
    """Return whether a SQL expression caused the error, alone or with a value."""
    return expression_error(error) is not None or _EVALUATION.search(str(error)) is not None


def expression_problem(schema: pa.Schema, evaluate: Callable[[Any], object]) -> str:
    """Return why an expression failed, without a value of the rows.

    It is evaluated again on an empty dataset, whose message cannot show any.
    """
    try:
        evaluate(in_memory(schema.empty_table()))
    except (OSError, ValueError) as error:
        return expression_error(error) or reason_of(error)
    return "a value in its rows does not fit"


def reason_of(error: Exception) -> str:
    """Return the text of an error of pylance without its place in the source."""
    return _without_source_place(str(error).removeprefix("LanceError(Schema): "))


def in_memory(table: pa.Table, **options: Any) -> LanceDataset:
    """Return a dataset in memory that lives as long as its last reference; ``options`` are pylance's."""
    import lance

    dataset: LanceDataset = lance.write_dataset(table, "memory://alone", **options)
    return dataset


def is_denied(error: BaseException, message: str) -> bool:
    """Return whether ``error``, whose text is ``message``, denies access."""
    return isinstance(error, PermissionError) or message == _NO_CREDENTIALS or _DENIED.search(message) is not None


def is_storage_error(error: BaseException) -> bool:
    """Return whether pylance or the file system raised ``error``."""
    return isinstance(error, (OSError, ValueError, RuntimeError)) or _is_panic(error)


def or_none(ask: Callable[[], Any]) -> Any:
    """Return the result of ``ask``; None if it raises a storage error."""
    try:
        return ask()
    except BaseException as error:
        if not is_storage_error(error):
            raise
        return None


def _is_panic(error: BaseException) -> bool:
    """Return whether ``error`` is a panic in pylance.

    Its class is no ``Exception`` and cannot be imported.
    """
    return type(error).__name__ == "PanicException"


def _translation(error: BaseException, location: str, options: Mapping[str, str]) -> BackendError:
    text = message_of(error, location, options)
    kind: type[BackendError] = InvalidTableStateError
    if type(error).__name__ == "CommitConflictError":
        kind = ConcurrentModificationError
    elif _is_panic(error):
        kind = InternalError
    elif is_denied(error, text):
        kind = PermissionDeniedError
    elif _EXISTS.search(text):
        kind = TableAlreadyExistsError
    elif _UNAVAILABLE.search(text) or _NO_REGION.fullmatch(str(error)):
        kind = ServiceUnavailableError
    return kind(f"{locations.redact(_culprit(error, location))}: {text}")


def _culprit(error: BaseException, location: str) -> str:
    """Return the path that the error names below ``location``, else ``location``."""
    named = str(error.filename) if isinstance(error, OSError) and error.filename is not None else location
    return named if locations.is_under(location, named) else location


def message_of(error: BaseException, location: str, options: Mapping[str, str]) -> str:
    """Return the text of ``error`` on one line, without secrets.

    XML, source positions and what varies are removed, too.
    """
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    text = scrub(text.replace(location, locations.redact(location)), options.values())
    if len(text) > 2 * _MAX_PART:  # it repeats a long name, which the patterns below would take hours for
        text = f"{text[:_MAX_PART]} … {text[-_MAX_PART:]}"
    if _CREDENTIALS_MISSING.search(text):
        return _NO_CREDENTIALS
    if (lost := _NO_REGION.fullmatch(text)) is not None:
        return f"no bucket `{lost[1]}` is found; correct its name, or set `storage.region` if S3 cannot be asked for it"
    answer = _XML_ERROR.search(text)
    if answer is not None:
        text = f"{text[: answer.start()]}{answer[1]}: {answer[2]}"
    if _is_panic(error):
        text = f"pylance panicked: {text}"
    return " ".join(_VARYING.sub("", _RUST_PLACE.sub("", text)).split())
