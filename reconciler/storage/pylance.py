"""The edge to pylance: datasets are opened here, and what pylance and the file system raise becomes an error of ours.

Errors name the location without credentials and never hold the value of a storage option.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
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

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

ReadT = TypeVar("ReadT")

SCHEMES = frozenset(
    {"abfss", "az", "cos", "file", "file+uring", "file-object-store", "goosefs", "gs", "hf", "memory", "oss"}
    | {"s3", "s3+ddb", "shared-memory", "tos"}
)
"""The schemes of which pylance has a driver."""

OBJECT_STORES = frozenset({"abfss", "az", "cos", "gs", "hf", "oss", "s3", "tos"})
"""Those of them that are neither on this machine nor name a host that requests go to as they are."""

# A writer that commits and cleans up between the list of versions and the opening of the latest takes that away.
_VERSION_GONE = re.compile(r"not found\b.*/_versions/\S+\.manifest", re.IGNORECASE)
_TRIES = 10

_CLIENTS_FAULT = "Invalid user input: "
_EVALUATION = re.compile(r"\b(Execution|Cast|Arrow|Compute|Parser|Divide by zero|Resources exhausted) error")

_EXISTS = re.compile(r"already exists", re.IGNORECASE)

_DENIED = re.compile(
    r"permission ?denied|access ?denied|forbidden|unauthorized|unauthenticated|not authorized|os error 13\b"
    r"|failed to get aws credentials|authorization(failure|permissionmismatch)"
    r"|signaturedoesnotmatch|invalidaccesskeyid|expiredtoken|\b40[13]\b",
    re.IGNORECASE,
)

# What is said where nobody gave credentials, and the machine has none of its own: it is asked for them last.
_WITHOUT_CREDENTIALS = re.compile(
    r"failed to get aws credentials.*(notloaded|failedtoloadtoken)"
    r"|error performing token request.*169\.254\.169\.254|no azure account name in uri",
    re.IGNORECASE | re.DOTALL,
)
_WITHOUT = "no credentials were given for it, in `storage.*` or the environment, and this machine has none of its own"

_UNAVAILABLE = re.compile(
    r"generic \w+ error|http error|timed? ?out|connect|dns|throttl|slow ?down|\b(429|50[0234])\b", re.IGNORECASE
)

_XML_ERROR = re.compile(r"<\?xml.*?<Code>(.*?)</Code>\s*<Message>(.*?)</Message>.*", re.DOTALL)

# How long a request took: what storage says is to be the same each time that it says the same.
_DURATION = re.compile(r",? in \d[\d.]*(?:ns|[uµ]s|ms|s)\b")

_RUST_PLACE = re.compile(r",?\s*(?:\bat\s+)?[^\s,]+\.rs:\d+(?::\d+)?")


def open_dataset(location: str, options: Mapping[str, str]) -> Any:
    """Return the ``lance.LanceDataset`` at ``location``, at its latest version, which may be a later one by then.

    Errors are pylance's own, see :func:`translated`.
    """
    import lance

    opened = partial(lance.dataset, locations.pylance_uri(location), storage_options=dict(options) or None)
    for _ in range(_TRIES - 1):
        try:
            return opened()
        except (OSError, ValueError) as error:
            if not _VERSION_GONE.search(str(error)):
                raise
    return opened()


def read_latest(opened: Callable[[], Any], read: Callable[[Any], ReadT]) -> ReadT:
    """Return what ``read`` says of the dataset that ``opened`` gives; once more where a clean-up took its files."""
    for _ in range(_TRIES - 1):
        dataset = opened()
        try:
            return read(dataset)
        except (OSError, ValueError):
            if dataset is None or dataset.latest_version == dataset.version:
                raise
    return read(opened())


@contextmanager
def translated(location: str, options: Mapping[str, str]) -> Iterator[None]:
    """Turn what pylance and the file system raise inside the block into our errors."""
    try:
        yield
    except BaseException as error:
        if not is_storage_error(error):
            raise
        raise _translation(error, location, options) from None


def reason_of_clients_fault(error: Exception) -> str | None:
    """Return what pylance says is wrong with an expression in SQL; None where something else went wrong."""
    _, is_clients, said = str(error).partition(_CLIENTS_FAULT)
    return said.partition(", /")[0] if is_clients else None


def is_expressions_fault(error: Exception) -> bool:
    """Return whether an expression in SQL is at fault, by itself or for a value that it met."""
    return reason_of_clients_fault(error) is not None or _EVALUATION.search(str(error)) is not None


def expression_problem(schema: pa.Schema, evaluate: Callable[[Any], object]) -> str:
    """Return why a dataset of ``schema`` refused an expression, without a value of its rows.

    The expression is evaluated again on a dataset without rows, whose message cannot hold any.
    """
    try:
        evaluate(in_memory(schema.empty_table()))
    except (OSError, ValueError) as error:
        reason = reason_of_clients_fault(error)
        if reason is not None:
            return reason
    return "a value in its rows does not fit"


def in_memory(table: pa.Table) -> LanceDataset:
    """Return a dataset with the rows of ``table`` that nothing else can see and that ends with its last reference."""
    import lance

    made: LanceDataset = lance.write_dataset(table, "memory://alone")
    return made


def is_denied(error: BaseException, message: str) -> bool:
    """Return whether ``error``, which says ``message``, is a refusal of access."""
    return isinstance(error, PermissionError) or message == _WITHOUT or _DENIED.search(message) is not None


def is_storage_error(error: BaseException) -> bool:
    """Return whether pylance or the file system raised ``error``, rather than lancens or whoever ends the process."""
    return isinstance(error, (OSError, ValueError, RuntimeError)) or _is_panic(error)


def _is_panic(error: BaseException) -> bool:
    """Return whether ``error`` is a panic in pylance: no ``Exception``, and of a class that cannot be imported."""
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
    elif _UNAVAILABLE.search(text):
        kind = ServiceUnavailableError
    return kind(f"{locations.redact(_culprit(error, location))}: {text}")


def _culprit(error: BaseException, location: str) -> str:
    """Return what could not be used: ``location``, or the file or directory below it that the system names."""
    named = str(error.filename) if isinstance(error, OSError) and error.filename is not None else location
    return named if locations.is_under(location, named) else location


def message_of(error: BaseException, location: str, options: Mapping[str, str]) -> str:
    """Return what ``error`` says on one line, without XML, times, places in pylance's source, and secrets."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if _WITHOUT_CREDENTIALS.search(text):
        return _WITHOUT
    answer = _XML_ERROR.search(text)
    if answer is not None:
        text = f"{text[: answer.start()]}{answer[1]}: {answer[2]}"
    if _is_panic(error):
        text = f"pylance broke off: {text}"
    line = " ".join(_DURATION.sub("", _RUST_PLACE.sub("", text)).split())
    return scrub(line.replace(location, locations.redact(location)), options.values())
