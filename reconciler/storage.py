"""What a location holds. The only module that opens tables' datasets with pylance.

Nothing here deletes or overwrites: a dataset is written only where there is nothing, and an existing one only gains
nullable columns. Errors name the location without credentials and never hold the value of a storage option.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from reconciler import locations
from reconciler.backends.parallel import in_parallel
from reconciler.redaction import scrub
from reconciler.state import Field, Schema, Storage, StorageKind

if TYPE_CHECKING:
    import pyarrow as pa
    from lance_namespace.errors import LanceNamespaceError
    from lance_namespace_urllib3_client.models.json_arrow_schema import JsonArrowSchema
    from lance_namespace_urllib3_client.models.table_basic_stats import TableBasicStats

__all__ = [
    "DEREGISTERED_MARKER",
    "RESERVED_MARKER",
    "Metadata",
    "add_columns",
    "create_empty",
    "describe",
    "examine",
    "is_fresh",
    "list_directories",
    "list_directory",
    "local_path",
    "open_dataset",
    "probe",
    "probe_many",
    "pylance_uri",
    "translated",
    "write_stream",
]

ReadT = TypeVar("ReadT")

DEFAULT_CONCURRENCY = 16

RESERVED_MARKER = ".lance-reserved"
"""The file that marks a directory as a table's before any data is written."""
DEREGISTERED_MARKER = ".lance-deregistered"
"""The file that marks a directory as no table of a directory namespace, whatever else it holds."""

# What is left of a first write that was cut off before its commit has no data and no version.
_NO_DATA = frozenset({RESERVED_MARKER, DEREGISTERED_MARKER, "_transactions", "_versions"})

# Where an Iceberg catalog keeps the metadata of a table, below its location: a Lance table has such a companion there.
_ICEBERG_METADATA = "metadata"
_ICEBERG_FILES = (".metadata.json", ".metadata.json.gz")
_GZIP = b"\x1f\x8b"

