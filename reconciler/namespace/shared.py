"""What all operations share: the catalog, requests, errors, and pages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from lance_namespace import LanceNamespace
from lance_namespace.errors import InvalidInputError, LanceNamespaceError, from_error_code
from pydantic import BaseModel, ValidationError

from reconciler import storage
from reconciler.backends.base import Backend
from reconciler.model.admission import StorageOptions
from reconciler.model.errors import BackendError, ErrorCode, NotLanceTableError, UnsupportedOperationError
from reconciler.model.live import LiveTable, Storage, StorageKind
from reconciler.model.names import Identifier
from reconciler.model.tags import MAIN_BRANCH


class CatalogOperations(LanceNamespace):
    """The base of operations on one catalog; a subclass may restrict locations."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def in_context(self, context: Mapping[str, str]) -> AbstractContextManager[Mapping[str, str]]:
        """Return a context manager in which the catalog gets a request's ``context``, and yields the response's."""
        return self.backend.in_context(context)

    def _direct_properties(self, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return the properties of a new namespace, with those that its catalog requires."""
        return self.backend.properties_for_request(identifier, properties)

    def _direct_location(self, identifier: Identifier) -> str | None:
        """Return the default location of a new table; None if the service chooses."""
        return self.backend.location_for_request(identifier)

    def _location_to_open(self, table: LiveTable) -> str:
        """Return the location at which to open the dataset of ``table``."""
        return table.location

    def _compute(self, work: Callable[..., Any], *arguments: object, expressions: Collection[str] = ()) -> Any:
        """Call ``work``, of ``reconciler.storage``, on a client's data."""
        return work(*arguments)

    def _found(self, table: LiveTable) -> Storage:
        return storage.probe(self._location_to_open(table), self.backend.table_storage_options(table))

    def _has_data(self, table: LiveTable) -> bool:
        return self._found(table).kind is not StorageKind.NOTHING

    def _lance_table(self, identifier: Sequence[str] | None) -> LiveTable:
        """Return the entry of a Lance table.

        Raises:
            InvalidInputError: it is a table of another format.
            BackendError: the table does not exist, or the catalog cannot be read.
        """
        with other_formats_refused():
            return self.backend.load_table(self.backend.table_id(identifier))

    def _place(self, identifier: Sequence[str] | None) -> tuple[str, Mapping[str, str]]:
        """Return the location of a table's dataset, and the options to open it.

        Raises:
            BackendError: the table does not exist, or may not be opened.
        """
        table = self._lance_table(identifier)
        return self._location_to_open(table), self.backend.table_storage_options(table)

    def _writable(self, identifier: Sequence[str] | None, branch: str | None = None) -> tuple[str, StorageOptions]:
        """Return the location of a table's dataset, and the options to write there.

        Raises:
            UnsupportedOperationError: ``branch`` is not the main one, or the service keeps the versions of the table.
            BackendError: as for :meth:`_place`.
        """
        if branch not in (None, MAIN_BRANCH):
            raise UnsupportedOperationError("only the main branch is changed here; open the dataset for another one")
        return self._writable_place(self._lance_table(identifier))

    def _writable_place(self, table: LiveTable) -> tuple[str, StorageOptions]:
        self._require_unmanaged(table)
        return self._location_to_open(table), self.backend.table_storage_options(table, writes=True)

    def _require_unmanaged(self, table: LiveTable) -> None:
        if table.managed_versioning:
            raise UnsupportedOperationError(f"{self.backend.impl}: {storage.MANAGED}")


@contextmanager
def other_formats_refused() -> Iterator[None]:
    """Turn NotLanceTableError inside the block into InvalidInputError."""
    try:
        yield
    except NotLanceTableError as error:
        raise InvalidInputError(str(error)) from None


def choice(parameter: str, value: str | None, choices: tuple[str, ...]) -> str:
    """Return the choice that ``value`` names; by default the first.

    Case and underscores do not matter.
    """
    if value is None:
        return choices[0]
    plain = value.replace("_", "").lower()
    if plain not in choices:
        raise InvalidInputError(f"{parameter} `{value}` is not one of {', '.join(choices)}")
    return plain


NamespaceT = TypeVar("NamespaceT", bound=CatalogOperations)
RequestT = TypeVar("RequestT", bound=BaseModel)
ResponseT = TypeVar("ResponseT")
P = ParamSpec("P")

# Clients in process recognise some errors by these words. Clients of ``serve`` put them before the text themselves.
_FIRST_WORDS = {
    ErrorCode.NAMESPACE_NOT_FOUND: "Namespace not found: ",
    ErrorCode.NAMESPACE_ALREADY_EXISTS: "Namespace already exists: ",
    ErrorCode.NAMESPACE_NOT_EMPTY: "Namespace not empty: ",
    ErrorCode.TABLE_NOT_FOUND: "Table not found: ",
    ErrorCode.TABLE_ALREADY_EXISTS: "Table already exists: ",
}


@contextmanager
def specification_errors() -> Iterator[None]:
    """Turn a backend's errors into ``lance_namespace.errors`` of the same codes."""
    try:
        yield
    except BackendError as error:
        first, text = _FIRST_WORDS.get(error.code, ""), str(error)
        raise from_error_code(int(error.code), text if first in text else first + text) from error


def without_first_words(error: LanceNamespaceError) -> str:
    """Return the text of an error for a client that adds the words of its code."""
    return str(error).removeprefix(_FIRST_WORDS.get(ErrorCode(int(error.code)), ""))


def operation(
    model: type[RequestT],
) -> Callable[
    [Callable[Concatenate[NamespaceT, RequestT, P], ResponseT]],
    Callable[Concatenate[NamespaceT, RequestT, P], ResponseT],
]:
    """Decorate a method as an operation of the specification.

    Its request may be a ``model`` or, as LanceDB passes it, a mapping with the same keys. Its errors become those of
    ``lance_namespace``.
    """

    def decorate(
        method: Callable[Concatenate[NamespaceT, RequestT, P], ResponseT],
    ) -> Callable[Concatenate[NamespaceT, RequestT, P], ResponseT]:
        @wraps(method)
        def call(self: NamespaceT, request: RequestT, /, *args: P.args, **kwargs: P.kwargs) -> ResponseT:
            with specification_errors():
                coerced = _coerced(model, request)
                with self.in_context(_context_of(coerced)) as answered:
                    response = method(self, coerced, *args, **kwargs)
                    if answered and isinstance(response, BaseModel) and "context" in type(response).model_fields:
                        return response.model_copy(update={"context": dict(answered)})
                    return response

        return call

    return decorate


def _context_of(request: BaseModel) -> dict[str, str]:
    """Return the context of a request, with its identity as the protocol's headers."""
    identity = getattr(request, "identity", None)
    key, token = getattr(identity, "api_key", None), getattr(identity, "auth_token", None)
    headers = {"header.x-api-key": key, "header.Authorization": token and f"Bearer {token}"}
    return {name: value for name, value in headers.items() if value} | (getattr(request, "context", None) or {})


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
        field = ".".join(str(part) for part in first["loc"])
        raise InvalidInputError(f"{model.__name__}: `{field}`: {first['msg']}") from None


class Page(NamedTuple):
    """A slice of sorted names and the token of the next one."""

    names: list[str]
    token: str | None


def page_of(
    names: Iterable[str], token: str | None, limit: int | None, chosen: Callable[[Sequence[str]], Sequence[str]] = list
) -> Page:
    """Return the names after ``token`` in order, at most ``limit`` of them.

    The token is the last name of the page before, so that pages stay complete while names come and go.

    Args:
        names: in any order.
        token: that of the page before, None for the first.
        limit: None for no limit.
        chosen: filters names, keeping their order. It gets one name more than the page can take, to tell whether
            another page follows, and further names while too few are left.

    Raises:
        InvalidInputError: ``limit`` is not positive.
    """
    if limit is not None and limit < 1:
        raise InvalidInputError(f"limit must be 1 or more, not {limit}")
    remaining = sorted(name for name in names if not token or name > token)
    if limit is None:
        return Page(list(chosen(remaining)), None)
    accepted: list[str] = []
    at, asking = 0, limit + 1
    while at < len(remaining) and len(accepted) <= limit:
        counted = chosen(remaining[at : at + asking])
        accepted += counted
        at += asking
        asking = limit + 1 - len(accepted) if counted else asking * 2
    return Page(accepted[:limit], accepted[limit - 1] if len(accepted) > limit else None)
