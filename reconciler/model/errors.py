"""The error tree of lancens.

Every error a user can cause or meet is a :class:`LancensError`; its text is complete (what, where, what to do)
and safe to print: it never holds a secret. A backend raises a :class:`BackendError` with a code of the Lance Namespace
specification. A user reads it as a :class:`CatalogError`; other tools get the type of ``lance_namespace.errors`` with
the same code from ``reconciler.namespace``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from reconciler.model import display


class LancensError(Exception):
    """Base of every error lancens reports; ``str(error)`` is what the user reads.

    Takes the lines of its text, in each of which line breaks and other invisible characters are escaped.
    """

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(map(display.message, lines)))


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One error in a file: ``file:line:column: message``.

    ``line`` and ``column`` count from 1; ``line`` 0 means the whole file.
    """

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        if not self.line:
            return f"{self.file}: {self.message}"
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


class ManifestError(LancensError):
    """The manifest cannot be used; raised before any catalog is read.

    Several errors are reported together, so that one run shows them all.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        files = display.count(len({problem.file for problem in self.problems}), "file")
        summary = f"{display.count(len(self.problems), 'error')} in {files}. Nothing was read or changed."
        super().__init__(*map(str, self.problems), summary)


class ConfigError(LancensError):
    """A catalog's ``config`` is incomplete or wrong."""


class MissingExtraError(LancensError):
    """A backend or command needs a package that is not installed; the message names the pip command."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs packages that are not installed: pip install '{pip_requirement()}[{extra}]'")


def pip_requirement() -> str:
    """Return the pip requirement of this lancens: its name, or the path that it was installed from.

    A checkout is named by its path, since its name on a package index may belong to an attacker.
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        origin = json.loads(distribution("lancens").read_text("direct_url.json") or "{}").get("url", "")
    except (PackageNotFoundError, ValueError):
        return "lancens"
    return unquote(urlsplit(origin).path) if origin.startswith("file:") else "lancens"


class CatalogError(LancensError):
    """A catalog could not be read completely, or refused a change.

    ``code`` is that of the backend's error.
    """

    def __init__(self, message: str, code: ErrorCode) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[CatalogError], tuple[str, ErrorCode]]:
        return CatalogError, (str(self), self.code)


_MAX_LISTED = 20


class BlockedError(LancensError):
    """A plan is not carried out because some objects are blocked; ``objects`` has a line for each."""

    def __init__(self, objects: Sequence[str]) -> None:
        self.objects = tuple(objects)
        unlisted = len(objects) - _MAX_LISTED
        listed = [*self.objects[:_MAX_LISTED], *([f"and {unlisted:,} more"] if unlisted > 0 else ())]
        ending = (
            f"{display.count(len(objects), 'object')} blocked. Nothing was changed. Plan again when that is fixed, or "
            "carry out the rest with --skip-blocked."
        )
        super().__init__(*listed, ending)


class SafetyError(LancensError):
    """The plan would remove more than the manifest's thresholds allow."""


class SelectionError(LancensError):
    """``--select`` or ``--catalog`` selects nothing."""


class PlanFileError(LancensError):
    """A saved plan cannot be read, or has a format that this version does not know."""


class StalePlanError(LancensError):
    """The manifest or a catalog has changed since a plan was made.

    Takes a clause on the change, and a line for each changed object.
    """

    def __init__(self, changed: str, *objects: str, remedy: str = "Plan again.") -> None:
        super().__init__(f"The plan is stale: {changed}.", *objects, f"{remedy} Nothing was changed.")


class ApplyError(LancensError):
    """Apply could not start, or some changes failed."""


# ---- what a backend raises (Lance Namespace specification, "Error Codes") --------------------------------------------


class ErrorCode(IntEnum):
    """The error codes of the specification that backends raise or ``lancens serve`` answers."""

    UNSUPPORTED = 0
    NAMESPACE_NOT_FOUND = 1
    NAMESPACE_ALREADY_EXISTS = 2
    NAMESPACE_NOT_EMPTY = 3
    TABLE_NOT_FOUND = 4
    TABLE_ALREADY_EXISTS = 5
    TABLE_INDEX_NOT_FOUND = 6
    TABLE_INDEX_ALREADY_EXISTS = 7
    TABLE_TAG_NOT_FOUND = 8
    TABLE_TAG_ALREADY_EXISTS = 9
    TRANSACTION_NOT_FOUND = 10
    TABLE_VERSION_NOT_FOUND = 11
    TABLE_COLUMN_NOT_FOUND = 12
    INVALID_INPUT = 13
    CONCURRENT_MODIFICATION = 14
    PERMISSION_DENIED = 15
    UNAUTHENTICATED = 16
    SERVICE_UNAVAILABLE = 17
    INTERNAL = 18
    INVALID_TABLE_STATE = 19
    TABLE_SCHEMA_VALIDATION_ERROR = 20
    THROTTLING = 21
    TABLE_BRANCH_NOT_FOUND = 22
    TABLE_BRANCH_ALREADY_EXISTS = 23


