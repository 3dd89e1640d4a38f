"""What a location holds, and writing an empty dataset there. The only room that opens tables' datasets with pylance.

Nothing here deletes or overwrites: a dataset is written only where there is nothing, and an existing one only gains
nullable columns, or lets columns be null.
"""

from __future__ import annotations

from reconciler.model.locations import pylance_uri
from reconciler.storage.commits import (
    commit_first,
    commit_whole,
    expect_no_cleanup,
    in_memory,
    is_latest,
    next_versions,
)
from reconciler.storage.expressions import count_rows
from reconciler.storage.files import list_directory, list_entries, local_path, place_of, real_places
from reconciler.storage.inspection import Files, Index, files_of, indices_of, small_fragments_of
from reconciler.storage.metadata import Metadata, Reference, describe, manifests, opened, require_version
from reconciler.storage.probing import (
    DEREGISTERED_MARKER,
    RESERVED_MARKER,
    RowsAndAge,
    cleanup_of,
    contents_of,
    examine,
    probe,
)
from reconciler.storage.pylance import (
    OBJECT_STORES,
    SCHEMES,
    open_dataset,
    read_latest,
    reason_of_clients_fault,
    translated,
)
from reconciler.storage.searching import DEEPEST, Looked, as_plain_path, holds_data_files, look_into
from reconciler.storage.writing import (
    MANAGED,
    add_columns,
    compute_columns,
    create_empty,
    is_fresh,
    relax_columns,
    write_stream,
)

__all__ = [
    "DEEPEST",
    "DEREGISTERED_MARKER",
    "MANAGED",
    "OBJECT_STORES",
    "RESERVED_MARKER",
    "SCHEMES",
    "Files",
    "Index",
    "Looked",
    "Metadata",
    "Reference",
    "RowsAndAge",
    "add_columns",
    "as_plain_path",
    "cleanup_of",
    "commit_first",
    "commit_whole",
    "compute_columns",
    "contents_of",
    "count_rows",
    "create_empty",
    "describe",
    "examine",
    "expect_no_cleanup",
    "files_of",
    "holds_data_files",
    "in_memory",
    "indices_of",
    "is_fresh",
    "is_latest",
    "list_directory",
    "list_entries",
    "local_path",
    "look_into",
    "manifests",
    "next_versions",
    "open_dataset",
    "opened",
    "place_of",
    "probe",
    "pylance_uri",
    "read_latest",
    "real_places",
    "reason_of_clients_fault",
    "relax_columns",
    "require_version",
    "small_fragments_of",
    "translated",
    "write_stream",
]
