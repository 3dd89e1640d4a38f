"""Every error a metastore answers with, in the words of the Lance Namespace; no server is needed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from thrift.Thrift import TApplicationException

from reconciler.backends.hive.gen import ttypes
from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.backends.hive.metastore_errors import first_line, translated
from reconciler.model.errors import (
    BackendError,
    ErrorCode,
    InternalError,
    InvalidInputError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    PermissionDeniedError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from tests.servers.hive_stub import Stub, stub

DENIED = "org.apache.hadoop.security.AccessControlException: Permission denied: user=ann, access=WRITE, inode=/lake"


@pytest.mark.parametrize(
    ("answer", "wanted", "code"),
    [
        (ttypes.NoSuchObjectException("gone"), TableNotFoundError, ErrorCode.TABLE_NOT_FOUND),
        (ttypes.UnknownDBException("no db"), TableNotFoundError, ErrorCode.TABLE_NOT_FOUND),
        (ttypes.AlreadyExistsException("taken"), TableAlreadyExistsError, ErrorCode.TABLE_ALREADY_EXISTS),
        (ttypes.InvalidObjectException("bad name"), InvalidInputError, ErrorCode.INVALID_INPUT),
        (ttypes.InvalidOperationException("not empty"), NamespaceNotEmptyError, ErrorCode.NAMESPACE_NOT_EMPTY),
        (ttypes.MetaException(DENIED), PermissionDeniedError, ErrorCode.PERMISSION_DENIED),
        (ttypes.MetaException("No FileSystem for scheme: s3"), InvalidInputError, ErrorCode.INVALID_INPUT),
        (ttypes.MetaException("java.lang.NullPointerException"), InternalError, ErrorCode.INTERNAL),
        (ttypes.MetaException(None), InternalError, ErrorCode.INTERNAL),
        (
            TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name"),
            UnsupportedOperationError,
            ErrorCode.UNSUPPORTED,
        ),
        (TApplicationException(TApplicationException.INTERNAL_ERROR, "boom"), InternalError, ErrorCode.INTERNAL),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_each_answer_has_its_error(answer: Exception, wanted: type[BackendError], code: ErrorCode) -> None:
    with (
        pytest.raises(wanted) as caught,
        translated(
            "hive3",
            "creating table `a$b`",
            missing=TableNotFoundError,
            exists=TableAlreadyExistsError,
            refused=NamespaceNotEmptyError,
        ),
    ):
        raise answer
    assert caught.value.code == code
    assert str(caught.value).startswith("hive3: creating table `a$b`: ")


def test_errors_of_the_lance_namespace_pass() -> None:
    with (
        pytest.raises(NamespaceNotFoundError, match="as it was"),
        translated("hive2", "x", missing=TableNotFoundError),
    ):
        raise NamespaceNotFoundError("as it was")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("java.lang.RuntimeException: MetaException: it broke", "it broke"),
        ("\n  first line \n at org.apache.Foo(Foo.java:1)", "first line"),
        ("database x: not found", "database x: not found"),
        ("", "MetaException"),
    ],
)
def test_the_detail_is_the_first_line_without_java_names(text: str, shown: str) -> None:
    assert first_line(ttypes.MetaException(text)) == shown


def test_a_long_detail_is_cut() -> None:
    assert len(first_line(ttypes.MetaException("x" * 10_000))) == 300


def _create(answer: Exception, look: Callable[[], object]) -> None:
    def refuse(client: object) -> None:
        raise answer

    with stub(Stub()) as served, closing(Hive2Backend(uri=f"thrift://127.0.0.1:{served.port}")) as backend:
        backend._metastore.create(refuse, "creating table `a$b`", TableAlreadyExistsError, look)


def test_the_slower_of_two_creates_finds_the_object() -> None:
    with pytest.raises(TableAlreadyExistsError, match="it exists by now"):
        _create(ttypes.MetaException("duplicate key value in a unique index"), lambda: "there")


def test_a_create_that_failed_and_left_nothing_is_an_internal_error() -> None:
    def look() -> object:
        raise TableNotFoundError("not there")

    with pytest.raises(InternalError, match="disk full"):
        _create(ttypes.MetaException("disk full"), look)
