"""Translate the errors of a Hive Metastore.

No exception of Thrift or Hive leaves :func:`translated`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from thrift.Thrift import TApplicationException

from reconciler.backends.hive.gen import ttypes
from reconciler.model import errors

_LONGEST_DETAIL = 300
_DENIED = ("permission denied", "accesscontrolexception", "not authorized", "does not have privilege")


def first_line(error: Exception) -> str:
    """Return the first line of the server's text, without names of Java classes."""
    text = str(getattr(error, "message", error) or "")
    line = next((part.strip() for part in text.splitlines() if part.strip()), type(error).__name__)
    while (cut := line.partition(": "))[1] and cut[0].endswith(("Exception", "Error")) and " " not in cut[0]:
        line = cut[2]
    return line if len(line) <= _LONGEST_DETAIL else line[: _LONGEST_DETAIL - 1] + "…"


class KerberosError(ConnectionError):
    """Kerberos refuses a connection; the text says why and what to do."""


class LoginRefusedError(Exception):
    """The metastore refuses the user name and the password, or the token."""


@contextmanager
def translated(
    impl: str,
    doing: str,
    *,
    missing: type[errors.BackendError],
    exists: type[errors.BackendError] = errors.InternalError,
    refused: type[errors.BackendError] = errors.InvalidInputError,
) -> Iterator[None]:
    """Translate the metastore's errors that are raised inside.

    Args:
        impl: the first word of every message.
        doing: the request, such as ``dropping namespace `a$b```.
        missing: raised for an object that does not exist.
        exists: raised for a name that is taken.
        refused: raised for an operation that is not possible in the current state.

    Raises:
        BackendError: ``missing``, ``exists`` or ``refused``; InvalidInputError for an object that the server rejects,
            PermissionDeniedError for a denied request, ConcurrentModificationError for an entry that was modified,
            UnsupportedOperationError for an unknown call and InternalError for the rest.
    """
    try:
        yield
    except (ttypes.NoSuchObjectException, ttypes.UnknownDBException) as error:
        raise missing(f"{impl}: {doing}: {first_line(error)}") from error
    except ttypes.AlreadyExistsException as error:
        raise exists(f"{impl}: {doing}: {first_line(error)}") from error
    except ttypes.InvalidObjectException as error:
        raise errors.InvalidInputError(f"{impl}: {doing}: the metastore rejects it: {first_line(error)}") from error
    except ttypes.InvalidOperationException as error:
        raise refused(f"{impl}: {doing}: {first_line(error)}") from error
    except ttypes.MetaException as error:
        raise _meta_exception_error(f"{impl}: {doing}", error) from error
    except TApplicationException as error:
        if error.type == TApplicationException.UNKNOWN_METHOD:
            raise errors.UnsupportedOperationError(f"{impl}: {doing}: this metastore does not have the call") from error
        raise errors.InternalError(f"{impl}: {doing}: {first_line(error)}") from error


def _meta_exception_error(prefix: str, error: Exception) -> errors.BackendError:
    """Return the error for a MetaException, Hive's catch-all, by its text."""
    text = str(error).lower()
    if any(word in text for word in _DENIED):
        return errors.PermissionDeniedError(f"{prefix}: {first_line(error)}")
    if "has been modified" in text:
        return errors.ConcurrentModificationError(f"{prefix}: {first_line(error)}")
    if "no filesystem for scheme" in text:
        return errors.InvalidInputError(
            f"{prefix}: {first_line(error)}. The metastore creates the directory itself and has no library for this "
            "kind of location; install it there, or use another location"
        )
    return errors.InternalError(f"{prefix}: {first_line(error)}")
