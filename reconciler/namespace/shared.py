"""The base of all operations: access to the catalog, requests, errors, and pages."""

from __future__ import annotations

from bisect import bisect_right
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
    """The base of the operations on one catalog.

    A subclass may restrict locations and the SQL of clients.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def in_context(self, context: Mapping[str, str]) -> AbstractContextManager[Mapping[str, str]]:
        """Pass a request's ``context`` to the catalog; yield that of the response."""
        return self.backend.in_context(context)

    def _new_namespace_properties(self, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return the properties of a new namespace, with those that its catalog requires."""
        return self.backend.properties_for_request(identifier, properties)

    def _new_table_location(self, identifier: Identifier) -> str | None:
        """Return the default location of a new table; None if the service chooses it."""
        return self.backend.location_for_request(identifier)

    def _location_to_open(self, table: LiveTable) -> str:
        """Return the location at which to open the dataset of ``table``."""
        return table.location

    def _run_on_client_data(
        self, work: Callable[..., Any], *arguments: object, expressions: Collection[str] = ()
    ) -> Any:
        """Call ``work``, a function of ``reconciler.storage``, on a client's data or SQL.

        A subclass may run it in another process, and refuse ``expressions``: the client's SQL in ``arguments``.
        """
        return work(*arguments)

    def _probe(self, table: LiveTable) -> Storage:
        return storage.probe(self._location_to_open(table), self.backend.table_storage_options(table))

    def _has_data(self, table: LiveTable) -> bool:
        return self._probe(table).kind is not StorageKind.NOTHING

    def _load_lance_table(self, identifier: Sequence[str] | None) -> LiveTable:
        """Return the entry of a Lance table.

        Raises:
            InvalidInputError: the entry is one of another format.
            BackendError: the table does not exist, or the catalog cannot be read.
        """
        with reject_other_formats():
            return self.backend.load_table(self.backend.table_id(identifier))

    def _read_target(self, identifier: Sequence[str] | None) -> tuple[str, Mapping[str, str]]:
        """Return the location of a table's dataset, and the storage options to open it.

        Raises:
            BackendError: the table does not exist, or may not be opened.
        """
        table = self._load_lance_table(identifier)
        return self._location_to_open(table), self.backend.table_storage_options(table)

    def _write_target(self, identifier: Sequence[str] | None, branch: str | None = None) -> tuple[str, StorageOptions]:
        """Return the location of a table's dataset, and the storage options to write there.

        Raises:
            UnsupportedOperationError: ``branch`` is not the main one, or the service manages the table's versions.
            BackendError: as for :meth:`_read_target`.
        """
        if branch not in (None, MAIN_BRANCH):
            raise UnsupportedOperationError("only the main branch is changed here; open the dataset for another one")
        return self._write_target_of(self._load_lance_table(identifier))

    def _write_target_of(self, table: LiveTable) -> tuple[str, StorageOptions]:
        self._require_unmanaged(table)
        return self._location_to_open(table), self.backend.table_storage_options(table, writes=True)

    def _require_unmanaged(self, table: LiveTable) -> None:
        if table.managed_versioning:
            raise UnsupportedOperationError(f"{self.backend.impl}: {storage.MANAGED}")


@contextmanager
def reject_other_formats() -> Iterator[None]:
    """Turn a NotLanceTableError of the block into an InvalidInputError."""
    try:
        yield
    except NotLanceTableError as error:
        raise InvalidInputError(str(error)) from None


def parse_choice(parameter: str, value: str | None, choices: tuple[str, ...]) -> str:
    """Return the one of ``choices`` that ``value`` names, or the first if it is None.

    Case and underscores of ``value`` do not matter.

    Raises:
        InvalidInputError: ``value`` names none of them; the error names the ``parameter``.
    """
    if value is None:
        return choices[0]
    normalised = value.replace("_", "").lower()
    if normalised not in choices:
        raise InvalidInputError(f"{parameter} `{value}` is not one of {', '.join(choices)}")
    return normalised


NamespaceT = TypeVar("NamespaceT", bound=CatalogOperations)
RequestT = TypeVar("RequestT", bound=BaseModel)
ResponseT = TypeVar("ResponseT")
P = ParamSpec("P")

# Clients in process recognise some errors by these prefixes. Clients of ``serve`` add them to the text themselves.
_PREFIXES = {
    ErrorCode.NAMESPACE_NOT_FOUND: "Namespace not found: ",
    ErrorCode.NAMESPACE_ALREADY_EXISTS: "Namespace already exists: ",
    ErrorCode.NAMESPACE_NOT_EMPTY: "Namespace not empty: ",
    ErrorCode.TABLE_NOT_FOUND: "Table not found: ",
    ErrorCode.TABLE_ALREADY_EXISTS: "Table already exists: ",
}


@contextmanager
def specification_errors() -> Iterator[None]:
    """Turn a BackendError of the block into a ``lance_namespace`` error of its code."""
    try:
        yield
    except BackendError as error:
        prefix, text = _PREFIXES.get(error.code, ""), str(error)
        raise from_error_code(int(error.code), text if prefix in text else prefix + text) from error


def without_prefix(error: LanceNamespaceError) -> str:
    """Return the text of an error for a client that adds the prefix of its code."""
    return str(error).removeprefix(_PREFIXES.get(ErrorCode(int(error.code)), ""))


def operation(
    model: type[RequestT],
) -> Callable[
    [Callable[Concatenate[NamespaceT, RequestT, P], ResponseT]],
    Callable[Concatenate[NamespaceT, RequestT, P], ResponseT],
]:
    """Return a decorator that makes a method an operation of the specification.

    A caller may pass a ``model`` or, as LanceDB does, a mapping with the same keys. The context of the request is
    passed to the catalog, and that of its answer returned. Errors become those of ``lance_namespace``.
    """

    def decorate(
        method: Callable[Concatenate[NamespaceT, RequestT, P], ResponseT],
    ) -> Callable[Concatenate[NamespaceT, RequestT, P], ResponseT]:
        @wraps(method)
        def call(self: NamespaceT, request: RequestT, /, *args: P.args, **kwargs: P.kwargs) -> ResponseT:
            with specification_errors():
                request = _coerce(model, request)
                with self.in_context(_context_of(request)) as context:
                    response = method(self, request, *args, **kwargs)
                    if context and isinstance(response, BaseModel) and "context" in type(response).model_fields:
                        return response.model_copy(update={"context": dict(context)})
                    return response

        return call

    return decorate


def _context_of(request: BaseModel) -> dict[str, str]:
    """Return the context of a request, with its ``identity`` as headers of the protocol."""
    identity = getattr(request, "identity", None)
    key, token = getattr(identity, "api_key", None), getattr(identity, "auth_token", None)
    headers = {"header.x-api-key": key, "header.Authorization": token and f"Bearer {token}"}
    return {name: value for name, value in headers.items() if value} | (getattr(request, "context", None) or {})


def _coerce(model: type[RequestT], request: object) -> RequestT:
    """Return ``request`` as a ``model``.

    Raises:
        InvalidInputError: it is no mapping, or a field has a wrong value.
    """
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
    """Some of the sorted names, and the token of the next page; None after the last page."""

    names: list[str]
    token: str | None


def page_of(
    names: Iterable[str], token: str | None, limit: int | None, select: Callable[[Sequence[str]], Sequence[str]] = list
) -> Page:
    """Return the page of sorted names that begins after ``token``.

    The token is the last name of the previous page, so that pages stay complete while names come and go.

    Args:
        names: all names, in any order.
        token: that of the previous page, None for the first page.
        limit: the most names on the page, None for no limit.
        select: returns those of some names that belong on a page, in the same order. It gets one name more than the
            page can take, to tell whether another page follows, and further names while it has selected too few.

    Raises:
        InvalidInputError: ``limit`` is not positive.
    """
    if limit is not None and limit < 1:
        raise InvalidInputError(f"limit must be 1 or more, not {limit}")
    remaining = sorted(names)
    del remaining[: bisect_right(remaining, token) if token else 0]
    if limit is None:
        return Page(list(select(remaining)), None)
    accepted: list[str] = []
    position, batch_size = 0, limit + 1
    while position < len(remaining) and len(accepted) <= limit:
        selected = select(remaining[position : position + batch_size])
        accepted += selected
        position += batch_size
        batch_size = limit + 1 - len(accepted) if selected else batch_size * 2
    return Page(accepted[:limit], accepted[limit - 1] if len(accepted) > limit else None)
