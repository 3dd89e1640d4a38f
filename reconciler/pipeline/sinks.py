"""Write the parts of an inventory in tasks, and commit all parts or none."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa

from reconciler import storage
from reconciler.model import display, locations
from reconciler.model.errors import BackendError, ConcurrentModificationError, LancensError
from reconciler.model.live import StorageKind
from reconciler.pipeline.schemas import Row, record_batches

Form = Literal["lance", "parquet", "json"]

_MARK, _FORMAT_VERSION = b"lancens.inventory", b"1"
_PREFIX = ".lancens-"
_ROWS_IN_A_GROUP = 65_536


@dataclass(frozen=True, slots=True)
class Sink:
    """The target of an inventory.

    ``write`` stores the rows of a task, on its executor, and returns the name of the part. ``finish`` joins the named
    parts, on the driver.
    """

    write: Callable[[Iterable[Row]], str]
    finish: Callable[[Sequence[str]], None]


@contextmanager
def open_sink(out: str | None, form: Form, schema: pa.Schema) -> Iterator[Sink]:
    """Yield a sink for rows of ``schema``; one that is not finished leaves no trace.

    Raises:
        LancensError: ``out`` cannot be written, or holds something else.
    """
    if out is not None and (problem := locations.problem(out)) is not None:
        raise LancensError(f"{locations.redact(out)}: {problem}")
    opening = _dataset_sink(out, schema) if form == "lance" and out is not None else _file_sink(out, form, schema)
    with opening as sink:
        yield sink


@contextmanager
def _folder_beside(out: Path | None) -> Iterator[Path]:
    """Yield a temporary folder on the disk of ``out``, so that renames work."""
    with _write_errors(out):
        folder = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=None if out is None else out.parent.absolute())
    with folder as name:
        yield Path(name)


@contextmanager
def _write_errors(out: Path | None) -> Iterator[None]:
    """Raise errors of the file system as a LancensError.

    The message names ``out`` or stdout.
    """
    try:
        yield
    except BrokenPipeError:  # the reader of stdout has ended, which is no error
        raise
    except OSError as error:
        raise LancensError(f"{out or 'stdout'} cannot be written: {error.strerror}") from None


@contextmanager
def _file_sink(out: str | None, form: Form, schema: pa.Schema) -> Iterator[Sink]:
    """Yield a sink that replaces the file ``out`` at the end.

    It keeps the parts in a folder beside it.
    """
    path = None if out is None else Path(out)
    if path is not None and path.is_dir():
        raise LancensError(f"{out} is a folder; name a file, or --format lance for a dataset")
    write, join = (_write_json, _join_json) if form == "json" else (_write_parquet, _join_parquet)

    def finish(parts: Sequence[str]) -> None:
        paths = [folder / part for part in parts]
        with _write_errors(path):
            if path is None:
                join(paths, sys.stdout.buffer, schema)
                return
            stays = path.exists() and not path.is_file()  # such as a device
            whole = path if stays else folder / "whole"
            with whole.open("wb") as file:
                join(paths, file, schema)
            if not stays:
                whole.replace(path)

    with _folder_beside(path) as folder:
        yield Sink(partial(_write_part, str(folder), write, schema), finish)


def _write_part(
    folder: str,
    write: Callable[[Iterable[Row], Path, pa.Schema], None],
    schema: pa.Schema,
    rows: Iterable[Row],
) -> str:
    """Write ``rows`` with ``write`` to a new file in ``folder``, and return its name."""
    name = uuid.uuid4().hex
    try:
        write(rows, Path(folder, name), schema)
    except FileNotFoundError:
        raise LancensError(
            f"{Path(folder).parent} is not the same place for Spark's workers; name one that they share, or "
            "--format lance and a URI"
        ) from None
    return name


def _write_json(rows: Iterable[Row], path: Path, _schema: pa.Schema) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            text = json.dumps({key: value for key, value in row.items() if value is not None}, ensure_ascii=False)
            file.write(f"{display.json_text(text)}\n")


def _join_json(parts: Iterable[Path], out: IO[bytes], _schema: pa.Schema) -> None:
    for part in parts:
        with part.open("rb") as file:
            shutil.copyfileobj(file, out)


def _write_parquet(rows: Iterable[Row], path: Path, schema: pa.Schema) -> None:
    import pyarrow.parquet as pq

    with path.open("wb") as file, pq.ParquetWriter(file, schema) as writer:
        for batch in record_batches(rows, schema):
            writer.write_batch(batch)


def _join_parquet(parts: Iterable[Path], out: IO[bytes], schema: pa.Schema) -> None:
    """Write the rows of all parts in large row groups.

    Most parts have few rows.
    """
    import pyarrow.parquet as pq

    with pq.ParquetWriter(out, schema) as writer:
        waiting: list[Any] = []
        for part in parts:
            waiting += pq.ParquetFile(part).iter_batches(_ROWS_IN_A_GROUP)
            if sum(batch.num_rows for batch in waiting) >= _ROWS_IN_A_GROUP:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting = []
        writer.write_table(pa.Table.from_batches(waiting, schema))


@contextmanager
def _dataset_sink(out: str, schema: pa.Schema) -> Iterator[Sink]:
    """Yield a sink that commits all tasks' fragments as a version of ``out``.

    It creates the dataset if it is missing.
    """
    local = storage.local_path(out)
    uri = out if local is None else str(local.absolute())
    version = _inventory_version(uri)
    if local is None or version is not None:
        yield Sink(partial(_write_fragments, uri, schema), partial(_commit, uri, schema, version))
        return
    with _folder_beside(local) as folder:
        new_uri = str(folder / local.name)

        def finish(parts: Sequence[str]) -> None:
            _commit(new_uri, schema, None, parts)
            with _write_errors(local):
                Path(new_uri).replace(uri)

        yield Sink(partial(_write_fragments, new_uri, schema), finish)


def _inventory_version(uri: str) -> int | None:
    """Return the version of the inventory at ``uri``, None if nothing is there.

    Raises:
        LancensError: ``uri`` holds something else.
    """
    redacted = locations.redact(uri)
    examined = storage.examine(uri, {}, lambda dataset: (dataset.version, dataset.schema.metadata or {}))
    if isinstance(examined, tuple):
        version, marks = examined
        if marks.get(_MARK) == _FORMAT_VERSION:
            return int(version)
        raise LancensError(f"{redacted} is a dataset but not an inventory of this lancens; name another place")
    if examined.kind is not StorageKind.NOTHING and not (
        examined.kind is StorageKind.NOT_LANCE and _holds_interrupted_write(uri)
    ):
        raise LancensError(f"{redacted} cannot be written: {examined.detail}")
    return None


def _holds_interrupted_write(uri: str) -> bool:
    """Return whether ``uri`` holds the rest of an interrupted inventory.

    One on this machine is written to a temporary folder, so it leaves nothing.
    """
    with suppress(BackendError):
        return storage.local_path(uri) is None and storage.holds_first_write(uri, _MARK, {})
    return False


def _write_fragments(uri: str, schema: pa.Schema, rows: Iterable[Row]) -> str:
    """Write ``rows`` as fragments, and return their metadata as JSON."""
    from lance.fragment import write_fragments

    marked = _with_mark(schema)
    reader = pa.RecordBatchReader.from_batches(marked, record_batches(rows, marked))
    fragments = write_fragments(reader, storage.pylance_uri(uri), marked, mode="overwrite")
    return json.dumps([fragment.to_json() for fragment in fragments])


def _commit(uri: str, schema: pa.Schema, version: int | None, parts: Sequence[str]) -> None:
    """Commit the fragments of ``parts`` as the next version after ``version``.

    None creates the dataset.
    """
    from lance.fragment import FragmentMetadata

    fragments = [FragmentMetadata.from_json(json.dumps(fragment)) for part in parts for fragment in json.loads(part)]
    try:
        with storage.translated(uri, {}):
            dataset = None if version is None else storage.open_dataset(uri, {})
            is_next = dataset is None or dataset.version == version
            if not (is_next and storage.commit_whole(uri, dataset, _with_mark(schema), fragments, {})):
                raise ConcurrentModificationError("another writer committed to it meanwhile; run the inventory again")
    except BackendError as error:
        raise LancensError(f"{locations.redact(uri)} cannot be written: {error}") from None


def _with_mark(schema: pa.Schema) -> pa.Schema:
    return schema.with_metadata({_MARK: _FORMAT_VERSION})
