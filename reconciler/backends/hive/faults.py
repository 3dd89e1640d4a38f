"""What a Hive Metastore answers when it does not do as asked, in the words of the Lance Namespace.

Nothing of Thrift or Hive gets past :func:`translated` as an exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reconciler.model import errors

_LONGEST_DETAIL = 300
_DENIED = ("permission denied", "accesscontrolexception", "not authorized", "does not have privilege")


def detail(error: Exception) -> str:
    """Return the first line of what the server said, without Java class names in front, at most 300 characters."""
    text = str(getattr(error, "message", error) or "")
    line = next((part.strip() for part in text.splitlines() if part.strip()), type(error).__name__)
    while (cut := line.partition(": "))[1] and cut[0].endswith(("Exception", "Error")) and " " not in cut[0]:
        line = cut[2]
    return line if len(line) <= _LONGEST_DETAIL else line[: _LONGEST_DETAIL - 1] + "…"


class LoginRefusedError(Exception):
    """The metastore does not take who asks: not the user name and the password, or not the token."""


@contextmanager
def translated(
    impl: str,
    what: str,
    *,
    missing: type[errors.BackendError],
    exists: type[errors.BackendError] = errors.InternalError,
    refused: type[errors.BackendError] = errors.InvalidInputError,
) -> Iterator[None]:
    """Turn what the metastore raises inside into errors of ours.

    Args:
        impl: the first word of every message.
        what: what was asked for, such as ``drop of namespace `a$b```.
        missing: raised where the server finds no such object.
        exists: raised where the server finds the name taken.
        refused: raised where the server finds the operation impossible in the present state.

    Raises:
        BackendError: ``missing``, ``exists`` and ``refused`` as said; InvalidInputError for an object the
            server does not take, PermissionDeniedError for what it does not allow, UnsupportedOperationError for a
            call it does not know and InternalError for the rest. Whatever is one of these already passes.
    """
    from thrift.Thrift import TApplicationException

    from reconciler.backends.hive.gen import ttypes

    try:
        yield
    except (ttypes.NoSuchObjectException, ttypes.UnknownDBException) as error:
        raise missing(f"{impl}: {what}: {detail(error)}") from error
    except ttypes.AlreadyExistsException as error:
        raise exists(f"{impl}: {what}: {detail(error)}") from error
    except ttypes.InvalidObjectException as error:
        raise errors.InvalidInputError(f"{impl}: {what}: the metastore refuses it: {detail(error)}") from error
    except ttypes.InvalidOperationException as error:
        raise refused(f"{impl}: {what}: {detail(error)}") from error
    except ttypes.MetaException as error:
        raise _of_meta_exception(f"{impl}: {what}", error) from error
    except TApplicationException as error:
        if error.type == TApplicationException.UNKNOWN_METHOD:
            raise errors.UnsupportedOperationError(f"{impl}: {what}: this metastore does not know the call") from error
        raise errors.InternalError(f"{impl}: {what}: {detail(error)}") from error


def _of_meta_exception(what: str, error: Exception) -> errors.BackendError:
    """Return the error behind Hive's catch-all, which says what happened in its text only."""
    text = str(error).lower()
    if any(word in text for word in _DENIED):
        return errors.PermissionDeniedError(f"{what}: {detail(error)}")
    if "has been modified" in text:
        return errors.ConcurrentModificationError(f"{what}: {detail(error)}")
    if "no filesystem for scheme" in text:
        return errors.InvalidInputError(
            f"{what}: {detail(error)}. The metastore makes the directory itself and has no library for this kind of "
            "location; install it there, or use another location"
        )
    return errors.InternalError(f"{what}: {detail(error)}")
