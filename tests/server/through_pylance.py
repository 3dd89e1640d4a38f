"""A client nobody here wrote, in the shape the conformance kit asks for: pylance's RestNamespace as a backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import ParamSpec, TypeVar

import lance_namespace
from lance_namespace import (
    CreateNamespaceRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    DropNamespaceRequest,
    LanceNamespace,
    ListNamespacesRequest,
    ListTablesRequest,
)
from lance_namespace.errors import LanceNamespaceError

from reconciler.backends.base import Backend
from reconciler.model.backend_config import BackendConfig
from reconciler.model.errors import NamespaceNotFoundError, error_type
from reconciler.model.live import LiveNamespace, LiveTable, PropertyChanges, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope

__all__ = ["ThroughPylance"]

P = ParamSpec("P")
AnswerT = TypeVar("AnswerT")


class _Config(BackendConfig):
    uri: str

    def identity(self) -> str:
        return self.uri


def _with_our_errors(method: Callable[P, AnswerT]) -> Callable[P, AnswerT]:
    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> AnswerT:
        try:
            return method(*args, **kwargs)
        except LanceNamespaceError as error:
            raise error_type(int(error.code))(str(error)) from error

    return call


class ThroughPylance(Backend):
    """Every operation goes through pylance's ``client``; a walk with it is the scan.

    ``behind`` is the catalog that is served, below ``prefix``. It says what can be done, and does what the protocol
    of today has no call for: altering.
    """

    impl = "pylance"
    config_model = _Config
    config: _Config

    def __init__(self, uri: str, behind: Backend, prefix: Identifier = ()) -> None:
        options = {f"storage.{key}": value for key, value in behind.storage_options().items()}
        super().__init__(uri=uri, **options)
        self.client: LanceNamespace = lance_namespace.connect("rest", {"uri": uri})
        self._behind = behind
        self._prefix = prefix
        able = behind.capabilities()
        more = len(prefix)
        fewest, most = able.table_depths
        self.known_capabilities = replace(
            able,
            fixed_levels=able.fixed_levels + more,
            max_depth=None if able.max_depth is None else able.max_depth + more,
            table_depths=(fewest + more, None if most is None else most + more),
        )

    def _below(self, identifier: Identifier) -> Identifier:
        assert identifier[: len(self._prefix)] == self._prefix
        return identifier[len(self._prefix) :]

    # ---- the contract, on top of them ----------------------------------------------------------------------------

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        namespaces: dict[Identifier, LiveNamespace] = {}
        tables: dict[Identifier, LiveTable] = {}
        todo: list[Identifier] = [()]
        while todo:
            parent = todo.pop()
            names = (
                self.child_namespaces(parent)
                if len(parent) != self.capabilities().max_depth and self._holds(parent)
                else []
            )
            for child in ((*parent, name) for name in names):
                if scope.contains(child) or scope.reaches(child):
                    namespaces[child] = self.load_namespace(child)
                    todo.append(child)
            if len(parent) >= self.capabilities().table_depths[0]:
                found = ((*parent, name) for name in self.child_tables(parent))
                tables.update((table, self.load_table(table)) for table in found if scope.contains(table))
        return Snapshot(namespaces, tables)

    def _holds(self, parent: Identifier) -> bool:
        try:
            self.load_namespace(parent)
        except NamespaceNotFoundError:
            return False
        return True

    @_with_our_errors
    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        answer = self.client.describe_namespace(DescribeNamespaceRequest(id=list(identifier)))
        return LiveNamespace(identifier, answer.properties or {})

    @_with_our_errors
    def load_table(self, identifier: Identifier) -> LiveTable:
        answer = self.client.describe_table(DescribeTableRequest(id=list(identifier)))
        return LiveTable(identifier, answer.location or "", answer.properties or {})

    @_with_our_errors
    def child_namespaces(self, parent: Identifier) -> list[str]:
        return self.client.list_namespaces(ListNamespacesRequest(id=list(parent))).namespaces

    @_with_our_errors
    def child_tables(self, parent: Identifier) -> list[str]:
        return self.client.list_tables(ListTablesRequest(id=list(parent))).tables

    @_with_our_errors
    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        request = CreateNamespaceRequest(id=list(identifier), properties=dict(properties))
        return LiveNamespace(identifier, self.client.create_namespace(request).properties or {})

    @_with_our_errors
    def remove_namespace(self, identifier: Identifier) -> None:
        self.client.drop_namespace(DropNamespaceRequest(id=list(identifier)))

    @_with_our_errors
    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        request = DeclareTableRequest(id=list(identifier), location=location, properties=dict(properties))
        answer = self.client.declare_table(request)
        return LiveTable(identifier, answer.location or "", answer.properties or {})

    @_with_our_errors
    def remove_table(self, identifier: Identifier) -> LiveTable:
        answer = self.client.deregister_table(DeregisterTableRequest(id=list(identifier)))
        return LiveTable(identifier, answer.location or "", answer.properties or {})

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        return replace(self._behind.alter_namespace(self._below(identifier), changes), id=identifier)

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        return replace(self._behind.alter_table(self._below(identifier), changes, location), id=identifier)

    def default_location(self, identifier: Identifier) -> str | None:
        return self._behind.default_location(self._below(identifier))
