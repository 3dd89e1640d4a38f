"""What comes in and what goes out: requests of any shape become the specification's, errors of ours become its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from lance_namespace.errors import InvalidInputError, from_error_code
from pydantic import BaseModel, ValidationError

from reconciler.model.errors import BackendError, ErrorCode


class _Asked(Protocol):
    """What has operations."""

    def in_context(self, context: Mapping[str, str]) -> AbstractContextManager[None]:
        """Return what surrounds the work on a request with this ``context``."""
        ...


NamespaceT = TypeVar("NamespaceT", bound=_Asked)
RequestT = TypeVar("RequestT", bound=BaseModel)
ResponseT = TypeVar("ResponseT")
P = ParamSpec("P")


# Clients tell some errors by their words: lance-spark, for one, that a table is missing.
_FIRST_WORDS = {
    ErrorCode.NAMESPACE_NOT_FOUND: "Namespace not found: ",
    ErrorCode.NAMESPACE_ALREADY_EXISTS: "Namespace already exists: ",
    ErrorCode.NAMESPACE_NOT_EMPTY: "Namespace not empty: ",
    ErrorCode.TABLE_NOT_FOUND: "Table not found: ",
    ErrorCode.TABLE_ALREADY_EXISTS: "Table already exists: ",
}


@contextmanager
def specification_errors() -> Iterator[None]:
    """Raise the ``lance_namespace.errors`` type of the same code for every error of a backend raised inside."""
    try:
        yield
    except BackendError as error:
        first, text = _FIRST_WORDS.get(error.code, ""), str(error)
        raise from_error_code(int(error.code), text if first in text else first + text) from error


def operation(
    model: type[RequestT],
) -> Callable[
    [Callable[Concatenate[NamespaceT, RequestT, P], ResponseT]],
    Callable[Concatenate[NamespaceT, RequestT, P], ResponseT],
]:
    """Make a method an operation of the specification.

    Its request may be a ``model`` or, as LanceDB passes them, a mapping with the same keys; its errors are those of
    ``lance_namespace``.
    """

    def decorate(
        method: Callable[Concatenate[NamespaceT, RequestT, P], ResponseT],
    ) -> Callable[Concatenate[NamespaceT, RequestT, P], ResponseT]:
        @wraps(method)
        def call(self: NamespaceT, request: RequestT, /, *args: P.args, **kwargs: P.kwargs) -> ResponseT:
            with specification_errors():
                coerced = _coerced(model, request)
                with self.in_context(_context_of(coerced)):
                    return method(self, coerced, *args, **kwargs)

        return call

    return decorate


def _context_of(request: BaseModel) -> dict[str, str]:
    """Return the context of a request; who it says is asking is in it under the headers that the protocol names."""
    identity = getattr(request, "identity", None)
    key, token = getattr(identity, "api_key", None), getattr(identity, "auth_token", None)
    said = {"header.x-api-key": key, "header.Authorization": token and f"Bearer {token}"}
    return {name: value for name, value in said.items() if value} | (getattr(request, "context", None) or {})


def _coerced(model: type[RequestT], request: object) -> RequestT:
    if isinstance(request, model):
        return request
    if isinstance(request, BaseModel):
        request = request.model_dump()
    if not isinstance(request, Mapping):
        raise InvalidInputError(f"the request is a {type(request).__name__}, not a {model.__name__}")
    try:
        return model.model_validate(dict(request))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidInputError(f"{model.__name__}: `{where}`: {first['msg']}") from None
