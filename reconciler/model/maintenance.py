"""What a manifest asks of the upkeep of a dataset, and what was found there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.model.auto_cleanup import AutoCleanup
from reconciler.model.live import DatasetVersion

COMPACTION_READS = 3
"""How often a compaction reads as many bytes as it merges: to merge them, and to compare the old with the new."""
DIMENSIONS_A_CODE = 16
"""The dimensions of a sub-vector where the block does not set their number; a code of one byte replaces it."""
MOST_FILE_BYTES = 90 << 30
"""The most bytes of a data file, as in pylance."""
LEAST_VECTORS = 256
"""The fewest vectors on which pylance trains every type of index."""


class IndexType(StrEnum):
    """A type of index, as pylance names it."""

    BTREE = "BTREE"
    BITMAP = "BITMAP"
    LABEL_LIST = "LABEL_LIST"
    INVERTED = "INVERTED"
    NGRAM = "NGRAM"
    ZONEMAP = "ZONEMAP"
    BLOOMFILTER = "BLOOMFILTER"
    IVF_FLAT = "IVF_FLAT"
    IVF_PQ = "IVF_PQ"
    IVF_SQ = "IVF_SQ"
    IVF_RQ = "IVF_RQ"
    IVF_HNSW_FLAT = "IVF_HNSW_FLAT"
    IVF_HNSW_PQ = "IVF_HNSW_PQ"
    IVF_HNSW_SQ = "IVF_HNSW_SQ"

    @property
    def is_vector(self) -> bool:
        """Whether it is searched by distance."""
        return self.value.startswith("IVF_")

    @property
    def is_pq(self) -> bool:
        """Whether it keeps codes of sub-vectors instead of the vectors."""
        return self.value.endswith("_PQ")

    def is_named(self, live: str) -> bool:
        """Return whether pylance calls an index of this type ``live``, such as ``BTree``."""
        return live.upper().replace("_", "") == self.value.replace("_", "")


class Metric(StrEnum):
    """The distance of a vector index."""

    L2 = "l2"
    COSINE = "cosine"
    DOT = "dot"
    HAMMING = "hamming"


@dataclass(frozen=True, slots=True)
class WantedCompaction:
    """Compact once more than ``max_small_fragments`` can be merged or rewritten.

    A merged fragment has ``target_rows``, or about ``target_bytes`` if its rows are wide.
    """

    max_small_fragments: int = 20
    target_rows: int = 1_048_576
    target_bytes: int = 4 << 30


@dataclass(frozen=True, slots=True)
class WantedIndex:
    """An index on ``column``; the other fields are for vectors, and None is pylance's or lancens' choice."""

    column: str
    type: IndexType
    metric: Metric | None = None
    num_partitions: int | None = None
    num_sub_vectors: int | None = None

    @property
    def name(self) -> str:
        """Its name, which is the one that pylance would choose."""
        return f"{self.column}_idx"

    @property
    def least_rows(self) -> int:
        """The fewest values from which pylance can train it."""
        return LEAST_VECTORS if self.type.is_vector else 1


@dataclass(frozen=True, slots=True)
class Maintain:
    """What a table's block asks of `lancens maintain`; None: nothing of that kind.

    ``copy_elsewhere``: jobs may copy rows of places outside the dataset's directory into it.
    """

    compact: WantedCompaction | None = None
    indices: tuple[WantedIndex, ...] = ()
    max_unindexed_rows: int | None = None
    copy_elsewhere: bool = False

    def __bool__(self) -> bool:
        return bool(self.compact or self.indices or self.max_unindexed_rows is not None)

    def needs_compaction(self, mergeable: int) -> bool:
        """Return whether ``mergeable``, a number of fragments, is over the limit of the block."""
        return self.compact is not None and mergeable > self.compact.max_small_fragments

    def stale_indices(self, rows: int, indices: Iterable[LiveIndex]) -> list[LiveIndex]:
        """Return the indices that leave more of ``rows`` unindexed than the block allows."""
        limit = rows if self.max_unindexed_rows is None else self.max_unindexed_rows
        return [index for index in indices if rows - index.rows > limit]

    def indices_to_update(self, rows: int, indices: Iterable[LiveIndex], *, is_compacted: bool) -> list[LiveIndex]:
        """Return the stale indices to update now; those that a compaction would shrink wait until none follows."""
        stale = self.stale_indices(rows, indices)
        remapped = [index for index in stale if index.is_remapped]
        may_follow = self.compact is not None and not all(index.may_wait for index in remapped)
        return remapped if is_compacted or may_follow else stale


NOT_MAINTAINED = Maintain()
"""The default: `lancens maintain` leaves the table alone."""


@dataclass(frozen=True, slots=True)
class LiveIndex:
    """An index of a dataset; ``rows`` are those of the latest version that it covers, None ``bytes`` unknown.

    ``is_old``: pylance cannot add rows to it.
    """

    name: str
    type: str
    columns: tuple[str, ...]
    rows: int
    bytes: int | None
    metric: str | None = None
    num_sub_vectors: int | None = None
    is_old: bool = False

    @property
    def may_wait(self) -> bool:
        """Whether its update may have to wait for enough vectors."""
        return not self.rows and self.metric is not None

    @property
    def is_remapped(self) -> bool:
        """Whether the index still covers rows after a compaction has rewritten them."""
        return not any(kind.is_named(self.type) for kind in (IndexType.ZONEMAP, IndexType.BLOOMFILTER))

    @property
    def signature(self) -> str:
        """The parameters of the index, as a text: a job is refused if they have changed since the plan."""
        shape = (self.name, self.type, *self.columns, self.metric or "", str(self.num_sub_vectors or ""))
        return " ".join(shape)


@dataclass(frozen=True, slots=True)
class LaterNeed:
    """What a dataset needs once the jobs before are done.

    Args:
        fragments: how many there are then.
        mergeable: how many of them a compaction rewrites; 0 if none is needed.
        mergeable_bytes: the size of those; None is unknown.
        unindexed: by the name of each index to bring up to date, the rows that it does not cover.
    """

    fragments: int
    mergeable: int
    mergeable_bytes: int | None
    unindexed: dict[str, int]


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What ``maintain`` needs to know of a dataset.

    Args:
        rows: of the latest version.
        fragments: how many there are.
        mergeable: how many of them pylance's compaction would rewrite.
        mergeable_bytes: the size of those; sizes are None where the writers of the files recorded none.
        indices: by name, without those of the system.
        column_bytes: the size of each column whose index is missing or stale; one that does not exist is left out.
        dimensions: of those columns that hold vectors.
        config: a digest of the dataset's configuration.
        cleanup: its automatic clean-up.
        cleanable: how many bytes a clean-up of old versions that keeps tags would remove.
        vectors: by column without a trained index, how many there are; at most :data:`LEAST_VECTORS` are counted.
        problems: by column, why pylance cannot build the wanted index.
        obstacle: why pylance cannot commit to the dataset as it is; None if it can.
        damage: why pylance's `validate()` fails; None if it passes, or nothing is needed.
        version: the latest, from which all of this is.
        elsewhere: the places outside its directory that it refers to, without credentials.
        later: what the jobs that it needs make necessary, in rounds.
    """

    rows: int
    fragments: int
    mergeable: int
    mergeable_bytes: int | None
    indices: tuple[LiveIndex, ...]
    column_bytes: dict[str, int | None]
    dimensions: dict[str, int]
    config: str
    cleanup: AutoCleanup | None = None
    cleanable: int = 0
    vectors: dict[str, int] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    damage: str | None = None
    obstacle: str | None = None
    version: DatasetVersion | None = None
    elsewhere: tuple[str, ...] = ()
    later: tuple[LaterNeed, ...] = ()


def total_bytes(sizes: Iterable[int | None]) -> int | None:
    """Return the sum of sizes; None if one of them is unknown."""
    total: int | None = 0
    for size in sizes:
        total = None if total is None or size is None else total + size
    return total