_NOT_FOUND = re.compile(r"was not found", re.IGNORECASE)
_EXISTS = re.compile(r"already exists", re.IGNORECASE)
_DENIED = re.compile(
    r"permission ?denied|access ?denied|forbidden|unauthorized|unauthenticated|not authorized|os error 13\b"
    r"|authorization(failure|permissionmismatch)|signaturedoesnotmatch|invalidaccesskeyid|expiredtoken|\b40[13]\b",
    re.IGNORECASE,
)
_UNAVAILABLE = re.compile(
    r"generic \w+ error|http error|timed? ?out|connect|dns|throttl|slow ?down|\b(429|50[0234])\b", re.IGNORECASE
)
_XML_ERROR = re.compile(r"<\?xml.*?<Code>(.*?)</Code>\s*<Message>(.*?)</Message>.*", re.DOTALL)
_RUST_PLACE = re.compile(r",?\s*\S*/rust/\S+\.rs:\d+:\d+")


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a dataset says of itself: the parts of a DescribeTable answer that no catalog holds."""

    version: int
    arrow_schema: JsonArrowSchema
    stats: TableBasicStats
    metadata: dict[str, str]


# ---- reading ---------------------------------------------------------------------------------------------------------


def probe(location: str, options: Mapping[str, str]) -> Storage:
    """Return what ``location`` holds; an error is never taken for nothing.

    A directory that is empty, or holds only the markers of a directory namespace, what a first write left that never
    committed, what an Iceberg catalog keeps of a Lance table, or a place that a metastore made and takes away again,
    holds nothing.
    """
    from reconciler.arrow_types import from_arrow_schema

    return examine(location, options, lambda dataset: Storage(StorageKind.DATASET, from_arrow_schema(dataset.schema)))


def examine(location: str, options: Mapping[str, str], read: Callable[[Any], ReadT]) -> ReadT | Storage:
    """Return what ``read`` says of the ``lance.LanceDataset`` at ``location``; without one, what is there instead.

    What storage raises, in ``read`` as well, is such an answer too: see :func:`probe`.
    """
    try:
        path = local_path(location)
        if path is not None and path.is_file():
            return Storage(StorageKind.NOT_LANCE, detail="it is a file, not a directory")
        try:
            return read(open_dataset(location, options))
        except ValueError as error:
            if not _NOT_FOUND.search(str(error)):
                raise
        return _without_dataset(location, options)
    except BaseException as error:
        if not _is_storages(error):
            raise
        text = _text(error, location, options)
        denied = isinstance(error, PermissionError) or _DENIED.search(text)
        return Storage(StorageKind.DENIED if denied else StorageKind.UNKNOWN, detail=text)


def _without_dataset(location: str, options: Mapping[str, str]) -> Storage:
    names = (name for name in list_directory(location, options) if not locations.is_new_place(name))
    found = sorted(set(names) - _NO_DATA)
    if not found or (found == [_ICEBERG_METADATA] and _is_companion(locations.join(location, *found), options)):
        return Storage(StorageKind.NOTHING)
    some = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
    return Storage(StorageKind.NOT_LANCE, detail=f"it holds {some} and no version of a dataset")


def _is_companion(folder: str, options: Mapping[str, str]) -> bool:
    """Return whether ``folder`` holds metadata of an Iceberg catalog, and all of it about a Lance table."""
    names = [name for name in list_directory(folder, options) if not name.startswith(".")]
    return bool(names) and all(
        name.endswith(_ICEBERG_FILES) and _is_about_lance(_content(folder, name, options)) for name in names
    )


def _is_about_lance(metadata: bytes) -> bool:
    """Return whether an Iceberg table is marked as a Lance one (Lance specification, "Lance Table Identification")."""
    try:
        document = json.loads(gzip.decompress(metadata) if metadata.startswith(_GZIP) else metadata)
        return str(document["properties"]["table_type"]).lower() == "lance"
    except (ValueError, TypeError, KeyError, EOFError, OSError, zlib.error):
        return False


def probe_many(
    places: Iterable[str], options: Mapping[str, str], concurrency: int = DEFAULT_CONCURRENCY
) -> dict[str, Storage]:
    """Return what each of ``places`` holds, asking for at most ``concurrency`` at a time."""
    wanted = list(dict.fromkeys(places))
    return dict(zip(wanted, in_parallel(lambda place: probe(place, options), wanted, concurrency), strict=True))


def describe(location: str, options: Mapping[str, str], version: int | None = None) -> Metadata:
    """Return the metadata of the dataset at ``location``, of its latest version when none is given.

    Raises:
        InvalidTableStateError: there is no Lance dataset, or none that can be read.
        TableVersionNotFoundError: there is one, without this version.
        PermissionDeniedError, ServiceUnavailableError: storage did not let it be read.
    """
    from lance_namespace.errors import TableVersionNotFoundError
    from lance_namespace_urllib3_client.models.table_basic_stats import TableBasicStats

    from reconciler.json_arrow import to_json_schema

    with translated(location, options):
        _refuse_other_than_dataset(location, options)
        dataset = open_dataset(location, options)
        if version is not None and version != dataset.version:
            if version not in {known["version"] for known in dataset.versions()}:
                raise TableVersionNotFoundError(
                    f"{locations.redact(location)} has no version {version}; the latest is {dataset.version}"
                )
            dataset = dataset.checkout_version(version)
        stats = dataset.stats.dataset_stats()
        summaries: dict[int, dict[str, str]] = {known["version"]: known["metadata"] for known in dataset.versions()}
        return Metadata(
            version=dataset.version,
            arrow_schema=to_json_schema(dataset.schema),
            stats=TableBasicStats(num_deleted_rows=stats["num_deleted_rows"], num_fragments=stats["num_fragments"]),
            metadata=summaries.get(dataset.version, {}),
        )


def _refuse_other_than_dataset(location: str, options: Mapping[str, str]) -> None:
    from lance_namespace.errors import InvalidTableStateError

    found = probe(location, options)
    if found.kind is StorageKind.NOTHING:
        raise InvalidTableStateError(f"{locations.redact(location)} is not a Lance dataset: nothing is written there")
    if found.kind is StorageKind.NOT_LANCE:
        raise InvalidTableStateError(f"{locations.redact(location)} is not a Lance dataset: {found.detail}")


def is_fresh(location: str, schema: Schema, options: Mapping[str, str]) -> bool:
    """Return whether ``location`` holds what :func:`create_empty` writes and nothing more.

    That is an empty dataset in its first version with exactly this schema: what a create-table that was cut off
    before its registration leaves.

    Raises:
        PermissionDeniedError, ServiceUnavailableError, InvalidTableStateError: storage did not let it be read.
    """
    if probe(location, options) != Storage(StorageKind.DATASET, schema):
        return False
    with translated(location, options):
        dataset = open_dataset(location, options)
        return bool(dataset.version == 1 and dataset.count_rows() == 0)


# ---- writing ---------------------------------------------------------------------------------------------------------


def create_empty(location: str, schema: Schema, options: Mapping[str, str]) -> None:
    """Write an empty dataset of ``schema`` where nothing is.

    Raises:
        TableAlreadyExistsError: a dataset is there.
        InvalidTableStateError: something else is there.
        PermissionDeniedError, ServiceUnavailableError: storage refused.
    """
    from reconciler.arrow_types import to_arrow_schema

    _write_new(location, to_arrow_schema(schema).empty_table(), options)


def write_stream(location: str, ipc_stream: bytes, options: Mapping[str, str]) -> int:
    """Write a new dataset from an Arrow IPC stream where nothing is, and return its version.

    Raises:
        InvalidInputError: ``ipc_stream`` is no Arrow IPC stream.
        TableAlreadyExistsError, InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: as
            :func:`create_empty`.
    """
    import pyarrow as pa
    from lance_namespace.errors import InvalidInputError

    try:
        table = pa.ipc.open_stream(ipc_stream).read_all()
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"the data is not an Arrow IPC stream: {error}") from None
    return _write_new(location, table, options)


def _write_new(location: str, table: pa.Table, options: Mapping[str, str]) -> int:
    import lance
    from lance_namespace.errors import InvalidTableStateError, TableAlreadyExistsError

    with translated(location, options):
        found = probe(location, options)
        shown = locations.redact(location)
        if found.kind is StorageKind.DATASET:
            raise TableAlreadyExistsError(f"{shown} already holds a Lance dataset")
        if found.kind is StorageKind.NOT_LANCE:
            raise InvalidTableStateError(f"{shown} is taken: {found.detail}")
        dataset = lance.write_dataset(
            table, pylance_uri(location), mode="create", storage_options=dict(options) or None
        )
    return int(dataset.version)


def add_columns(location: str, fields: Iterable[Field], options: Mapping[str, str]) -> None:
    """Add nullable columns to a dataset without rewriting data; columns it already has as wanted are left alone.

    Raises:
        InvalidInputError: a field is not nullable, so that existing rows could not have it.
        TableSchemaValidationError: a column of this name is there with another type.
        InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: see :func:`describe`.
    """
    import pyarrow as pa
    from lance_namespace.errors import InvalidInputError, TableSchemaValidationError

    from reconciler.arrow_types import from_arrow_schema, to_arrow_schema

    with translated(location, options):
        dataset = open_dataset(location, options)
        present = {field.name: field for field in from_arrow_schema(dataset.schema)}
        missing = []
        for field in fields:
            if field.name not in present:
                missing.append(field)
            elif present[field.name].type != field.type:
                raise TableSchemaValidationError(
                    f"{locations.redact(location)} has a column `{field.name}` of type "
                    f"{present[field.name].type}, not {field.type}"
                )
        required = [field.name for field in missing if not field.nullable]
        if required:
            raise InvalidInputError(f"columns added to existing rows must be nullable: {', '.join(required)}")
        if missing:
            dataset.add_columns(pa.schema(list(to_arrow_schema(tuple(missing)))))


# ---- the edge to pylance ---------------------------------------------------------------------------------------------


def local_path(location: str) -> Path | None:
    """Return the path of a location on this machine, None for one elsewhere."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", location) is None:
        return Path(location)
    if location[:5].lower() != "file:":
        return None
    return Path(locations.normalise(location))


