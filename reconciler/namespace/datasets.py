"""The operations that read a table's dataset, from versions to rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC
from typing import Any

import lance_namespace as spec
from lance_namespace.errors import LanceNamespaceError
from lance_namespace_urllib3_client.models.branch_contents import BranchContents
from lance_namespace_urllib3_client.models.fragment_stats import FragmentStats
from lance_namespace_urllib3_client.models.fragment_summary import FragmentSummary
from lance_namespace_urllib3_client.models.index_content import IndexContent
from lance_namespace_urllib3_client.models.tag_contents import TagContents

from reconciler import storage
from reconciler.model import errors
from reconciler.model.tags import MAIN_BRANCH
from reconciler.namespace.shared import CatalogOperations, operation, page_of


class DatasetOperations(CatalogOperations):
    """The operations that read the dataset of a table."""

    @contextmanager
    def _open_dataset(
        self, identifier: Sequence[str] | None, version: int | None = None, branch: str | None = None
    ) -> Iterator[Any]:
        """Yield the dataset of a table, by default the latest version of its main branch."""
        location, options = self._read_target(identifier)
        with storage.opened(location, options, storage.Reference(version, branch=branch)) as dataset:
            yield dataset

    @operation(spec.ListTableVersionsRequest)
    def list_table_versions(self, request: spec.ListTableVersionsRequest) -> spec.ListTableVersionsResponse:
        """ListTableVersions: return a page of the versions of a branch, in order."""
        versions = self._versions(request.id, request.branch)
        # Tokens are sorted as texts, so each version gets a text that sorts in the order of the pages.
        origin = 2**64 if request.descending else 0
        versions_by_text = {f"{abs(origin - version):020}": version for version in versions}
        page = page_of(versions_by_text, request.page_token, request.limit)
        return spec.ListTableVersionsResponse(
            versions=[versions[versions_by_text[text]] for text in page.names], page_token=page.token
        )

    @operation(spec.DescribeTableVersionRequest)
    def describe_table_version(self, request: spec.DescribeTableVersionRequest) -> spec.DescribeTableVersionResponse:
        """DescribeTableVersion: return one version of a branch, by default the latest.

        Raises:
            TableVersionNotFoundError: the branch has no such version.
        """
        versions = self._versions(request.id, request.branch)
        version = max(versions) if request.version is None else request.version
        if version not in versions:
            raise errors.TableVersionNotFoundError(
                f"the dataset has no version {version}; the latest is {max(versions)}"
            )
        return spec.DescribeTableVersionResponse(version=versions[version])

    def _versions(self, identifier: Sequence[str] | None, branch: str | None) -> dict[int, spec.TableVersion]:
        """Return the versions of a branch whose manifests exist, by number."""
        location, options = self._read_target(identifier)
        with storage.opened(location, options, storage.Reference(branch=branch)) as dataset:
            paths = storage.manifests(location, options, branch)
            details = _manifest_details(location, options, branch)
            versions: Sequence[Mapping[str, Any]] = dataset.versions()
            return {
                version["version"]: spec.TableVersion(
                    version=version["version"],
                    manifest_path=paths[version["version"]],
                    manifest_size=size,
                    e_tag=e_tag,
                    timestamp_millis=int(version["timestamp"].timestamp() * 1000),
                    metadata=dict(version["metadata"]) or None,
                )
                for version in versions
                if version["version"] in paths
                for size, e_tag in (details.get(version["version"], (None, None)),)
            }

    @operation(spec.ListTableTagsRequest)
    def list_table_tags(self, request: spec.ListTableTagsRequest) -> spec.ListTableTagsResponse:
        """ListTableTags: return a page of tags, sorted by name."""
        with self._open_dataset(request.id) as dataset:
            tags = storage.list_references(dataset.tags)
        page = page_of(tags, request.page_token, request.limit)
        return spec.ListTableTagsResponse(
            tags={name: TagContents.model_validate(tags[name]) for name in page.names}, page_token=page.token
        )

    @operation(spec.GetTableTagVersionRequest)
    def get_table_tag_version(self, request: spec.GetTableTagVersionRequest) -> spec.GetTableTagVersionResponse:
        """GetTableTagVersion: return the version of a tag, and its branch.

        Raises:
            TableTagNotFoundError: the dataset has no such tag.
        """
        with self._open_dataset(request.id) as dataset:
            tags = storage.list_references(dataset.tags)
        if request.tag not in tags:
            raise errors.TableTagNotFoundError(f"the dataset has no tag `{request.tag}`")
        return spec.GetTableTagVersionResponse(version=tags[request.tag]["version"], branch=tags[request.tag]["branch"])

    @operation(spec.ListTableBranchesRequest)
    def list_table_branches(self, request: spec.ListTableBranchesRequest) -> spec.ListTableBranchesResponse:
        """ListTableBranches: return a page of branches, without the main one."""
        with self._open_dataset(request.id) as dataset:
            branches = storage.list_references(dataset.branches)
        page = page_of(branches, request.page_token, request.limit)
        return spec.ListTableBranchesResponse(
            # Their metadata is free text and may hold secrets.
            branches={name: BranchContents.model_validate({**branches[name], "metadata": None}) for name in page.names},
            page_token=page.token,
        )

    @operation(spec.ListTableIndicesRequest)
    def list_table_indices(self, request: spec.ListTableIndicesRequest) -> spec.ListTableIndicesResponse:
        """ListTableIndices: return a page of indices, sorted by name."""
        with self._open_dataset(request.id, request.version, request.branch) as dataset:
            indices = {index.name: index for index in storage.described_indices(dataset)}
            rows = dataset.count_rows() if indices else 0
        page = page_of(indices, request.page_token, request.limit)
        return spec.ListTableIndicesResponse(
            indexes=[
                IndexContent(
                    index_name=name,
                    index_uuid=index.segments[0].uuid,
                    columns=list(index.field_names),
                    status="SUCCEEDED",
                    index_type=index.index_type,
                    type_url=index.type_url,
                    num_indexed_rows=index.num_rows_indexed,
                    num_unindexed_rows=max(0, rows - index.num_rows_indexed),
                    size_bytes=index.total_size_bytes,
                    num_segments=len(index.segments),
                    created_at=_creation_time(index.segments),
                    index_version=index.segments[0].index_version,
                    index_details=json.dumps(index.details),
                )
                for name in page.names
                for index in (indices[name],)
            ],
            page_token=page.token,
        )

    @operation(spec.DescribeTableIndexStatsRequest)
    def describe_table_index_stats(
        self, request: spec.DescribeTableIndexStatsRequest
    ) -> spec.DescribeTableIndexStatsResponse:
        """DescribeTableIndexStats: return type, metric and coverage of one index.

        Raises:
            TableIndexNotFoundError: the dataset has no such index.
        """
        if request.index_name is None:
            raise errors.InvalidInputError("the request names no index")
        with self._open_dataset(request.id, request.version, request.branch) as dataset:
            if request.index_name not in {index.name for index in storage.described_indices(dataset)}:
                raise errors.TableIndexNotFoundError(f"the dataset has no index `{request.index_name}`")
            stats: Mapping[str, Any] = dataset.stats.index_stats(request.index_name)
        deltas = stats.get("indices") or [{}]
        return spec.DescribeTableIndexStatsResponse(
            distance_type=deltas[0].get("metric_type"),
            index_type=stats.get("index_type"),
            num_indexed_rows=stats.get("num_indexed_rows"),
            num_unindexed_rows=stats.get("num_unindexed_rows"),
            num_indices=stats.get("num_indices"),
        )

    @operation(spec.GetTableStatsRequest)
    def get_table_stats(self, request: spec.GetTableStatsRequest) -> spec.GetTableStatsResponse:
        """GetTableStats: return bytes, rows, indices and fragments of the latest version."""
        with self._open_dataset(request.id, branch=request.branch) as dataset:
            lengths = sorted(fragment.count_rows() for fragment in dataset.get_fragments())
            size = storage.stored_bytes(dataset)
            if size is None:
                raise errors.InvalidTableStateError("the writer of its data files did not record their sizes")
            return spec.GetTableStatsResponse(
                total_bytes=size,
                num_rows=sum(lengths),
                num_indices=len(storage.described_indices(dataset)),
                fragment_stats=FragmentStats(
                    num_fragments=len(lengths),
                    num_small_fragments=dataset.stats.dataset_stats()["num_small_files"],
                    lengths=_summarise(lengths),
                ),
            )

    @operation(spec.CountTableRowsRequest)
    def count_table_rows(self, request: spec.CountTableRowsRequest) -> spec.CountTableRowsResponse:
        """CountTableRows: count all rows of a version, or those that match.

        Raises:
            InvalidInputError: the condition does not fit the columns of the table.
        """
        location, options = self._read_target(request.id)
        target = (location, options, request.version, request.branch, request.predicate)
        expressions = () if request.predicate is None else (request.predicate,)
        return spec.CountTableRowsResponse(
            count=self._run_on_client_data(storage.count_rows, *target, expressions=expressions)
        )


def _manifest_details(
    location: str, options: Mapping[str, str], branch: str | None
) -> dict[int, tuple[int | None, str | None]]:
    """Return the size and ETag of each version's manifest.

    pylance's directory namespace lists them. They are optional: there are none if the location does not end in
    ``.lance``, or pylance cannot list them.
    """
    root, _, name = storage.pylance_uri(location).rstrip("/").rpartition("/")
    table = name.removesuffix(".lance")
    if table == name:
        return {}
    config = {"root": root, "manifest_enabled": "false", **{f"storage.{key}": value for key, value in options.items()}}
    request = spec.ListTableVersionsRequest(id=[table], branch=None if branch == MAIN_BRANCH else branch)
    with suppress(LanceNamespaceError, OSError, RuntimeError, ValueError):
        versions = spec.connect("dir", config).list_table_versions(request).versions
        return {version.version: (version.manifest_size, version.e_tag) for version in versions}
    return {}


def _creation_time(segments: Sequence[Any]) -> Any:
    """Return when the first segment of an index was created; None if no segment says it."""
    times = [segment.created_at for segment in segments if segment.created_at is not None]
    return min(times).astimezone(UTC) if times else None


def _summarise(lengths: Sequence[int]) -> FragmentSummary:
    """Return the distribution of fragment ``lengths``, which are sorted."""

    def quantile(share: float) -> int:
        return lengths[int((len(lengths) - 1) * share)] if lengths else 0

    return FragmentSummary(
        min=quantile(0),
        max=quantile(1),
        mean=sum(lengths) // len(lengths) if lengths else 0,
        p25=quantile(0.25),
        p50=quantile(0.5),
        p75=quantile(0.75),
        p99=quantile(0.99),
    )
