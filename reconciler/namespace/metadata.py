"""The operations that change tags, branches, columns, and the current version."""

from __future__ import annotations

import lance_namespace as spec

from reconciler import storage
from reconciler.model.errors import InvalidInputError, InvalidTableStateError, UnsupportedOperationError
from reconciler.model.names import join
from reconciler.model.ownership import recorded_tags
from reconciler.namespace.shared import CatalogOperations, operation


class MetadataOperations(CatalogOperations):
    """The operations that write to a dataset, but neither add nor remove rows."""

    def _tag_target(
        self, request: spec.CreateTableTagRequest | spec.UpdateTableTagRequest | spec.DeleteTableTagRequest
    ) -> tuple[str, dict[str, str]]:
        """Return a dataset's location, and the storage options to write a tag there.

        Raises:
            InvalidTableStateError: a manifest of lancens manages the tag.
        """
        table = self._load_lance_table(request.id)
        if request.tag in recorded_tags(table.properties):
            raise InvalidTableStateError(
                f"tag `{request.tag}` of `{join(table.id)}` is in a manifest of lancens: change `tags` there"
            )
        return self._write_target_of(table)

    @operation(spec.CreateTableTagRequest)
    def create_table_tag(self, request: spec.CreateTableTagRequest) -> spec.CreateTableTagResponse:
        """CreateTableTag: create a tag of a version, on any branch."""
        reference = storage.Reference(request.version, branch=request.branch)
        storage.create_tag(*self._tag_target(request), request.tag, reference)
        return spec.CreateTableTagResponse()

    @operation(spec.UpdateTableTagRequest)
    def update_table_tag(self, request: spec.UpdateTableTagRequest) -> spec.UpdateTableTagResponse:
        """UpdateTableTag: move an existing tag to another version, on any branch."""
        reference = storage.Reference(request.version, branch=request.branch)
        storage.update_tag(*self._tag_target(request), request.tag, reference)
        return spec.UpdateTableTagResponse()

    @operation(spec.DeleteTableTagRequest)
    def delete_table_tag(self, request: spec.DeleteTableTagRequest) -> spec.DeleteTableTagResponse:
        """DeleteTableTag: delete a tag; its version stays."""
        storage.delete_tag(*self._tag_target(request), request.tag)
        return spec.DeleteTableTagResponse()

    @operation(spec.CreateTableBranchRequest)
    def create_table_branch(self, request: spec.CreateTableBranchRequest) -> spec.CreateTableBranchResponse:
        """CreateTableBranch: create a branch, by default of the latest version."""
        reference = storage.Reference(request.from_version, branch=request.from_branch)
        storage.create_branch(*self._write_target(request.id), request.name, reference)
        return spec.CreateTableBranchResponse()

    @operation(spec.RestoreTableRequest)
    def restore_table(self, request: spec.RestoreTableRequest) -> spec.RestoreTableResponse:
        """RestoreTable: commit an earlier version again; the versions since stay."""
        storage.restore(*self._write_target(request.id, request.branch), request.version)
        return spec.RestoreTableResponse()

    @operation(spec.UpdateTableSchemaMetadataRequest)
    def update_table_schema_metadata(
        self, request: spec.UpdateTableSchemaMetadataRequest
    ) -> spec.UpdateTableSchemaMetadataResponse:
        """UpdateTableSchemaMetadata: replace the metadata of the schema.

        Raises:
            InvalidInputError: the request has no metadata; an empty mapping removes all.
        """
        if request.metadata is None:
            raise InvalidInputError("the request has no `metadata`; send an empty one to remove all that is there")
        target = self._write_target(request.id, request.branch)
        metadata = storage.replace_schema_metadata(*target, request.metadata)
        return spec.UpdateTableSchemaMetadataResponse(metadata=dict(metadata))

    @operation(spec.UpdateFieldMetadataRequest)
    def update_field_metadata(self, request: spec.UpdateFieldMetadataRequest) -> spec.UpdateFieldMetadataResponse:
        """UpdateFieldMetadata: merge into the metadata of columns, or replace it."""
        updates = [
            storage.FieldMetadata(update.path, update.metadata, bool(update.replace)) for update in request.updates
        ]
        target = self._write_target(request.id, request.branch)
        version, metadata_by_path = storage.update_field_metadata(*target, updates)
        fields = {path: dict(metadata) for path, metadata in metadata_by_path.items()}
        return spec.UpdateFieldMetadataResponse(version=version, fields=fields)

    @operation(spec.AlterTableAlterColumnsRequest)
    def alter_table_alter_columns(
        self, request: spec.AlterTableAlterColumnsRequest
    ) -> spec.AlterTableAlterColumnsResponse:
        """AlterTableAlterColumns: rename columns and change their nullability.

        Raises:
            UnsupportedOperationError: a type is to change, which rewrites data, or a virtual column.
        """
        for alteration in request.alterations:
            if alteration.data_type is not None or alteration.virtual_column is not None:
                raise UnsupportedOperationError(
                    f"column `{alteration.path}`: its type would rewrite data; open the dataset to change it"
                )
        arguments = (
            {"path": alteration.path, "name": alteration.rename, "nullable": alteration.nullable}
            for alteration in request.alterations
        )
        alterations = [{key: value for key, value in fields.items() if value is not None} for fields in arguments]
        target = self._write_target(request.id, request.branch)
        return spec.AlterTableAlterColumnsResponse(
            version=self._run_on_client_data(storage.alter_columns, *target, alterations)
        )