def list_directory(location: str, options: Mapping[str, str]) -> list[str]:
    """Return the names directly in ``location``, files and directories; none when it does not exist.

    Raises:
        OSError, ValueError, RuntimeError: as storage reports them; see :func:`translated`.
    """
    path = local_path(location)
    if path is not None:
        try:
            return [entry.name for entry in path.iterdir()]
        except FileNotFoundError:
            return []
    listed = _listed(location, options)
    return [_last_name(entry) for entry in (*listed.common_prefixes, *listed.objects)]


def list_directories(location: str, options: Mapping[str, str]) -> list[str]:
    """Return the names of the directories directly in ``location``, without symbolic links; none when it is not there.

    Raises:
        OSError, ValueError, RuntimeError: as for :func:`list_directory`.
    """
    path = local_path(location)
    if path is None:
        return [_last_name(entry) for entry in _listed(location, options).common_prefixes]
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _listed(location: str, options: Mapping[str, str]) -> Any:
    from lance.file import LanceFileSession

    return LanceFileSession(pylance_uri(location), storage_options=dict(options) or None).list_with_delimiter()


def _last_name(entry: str) -> str:
    return entry.rstrip("/").rpartition("/")[2]


def _content(folder: str, name: str, options: Mapping[str, str]) -> bytes:
    path = local_path(folder)
    if path is not None:
        return (path / name).read_bytes()
    from lance.file import LanceFileSession

    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / name
        LanceFileSession(pylance_uri(folder), storage_options=dict(options) or None).download_file(name, copy)
        return copy.read_bytes()


