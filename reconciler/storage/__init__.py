"""Access to tables' datasets: what a location holds, and every commit.

No other room opens datasets with pylance.

Nothing here deletes or overwrites. A dataset is written only where nothing is; an existing one only gains columns, has
columns made nullable, gains indices, or has its small fragments merged.
"""

from __future__ import annotations

from reconciler.model.locations import pylance_uri
from reconciler.storage.commits import commit_first, commit_whole, expect_no_cleanup, is_latest, next_versions
from reconciler.storage.files import (
    DEEPEST,
    Looked,
    ObjectFolder,
    as_plain_path,
    holds_data_files,
    list_directory,
    local_path,
    look_into,
    place_of,
    real_places,
)
from reconciler.storage.inspection import Files, Index, Recovery, files_of, indices_of, recovery_of, small_fragments_of
from reconciler.storage.losses import MOST_VERSIONS
from reconciler.storage.pylance import OBJECT_STORES, SCHEMES, in_memory, open_dataset, read_latest, translated
from reconciler.storage.reading import (
    DEREGISTERED_MARKER,
    RESERVED_MARKER,
    Reference,
    cleanup_of,
    count_rows,
    examine,
    manifests,
    opened,
    probe,
)
from reconciler.storage.references import BrokenReference
from reconciler.storage.upkeep import build_index, compact, optimize_index, upkeep_of
from reconciler.storage.writing import (
    MANAGED,
    add_columns,
    compute_columns,
    create_empty,
    is_fresh,
    relax_columns,
    write_stream,
)
