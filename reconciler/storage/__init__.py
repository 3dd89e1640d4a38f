"""Access to tables' datasets: what a location holds, and every commit.

No other room opens datasets with pylance.

Nothing here deletes or overwrites data. A dataset or a clone is written only where nothing is; an existing one only
gains columns, branches and indices, has small fragments merged, has names, nullability and metadata of columns changed,
or loses its auto clean-up. Tags are set, moved and removed.
"""

from __future__ import annotations

from reconciler.model.locations import pylance_uri
from reconciler.storage.cloning import (
    FoundClone,
    TaggedBase,
    clone_of,
    find_clone,
    first_version,
    read_base,
    tagged_base,
    write_clone,
)
from reconciler.storage.commits import (
    commit_first,
    commit_whole,
    end_cleanup,
    expect_no_cleanup,
    is_latest,
    next_versions,
)
from reconciler.storage.connections import VersionCache
from reconciler.storage.dataset_writes import (
    MANAGED,
    add_columns,
    annotate_columns,
    compute_columns,
    create_empty,
    evolve_columns,
    is_fresh,
    write_stream,
)
from reconciler.storage.defects import NO_DEFECTS, Defects, defects_of
from reconciler.storage.files import (
    DEEPEST,
    DirectoryContent,
    ObjectFolder,
    as_plain_path,
    classify_directory,
    holds_data_files,
    holds_first_write,
    is_object,
    list_directory,
    local_path,
    resolve_location,
    resolve_locations,
    resolved_links,
    session_at,
)
from reconciler.storage.inspection import (
    CleanupBytes,
    Files,
    Index,
    Recovery,
    bytes_of,
    files_of,
    indices_of,
    recovery_of,
    rows_of,
    small_fragments_of,
    stored_bytes,
)
from reconciler.storage.losses import MOST_VERSIONS, Depth, Salvage
from reconciler.storage.metadata import (
    FieldMetadata,
    alter_columns,
    create_branch,
    create_tag,
    delete_tag,
    replace_schema_metadata,
    restore,
    update_field_metadata,
    update_tag,
)
from reconciler.storage.new_files import NewFiles
from reconciler.storage.opening import open_dataset, places_elsewhere
from reconciler.storage.pins import pin_base, pin_of, unpin_base
from reconciler.storage.probing import TableContent, probe_table
from reconciler.storage.pylance import (
    OBJECT_STORES,
    SCHEMES,
    has_driver,
    in_memory,
    read_latest,
    translated,
)
from reconciler.storage.reading import (
    DEREGISTERED_MARKER,
    RESERVED_MARKER,
    Reference,
    cleanup_of,
    count_rows,
    described_indices,
    examine,
    latest_state,
    list_references,
    manifests,
    opened,
    probe,
    version_at,
)
from reconciler.storage.references import BrokenReference
from reconciler.storage.segments import Executors
from reconciler.storage.tags import find_tags, write_tags
from reconciler.storage.upkeep import build_index, compact, optimize_index, upkeep_of
