"""Where an inventory goes: a part from each task, made one on the driver, so that it is there whole or not at all."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from reconciler import locations, storage
from reconciler.errors import LancensError
from reconciler.pipeline.rows import arrow_schema, record_batch
from reconciler.state import StorageKind

if TYPE_CHECKING:
    import pyarrow as pa

    from reconciler.pipeline.rows import Row

__all__ = ["Form", "Target", "opened"]

Form = Literal["lance", "parquet", "json"]

_MARK, _FORMAT_VERSION = b"lancens.inventory", b"1"
_PREFIX = ".lancens-"
_ROWS_AT_ONCE = 4096
_ROWS_IN_A_GROUP = 65_536


@dataclass(frozen=True, slots=True)
class Target:
    """``write`` keeps the rows of one task, wherever that runs, and returns what ``finish`` finds them by."""

    write: Callable[[Iterable[Row]], str]
    finish: Callable[[Sequence[str]], None]


@contextmanager
def opened(out: str | None, form: Form, columns: Mapping[str, str]) -> Iterator[Target]:
    """Give the place for rows with ``columns``: ``out``, or stdout for JSON. What is not finished leaves no trace.

    Raises:
        LancensError: nothing can be written there, or something else is there.
    """
    if out is not None and (problem := locations.check(out)) is not None:
        raise LancensError(f"{locations.redact(out)}: {problem}")
    opening = _dataset(out, columns) if form == "lance" and out is not None else _file(out, form, columns)
    with opening as target:
        yield target


@contextmanager
def _folder_beside(out: Path | None) -> Iterator[Path]:
    """Give a folder that is gone in the end, on the same disk as ``out`` so that what is in it can be moved there."""
    with _writing(out):
        folder = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=None if out is None else out.parent.absolute())
    with folder as name:
        yield Path(name)


@contextmanager
def _writing(out: Path | None) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # whoever read stdout has gone, which is no fault
        raise
    except OSError as error:
        raise LancensError(f"{out or 'stdout'} cannot be written: {error.strerror}") from None


@contextmanager
def _file(out: str | None, form: Form, columns: Mapping[str, str]) -> Iterator[Target]:
    """Keep the parts in a folder beside the file, which is replaced at the end."""
    path = None if out is None else Path(out)
    if path is not None and path.is_dir():
        raise LancensError(f"{out} is a folder; name a file, or --format lance for a dataset")
    write, join = (_write_json, _join_json) if form == "json" else (_write_parquet, _join_parquet)

    def finish(parts: Sequence[str]) -> None:
        found = [folder / part for part in parts]
        with _writing(path):
            if path is None:
                join(found, sys.stdout.buffer, columns)
                return
            whole = folder / "whole"
            with whole.open("wb") as file:
                join(found, file, columns)
            whole.replace(path)

    with _folder_beside(path) as folder:
        yield Target(partial(_part_in, str(folder), write, columns), finish)


def _part_in(
    folder: str,
    write: Callable[[Iterable[Row], Path, Mapping[str, str]], None],
    columns: Mapping[str, str],
    rows: Iterable[Row],
) -> str:
    name = uuid.uuid4().hex
    try:
        write(rows, Path(folder, name), columns)
    except FileNotFoundError:
        raise LancensError(
            f"{Path(folder).parent} is not the same place for Spark's workers; name one that they share, or "
            "--format lance and a URI"
        ) from None
    return name


def _write_json(rows: Iterable[Row], path: Path, _columns: Mapping[str, str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({key: value for key, value in row.items() if value is not None}, ensure_ascii=False))
            file.write("\n")


def _join_json(parts: Iterable[Path], out: IO[bytes], _columns: Mapping[str, str]) -> None:
    for part in parts:
        with part.open("rb") as file:
            shutil.copyfileobj(file, out)


def _write_parquet(rows: Iterable[Row], path: Path, columns: Mapping[str, str]) -> None:
    import pyarrow.parquet as pq

    with path.open("wb") as file, pq.ParquetWriter(file, arrow_schema(columns)) as writer:
        for batch in _batches(rows, columns):
            writer.write_batch(batch)


def _join_parquet(parts: Iterable[Path], out: IO[bytes], columns: Mapping[str, str]) -> None:
    """Write groups of many rows, though most parts have few."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetWriter(out, arrow_schema(columns)) as writer:
        waiting: list[Any] = []
        for part in parts:
            waiting += pq.ParquetFile(part).iter_batches(_ROWS_IN_A_GROUP)
            if sum(batch.num_rows for batch in waiting) >= _ROWS_IN_A_GROUP:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting = []
        writer.write_table(pa.Table.from_batches(waiting, arrow_schema(columns)))


def _batches(rows: Iterable[Row], columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    todo = iter(rows)
    while some := list(islice(todo, _ROWS_AT_ONCE)):
        yield record_batch(some, columns)


@contextmanager
def _dataset(out: str, columns: Mapping[str, str]) -> Iterator[Target]:
    """Commit fragments that the tasks wrote: a version of the inventory there, or a dataset moved to its place."""
    local = storage.local_path(out)
    if local is None:
        version = _version_there(out)
        yield Target(partial(_write_fragments, out, columns), partial(_commit, out, columns, version))
        return
    place = str(local.absolute())
    version = _version_there(place)
    if version is not None:
        yield Target(partial(_write_fragments, place, columns), partial(_commit, place, columns, version))
        return
    with _folder_beside(local) as folder:
        made = str(folder / local.name)

        def finish(parts: Sequence[str]) -> None:
            _commit(made, columns, None, parts)
            with _writing(local):
                Path(made).replace(place)

        yield Target(partial(_write_fragments, made, columns), finish)


def _version_there(place: str) -> int | None:
    """Return the version of the inventory at ``place``, None where nothing is.

    Raises:
        LancensError: something else is there.
    """
    shown = locations.redact(place)
    found = storage.examine(place, {}, lambda dataset: (dataset.version, dataset.schema.metadata or {}))
    if isinstance(found, tuple):
        version, marks = found
        if marks.get(_MARK) == _FORMAT_VERSION:
            return int(version)
        raise LancensError(f"{shown} is a dataset and no inventory of this lancens; name another place")
    if found.kind is not StorageKind.NOTHING:
        raise LancensError(f"{shown} cannot be written: {found.detail}")
    return None


def _write_fragments(place: str, columns: Mapping[str, str], rows: Iterable[Row]) -> str:
    import pyarrow as pa
    from lance.fragment import write_fragments

    reader = pa.RecordBatchReader.from_batches(arrow_schema(columns), _batches(rows, columns))
    fragments = write_fragments(reader, storage.pylance_uri(place), _marked(columns), mode="overwrite")
    return json.dumps([fragment.to_json() for fragment in fragments])


def _commit(place: str, columns: Mapping[str, str], version: int | None, parts: Sequence[str]) -> None:
    import lance
    from lance.fragment import FragmentMetadata

    from reconciler.errors import BackendError

    fragments = [FragmentMetadata.from_json(json.dumps(one)) for part in parts for one in json.loads(part)]
    whole = lance.LanceOperation.Overwrite(_marked(columns), fragments)
    try:
        with storage.translated(place, {}):
            lance.LanceDataset.commit(storage.pylance_uri(place), whole, read_version=version)
    except BackendError as error:
        raise LancensError(f"{locations.redact(place)} cannot be written: {error}") from None


def _marked(columns: Mapping[str, str]) -> pa.Schema:
    return arrow_schema(columns).with_metadata({_MARK: _FORMAT_VERSION})