class BackendError(Exception):
    """Base of a backend's errors; the text is one line, names the implementation and the object, and no secret."""

    code: ErrorCode = ErrorCode.INTERNAL

    def __init__(self, message: str = "") -> None:
        super().__init__(display.message(message))


class UnsupportedOperationError(BackendError):
    """The catalog has no such operation."""

    code = ErrorCode.UNSUPPORTED


class NamespaceNotFoundError(BackendError):
    """A namespace does not exist."""

    code = ErrorCode.NAMESPACE_NOT_FOUND


class NamespaceAlreadyExistsError(BackendError):
    """A namespace of this name exists."""

    code = ErrorCode.NAMESPACE_ALREADY_EXISTS


class NamespaceNotEmptyError(BackendError):
    """A namespace to drop is not empty."""

    code = ErrorCode.NAMESPACE_NOT_EMPTY


class TableNotFoundError(BackendError):
    """A table does not exist."""

    code = ErrorCode.TABLE_NOT_FOUND


class TableAlreadyExistsError(BackendError):
    """A table of this name, or a dataset at this location, exists."""

    code = ErrorCode.TABLE_ALREADY_EXISTS


class TableTagNotFoundError(BackendError):
    """A dataset has no tag of this name."""

    code = ErrorCode.TABLE_TAG_NOT_FOUND


class TableTagAlreadyExistsError(BackendError):
    """A dataset has a tag of this name."""

    code = ErrorCode.TABLE_TAG_ALREADY_EXISTS


class TableVersionNotFoundError(BackendError):
    """A dataset has no such version."""

    code = ErrorCode.TABLE_VERSION_NOT_FOUND


class TableBranchNotFoundError(BackendError):
    """A dataset has no branch of this name."""

    code = ErrorCode.TABLE_BRANCH_NOT_FOUND


class TableBranchAlreadyExistsError(BackendError):
    """A dataset has a branch of this name."""

    code = ErrorCode.TABLE_BRANCH_ALREADY_EXISTS


class TableColumnNotFoundError(BackendError):
    """A dataset has no column of this name."""

    code = ErrorCode.TABLE_COLUMN_NOT_FOUND


class TableIndexNotFoundError(BackendError):
    """A dataset has no index of this name."""

    code = ErrorCode.TABLE_INDEX_NOT_FOUND


class InvalidInputError(BackendError):
    """The request or the configuration is invalid."""

    code = ErrorCode.INVALID_INPUT


class ConcurrentModificationError(BackendError):
    """The object was changed by another writer."""

    code = ErrorCode.CONCURRENT_MODIFICATION


class PermissionDeniedError(BackendError):
    """The credentials do not allow the operation."""

    code = ErrorCode.PERMISSION_DENIED


class UnauthenticatedError(BackendError):
    """There are no credentials, or the service does not accept them."""

    code = ErrorCode.UNAUTHENTICATED


class ServiceUnavailableError(BackendError):
    """The service cannot be reached, or cannot answer now."""

    code = ErrorCode.SERVICE_UNAVAILABLE


class InternalError(BackendError):
    """The service failed, or broke its specification."""

    code = ErrorCode.INTERNAL


class InvalidTableStateError(BackendError):
    """The location holds no usable Lance dataset."""

    code = ErrorCode.INVALID_TABLE_STATE


class TableSchemaValidationError(BackendError):
    """The data does not have the expected schema."""

    code = ErrorCode.TABLE_SCHEMA_VALIDATION_ERROR


class ThrottlingError(BackendError):
    """The service asks for fewer requests."""

    code = ErrorCode.THROTTLING


class NotLanceTableError(TableNotFoundError):
    """A table of another format has the name.

    lancens treats it as missing. Operations on a single table answer InvalidInput instead, as the catalogs'
    specifications require under "DescribeTable" and "DeregisterTable".
    """


_BY_CODE: dict[int, type[BackendError]] = {cls.code: cls for cls in BackendError.__subclasses__()}


def error_type(code: int) -> type[BackendError]:
    """Return the error type of ``code``; InternalError for a code that no backend raises."""
    return _BY_CODE.get(code, InternalError)
