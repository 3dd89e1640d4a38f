"""The operations on namespaces: list, describe, create and drop."""

from __future__ import annotations

import lance_namespace as spec

from reconciler.model import errors
from reconciler.model.live import PropertyChanges
from reconciler.model.names import Identifier, join
from reconciler.namespace.shared import CatalogOperations, operation, page_of, parse_choice


class NamespaceOperations(CatalogOperations):
    """The operations that list, describe, create and drop namespaces."""

    @operation(spec.ListNamespacesRequest)
    def list_namespaces(self, request: spec.ListNamespacesRequest) -> spec.ListNamespacesResponse:
        """ListNamespaces: return a page of sorted names."""
        parent = self.backend.namespace_id_of(request.id)
        page = page_of(self.backend.child_namespaces(parent), request.page_token, request.limit)
        return spec.ListNamespacesResponse(namespaces=page.names, page_token=page.token)

    @operation(spec.DescribeNamespaceRequest)
    def describe_namespace(self, request: spec.DescribeNamespaceRequest) -> spec.DescribeNamespaceResponse:
        """DescribeNamespace: return the properties of a namespace; the root has none."""
        identifier = self.backend.namespace_id_of(request.id)
        if not identifier:
            return spec.DescribeNamespaceResponse(properties={})
        return spec.DescribeNamespaceResponse(properties=dict(self.backend.load_namespace(identifier).properties))

    @operation(spec.NamespaceExistsRequest)
    def namespace_exists(self, request: spec.NamespaceExistsRequest) -> spec.NamespaceExistsResponse:
        """NamespaceExists: raise NamespaceNotFoundError if the namespace does not exist."""
        identifier = self.backend.namespace_id_of(request.id)
        if identifier:
            self.backend.load_namespace(identifier)
        return spec.NamespaceExistsResponse()

    @operation(spec.CreateNamespaceRequest)
    def create_namespace(self, request: spec.CreateNamespaceRequest) -> spec.CreateNamespaceResponse:
        """CreateNamespace: create a namespace, in modes create, exist_ok and overwrite.

        Overwrite replaces the properties of an existing namespace and drops nothing.
        """
        identifier = self.backend.namespace_id_of(request.id, root=False)
        mode = parse_choice("mode", request.mode, ("create", "existok", "overwrite"))
        properties = request.properties or {}
        try:
            namespace = self.backend.insert_namespace(
                identifier, self._new_namespace_properties(identifier, properties)
            )
        except errors.NamespaceAlreadyExistsError:
            if mode == "create":
                raise
            namespace = self.backend.load_namespace(identifier)
            if mode == "overwrite":
                location_keys = self.backend.capabilities().namespace_places
                removed = frozenset(namespace.properties) - frozenset(properties) - location_keys
                namespace = self.backend.alter_namespace(identifier, PropertyChanges(properties, removed))
        return spec.CreateNamespaceResponse(properties=dict(namespace.properties))

    @operation(spec.DropNamespaceRequest)
    def drop_namespace(self, request: spec.DropNamespaceRequest) -> spec.DropNamespaceResponse:
        """DropNamespace: drop a namespace; modes fail, skip; restrict or cascade.

        Cascade deregisters Lance tables, deepest first, and leaves all data. It fails before the first change if
        anything but Lance tables and namespaces is inside.
        """
        identifier = self.backend.namespace_id_of(request.id, root=False)
        default = "skip" if self.backend.drops_missing else "fail"
        mode = parse_choice("mode", request.mode or default, ("fail", "skip"))
        behavior = parse_choice("behavior", request.behavior, ("restrict", "cascade"))
        try:
            properties = dict(self.backend.load_namespace(identifier).properties)
            if behavior == "cascade":
                self._remove_content(identifier)
            self.backend.remove_namespace(identifier)
        except errors.NamespaceNotFoundError:
            if mode == "fail":
                raise
            return spec.DropNamespaceResponse()
        return spec.DropNamespaceResponse(properties=properties)

    def _remove_content(self, identifier: Identifier) -> None:
        """Remove every table and namespace below ``identifier``, the deepest first.

        Raises:
            NamespaceNotEmptyError: there are other objects; nothing was removed.
        """
        descendants: list[Identifier] = []
        unvisited = [identifier]
        while unvisited:
            parent = unvisited.pop()
            foreign = self.backend.foreign_objects(parent)
            if foreign:
                names = ", ".join(sorted(foreign)[:5])
                raise errors.NamespaceNotEmptyError(
                    f"{self.backend.impl}: `{join(parent)}` holds objects that are not Lance tables: {names}"
                )
            children = [(*parent, name) for name in self.backend.child_namespaces(parent)]
            descendants += children
            unvisited += children
        for namespace in [*reversed(descendants), identifier]:
            for name in sorted(self.backend.child_tables(namespace)):
                try:
                    self.backend.remove_table((*namespace, name))
                except errors.TableNotFoundError:
                    continue
            if namespace != identifier:
                self.backend.remove_namespace(namespace)
