"""Compare rewritten fragments with the old ones, before they are committed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from reconciler.model import locations
from reconciler.model.errors import InvalidTableStateError
from reconciler.model.maintenance import total_bytes

if TYPE_CHECKING:
    import pyarrow as pa

_EXTENSION = b"ARROW:extension:name"
_BATCH_BYTES, _BATCH_ROWS = 64 << 20, 8192


@dataclass(slots=True)
class _Content:
    """The rows of some fragments, and the nulls of their columns, nested ones too."""

    rows: int = 0
    nulls: Counter[str] = field(default_factory=Counter)

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self.rows += batch.num_rows
            for column, array in zip(batch.schema, batch.columns, strict=True):
                self._add_nulls(column, column.name, array)

    def _add_nulls(self, column: pa.Field, path: str, array: Any) -> None:
        import pyarrow as pa

        self.nulls[path] += array.null_count
        if _EXTENSION in (column.metadata or {}):  # of blobs, descriptors are read, which may change
            return
        if pa.types.is_struct(column.type):
            for child, values in zip(column.type, array.flatten(), strict=True):
                self._add_nulls(child, f"{path}.{child.name}", values)
        elif pa.types.is_nested(column.type) and hasattr(array, "flatten") and not pa.types.is_map(column.type):
            self._add_nulls(column.type.value_field, f"{path}[]", array.flatten())


def expect_same_rows(location: str, options: Mapping[str, str], dataset: Any, result: Any) -> None:
    """Raise if a compaction changed the number of rows or nulls, or the columns.

    ``result`` is that of pylance's compaction task on ``dataset``, not committed yet. This reads the old and the new
    fragments once. No version names the new ones, so a temporary dataset does, whose base is ``location``. It names
    the old ones too, so that pylance makes the same repairs as it would in the commit.

    Raises:
        InvalidTableStateError: naming what differs.
        OSError, ValueError, RuntimeError: as storage reports them; see :func:`translated`.
    """
    import lance
    from lance.fragment import FragmentMetadata

    rewritten, bases = json.loads(result.json()), dataset.base_paths()
    base_id = max(bases, default=0) + 1
    named = [*rewritten["original_fragments"], *rewritten["new_fragments"]]
    for file in (file for fragment in named for file in fragment["files"]):
        file["base_id"] = base_id if file["base_id"] is None else file["base_id"]
    fragments = [FragmentMetadata.from_json(json.dumps({**fragment, "deletion_file": None})) for fragment in named]
    old = {fragment["id"] for fragment in rewritten["original_fragments"]}
    before = _content(dataset, [fragment for fragment in dataset.get_fragments() if fragment.fragment_id in old])
    with TemporaryDirectory() as folder:
        base = lance.DatasetBasePath(locations.pylance_uri(location), None, is_dataset_root=True, id=base_id)
        whole = lance.LanceOperation.Overwrite(dataset.lance_schema, fragments, [*bases.values(), base])
        storage_options = dict(options) or None
        new = lance.LanceDataset.commit(str(Path(folder) / "new.lance"), whole, storage_options=storage_options)
        difference = _difference(before, _content(new, new.get_fragments()[len(old) :]), dataset.schema, new.schema)
    if difference is not None:
        raise InvalidTableStateError(
            f"{locations.redact(location)}: compaction would change the data, so it was not committed: {difference}"
        )


def _content(dataset: Any, fragments: Sequence[Any]) -> _Content:
    content = _Content()
    if fragments:
        content.add(dataset.scanner(fragments=fragments, batch_size=batch_rows(fragments)).to_batches())
    return content


def batch_rows(fragments: Sequence[Any]) -> int:
    """Return as many rows as a batch may hold; pylance has ``batch_size_bytes`` for files of format 2.1 and later."""
    rows = sum(fragment.physical_rows for fragment in fragments)
    size = total_bytes(file.file_size_bytes for fragment in fragments for file in fragment.data_files())
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // size)) if size else _BATCH_ROWS


def _difference(before: _Content, after: _Content, schema: pa.Schema, schema_after: pa.Schema) -> str | None:
    if not schema.equals(schema_after, check_metadata=True):
        return "the schema would be another one"
    if before.rows != after.rows:
        return f"{before.rows:,} rows would become {after.rows:,}"
    changed = sorted(path for path in before.nulls | after.nulls if before.nulls[path] != after.nulls[path])
    counts = (f"{path} ({before.nulls[path]:,} to {after.nulls[path]:,})" for path in changed)
    return f"the number of nulls would change in {', '.join(counts)}" if changed else None
