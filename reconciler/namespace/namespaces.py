"""The operations on namespaces."""

from __future__ import annotations

import lance_namespace as spec

from reconciler.backends import optional
from reconciler.model.errors import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableNotFoundError,
)
from reconciler.model.live import PropertyChanges
from reconciler.model.names import Identifier, join
from reconciler.namespace.shared import CatalogOperations, choice, operation, page_of


class NamespaceOperations(CatalogOperations):
    """The operations that list, make and drop namespaces."""

    @operation(spec.ListNamespacesRequest)
    def list_namespaces(self, request: spec.ListNamespacesRequest) -> spec.ListNamespacesResponse:
        """ListNamespaces: names in order, a page of ``limit`` at a time."""
        parent = self.backend.namespace_id_of(request.id)
        page = page_of(self.backend.child_namespaces(parent), request.page_token, request.limit)
        return spec.ListNamespacesResponse(namespaces=page.names, page_token=page.token)

    @operation(spec.DescribeNamespaceRequest)
    def describe_namespace(self, request: spec.DescribeNamespaceRequest) -> spec.DescribeNamespaceResponse:
        """DescribeNamespace: the properties of a namespace; the root has none."""
        identifier = self.backend.namespace_id_of(request.id)
        if not identifier:
            return spec.DescribeNamespaceResponse(properties={})
        return spec.DescribeNamespaceResponse(properties=dict(self.backend.load_namespace(identifier).properties))

    @operation(spec.NamespaceExistsRequest)
    def namespace_exists(self, request: spec.NamespaceExistsRequest) -> spec.NamespaceExistsResponse:
        """NamespaceExists: returns for an existing namespace, raises NamespaceNotFoundError otherwise."""
        identifier = self.backend.namespace_id_of(request.id)
        if identifier:
            self.backend.load_namespace(identifier)
        return spec.NamespaceExistsResponse()

    @operation(spec.CreateNamespaceRequest)
    def create_namespace(self, request: spec.CreateNamespaceRequest) -> spec.CreateNamespaceResponse:
        """CreateNamespace in modes create, exist_ok and overwrite.

        Overwrite replaces the properties of an existing namespace; it drops nothing.
        """
        identifier = self.backend.namespace_id_of(request.id, root=False)
        mode = choice("mode", request.mode, ("create", "existok", "overwrite"))
        properties = request.properties or {}
        try:
            made = self.backend.insert_namespace(identifier, self._direct_properties(identifier, properties))
        except NamespaceAlreadyExistsError:
            if mode == "create":
                raise
            made = self.backend.load_namespace(identifier)
            if mode == "overwrite":
                gone = frozenset(made.properties) - frozenset(properties)
                made = self.backend.alter_namespace(identifier, PropertyChanges(properties, gone))
        return spec.CreateNamespaceResponse(properties=dict(made.properties))

    @operation(spec.DropNamespaceRequest)
    def drop_namespace(self, request: spec.DropNamespaceRequest) -> spec.DropNamespaceResponse:
        """DropNamespace in modes fail and skip, behaviours restrict and cascade.

        Cascade deregisters Lance tables, deepest first, and leaves all data where it is; it starts only when nothing
        but Lance tables and namespaces is below.
        """
        identifier = self.backend.namespace_id_of(request.id, root=False)
        default = "skip" if self.backend.drops_missing else "fail"
        mode = choice("mode", request.mode or default, ("fail", "skip"))
        behavior = choice("behavior", request.behavior, ("restrict", "cascade"))
        try:
            properties = dict(self.backend.load_namespace(identifier).properties)
            if behavior == "cascade":
                self._empty(identifier)
            self.backend.remove_namespace(identifier)
        except NamespaceNotFoundError:
            if mode == "fail":
                raise
            return spec.DropNamespaceResponse()
        return spec.DropNamespaceResponse(properties=properties)

    def _empty(self, identifier: Identifier) -> None:
        """Deregister every table and drop every namespace below ``identifier``, or change nothing and raise."""
        below: list[Identifier] = []
        todo = [identifier]
        while todo:
            parent = todo.pop()
            foreign = optional.foreign_objects(self.backend, parent)
            if foreign:
                some = ", ".join(sorted(foreign)[:5])
                raise NamespaceNotEmptyError(
                    f"{self.backend.impl}: `{join(parent)}` holds what is not managed here: {some}"
                )
            children = [(*parent, name) for name in self.backend.child_namespaces(parent)]
            below += children
            todo += children
        for namespace in [*reversed(below), identifier]:
            for name in sorted(self.backend.child_tables(namespace)):
                try:
                    self.backend.remove_table((*namespace, name))
                except TableNotFoundError:
                    continue
            if namespace != identifier:
                self.backend.remove_namespace(namespace)