def open_dataset(location: str, options: Mapping[str, str]) -> Any:
    """Return the ``lance.LanceDataset`` at ``location``; errors are pylance's own, see :func:`translated`."""
    import lance

    return lance.dataset(pylance_uri(location), storage_options=dict(options) or None)


@contextmanager
def translated(location: str, options: Mapping[str, str]) -> Iterator[None]:
    """Turn what pylance and the file system raise inside the block into ``lance_namespace.errors``."""
    try:
        yield
    except BaseException as error:
        if not _is_storages(error):
            raise
        raise _translation(error, location, options) from None


def _is_storages(error: BaseException) -> bool:
    """Return whether pylance or the file system raised ``error``, rather than lancens or whoever ends the process."""
    return isinstance(error, (OSError, ValueError, RuntimeError)) or _is_panic(error)


def _is_panic(error: BaseException) -> bool:
    """Return whether ``error`` is a panic in pylance: no ``Exception``, and of a class that cannot be imported."""
    return type(error).__name__ == "PanicException"


def _translation(error: BaseException, location: str, options: Mapping[str, str]) -> LanceNamespaceError:
    from lance_namespace import errors

    text = _text(error, location, options)
    kind: type[LanceNamespaceError] = errors.InvalidTableStateError
    if type(error).__name__ == "CommitConflictError":
        kind = errors.ConcurrentModificationError
    elif _is_panic(error):
        kind = errors.InternalError
    elif isinstance(error, PermissionError) or _DENIED.search(text):
        kind = errors.PermissionDeniedError
    elif _EXISTS.search(text):
        kind = errors.TableAlreadyExistsError
    elif _UNAVAILABLE.search(text):
        kind = errors.ServiceUnavailableError
    return kind(f"{locations.redact(_culprit(error, location))}: {text}")


def _culprit(error: BaseException, location: str) -> str:
    """Return what could not be used: ``location``, or the file or directory below it that the system names."""
    named = str(error.filename) if isinstance(error, OSError) and error.filename is not None else location
    return named if locations.is_under(location, named) else location


def pylance_uri(location: str) -> str:
    """Return ``location`` as pylance takes it: the other names of S3 become ``s3``."""
    return re.sub(r"^s3[an]:", "s3:", location, count=1, flags=re.IGNORECASE)


def _text(error: BaseException, location: str, options: Mapping[str, str]) -> str:
    """Return what ``error`` says on one line, without XML, places in pylance's source, and secrets."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    answer = _XML_ERROR.search(text)
    if answer is not None:
        text = f"{text[: answer.start()]}{answer[1]}: {answer[2]}"
    if _is_panic(error):
        text = f"pylance broke off: {text}"
    line = " ".join(_RUST_PLACE.sub("", text).split())
    return scrub(line.replace(location, locations.redact(location)), options.values())
