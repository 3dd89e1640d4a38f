"""Decide the commits that make a clone of a version in another store, where pylance 14 has none of its own.

Across stores pylance's ``shallow_clone`` writes the manifest of the clone into the store of its base. Commits of other
operations can name files of a base path in any store, one after the other. They keep the ids of fragments and fields,
which row ids, files and indices refer to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reconciler.model import locations
from reconciler.model.auto_cleanup import PREFIX, why_unbound
from reconciler.model.clones import CloneProblem, CloneRefusal
from reconciler.storage.footers import VersionFeatures, features_of, index_segments
from reconciler.storage.needed import SYSTEM_INDEX
from reconciler.storage.reading import LEGACY_FORMAT, described_indices

_STABLE_ROW_IDS, _KNOWN_FEATURES = 2, 1 | 8 | 16
"""Feature flags of a version: stable row ids; deletion files, configuration and base paths."""
_LEGACY_NUMBERS = (0, 2)
_VECTOR_DETAILS = "VectorIndexDetails"
_UNFINISHED = "unfinished-clone"
"""The only column, and the missing file, of a clone before its rows are committed."""


@dataclass(frozen=True)
class CloneSteps:
    """The commits of a clone across stores.

    Args:
        version: the version of the base.
        manifest: the content of its manifest, which has more on indices than pylance shows.
        place: the location of the base's branch.
    """

    version: Any
    manifest: bytes
    place: str

    def refusal(self, target: str) -> CloneRefusal | None:
        """Return why these commits make no equal clone at ``target``; None if they do."""
        reason = why_unbound(target)
        if reason is not None:
            return CloneRefusal(CloneProblem.OTHER_STORE, reason)
        is_local = [locations.path_of(base.path) is not None for base in self._named.values()]
        if any(is_local) and locations.path_of(target) is None:
            return CloneRefusal(CloneProblem.LOCAL_BASE)
        if self._features.flags & _STABLE_ROW_IDS:
            return CloneRefusal(CloneProblem.STABLE_ROW_IDS)
        if self._features.flags & ~_KNOWN_FEATURES:
            return CloneRefusal(CloneProblem.UNKNOWN_FEATURES, f"feature flags {self._features.flags}")
        if not all(map(_is_counted, self.version.get_fragments())):
            return CloneRefusal(CloneProblem.UNCOUNTED)
        for index in described_indices(self.version):
            if index.name.startswith(SYSTEM_INDEX):
                return CloneRefusal(CloneProblem.UNKNOWN_FEATURES, index.name)
            if not all(map(_has_details, (self._segments[segment.uuid].details for segment in index.segments))):
                return CloneRefusal(CloneProblem.OLD_INDEX, index.name)
        return None

    def operations(self) -> list[Any]:
        """Return the operations of pylance, for one commit each: the first creates the dataset."""
        import lance
        import pyarrow as pa
        from lance.schema import LanceSchema

        steps: Any = lance.LanceOperation
        fragments = {fragment.fragment_id: self._rebased(fragment) for fragment in self.version.get_fragments()}
        indices = list(self._indices())
        # A fragment that gets the id of one that is gone would be taken for it by indices that still name that.
        used = max(self._features.last_fragment, *(max(index.fragment_ids, default=0) for index in indices), 0)
        rows = fragments[0].physical_rows if 0 in fragments else 1
        schema = LanceSchema.from_pyarrow(pa.schema([pa.field(_UNFINISHED, pa.int8())]))
        operations: list[Any] = [steps.Overwrite(schema, [self._placeholder(0, rows)], initial_bases=self._bases())]
        unwanted = {0, used} - fragments.keys()
        if used in unwanted - {0}:
            operations.append(steps.Merge([self._placeholder(number, rows) for number in (0, used)], schema))
        if unwanted:
            operations.append(steps.Delete([], sorted(unwanted), "true"))
        operations.append(steps.Merge(list(fragments.values()), self.version.lance_schema))
        if indices:
            operations.append(steps.CreateIndex(indices, []))
        config = {key: value for key, value in self.version.config().items() if not key.startswith(PREFIX)}
        metadata = self.version.metadata
        if config or metadata:
            operations.append(steps.UpdateConfig(*(steps.UpdateMap(texts, False) for texts in (config, metadata))))
        return operations

    @cached_property
    def _features(self) -> VersionFeatures:
        return features_of(self.manifest)

    @cached_property
    def _segments(self) -> Any:
        return index_segments(self.manifest)

    @cached_property
    def _named(self) -> dict[int, Any]:
        """The base paths that the base has itself, whose ids descriptors of blobs may name."""
        return dict(self.version.base_paths())

    @cached_property
    def _own(self) -> int:
        """The id of the base path of the base itself."""
        return max(self._named, default=0) + 1

    def _bases(self) -> list[Any]:
        from lance import DatasetBasePath

        named = [(base.path, base.name, base.is_dataset_root, number) for number, base in self._named.items()]
        return [DatasetBasePath(*base) for base in (*named, (self.place, None, True, self._own))]

    def _placeholder(self, number: int, rows: int) -> Any:
        """Return a fragment of the format of the base, whose file nobody can read."""
        from lance.fragment import DataFile, FragmentMetadata

        version = self.version.data_storage_version
        major, minor = _LEGACY_NUMBERS if version == LEGACY_FORMAT else map(int, version.split("."))
        return FragmentMetadata(number, [DataFile(f"{_UNFINISHED}.lance", [0], [0], major, minor, 1, self._own)], rows)

    def _rebased(self, fragment: Any) -> Any:
        """Return a fragment of the base as one whose files are in its base path."""
        from lance.fragment import FragmentMetadata

        document = fragment.metadata.to_json()
        for file in filter(None, (*document["files"], document["deletion_file"])):
            file["base_id"] = self._own if file.get("base_id") is None else file["base_id"]
        return FragmentMetadata.from_json(json.dumps(document))

    def _indices(self) -> Iterator[Any]:
        from lance.dataset import Index, IndexFile

        for index in described_indices(self.version):
            for segment in index.segments:
                named = self._segments[segment.uuid]
                files = [IndexFile(name, size) for name, size in named.files.items()]
                yield Index(
                    segment.uuid,
                    index.name,
                    list(index.fields),
                    segment.dataset_version_at_last_update,
                    segment.fragment_ids,
                    segment.index_version,
                    segment.created_at,
                    self._own if segment.base_id is None else segment.base_id,
                    files or None,
                    named.details,
                    list(segment.covering_fields),
                )


def _is_counted(fragment: Any) -> bool:
    metadata = fragment.metadata
    deletions = metadata.deletion_file
    return metadata.physical_rows is not None and (deletions is None or deletions.num_deleted_rows is not None)


def _has_details(details: tuple[str, bytes] | None) -> bool:
    """Return whether pylance does not look into the files of an index to tell what it is."""
    return details is not None and (bool(details[1]) or not details[0].endswith(_VECTOR_DETAILS))
