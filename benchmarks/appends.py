"""What daily appends cost that `lancens maintain` compacts: `python -m benchmarks.appends [SHAPE ...]`.

A dataset gets DAYS appends of two fragments each. After each one, it is compacted once by the code of `lancens
maintain` (`max_small_fragments: 1`), or by pylance's `compact_files`, and a second time, which must write nothing. No
old version is cleaned up, so that all data files ever written are there: the amplification is their bytes, as a
multiple of the bytes of the latest version. The rows are compared with those that were appended, by a checksum. Wide
rows have 400 kB each.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.page import Goal, Section, table

DAYS = 20
MOST = 4.0
SHAPES = {"narrow": (20_000_000, 8), "wide": (5_000, 400_000)}
"""The number of rows, and the bytes of each beside its number."""
OURS, BARE = "`lancens maintain`", "pylance's `compact_files`"


def rows_of(first: int, number: int, width: int) -> pa.Table:
    """Return rows of random bytes, numbered from ``first``."""
    data = pa.py_buffer(np.random.default_rng(first).bytes(number * width))
    payload = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), number, [None, data])
    return pa.table({"id": np.arange(first, first + number), "payload": payload})


def checksum(batch: pa.RecordBatch | pa.Table) -> int:
    """Return a number for the rows that does not depend on their order."""
    total = 0
    for chunk in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
        payload, width = chunk["payload"], chunk["payload"].type.byte_width
        whole = np.frombuffer(payload.buffers()[1], np.uint64, len(payload) * width // 8, payload.offset * width)
        sums = whole.reshape(len(payload), -1).sum(axis=1, dtype=np.uint64)
        total += int((sums * (chunk["id"].to_numpy().astype(np.uint64) + 1)).sum(dtype=np.uint64))
    return total % 2**64


def written_bytes(place: Path) -> int:
    """Return the bytes of all data files of a dataset, those of old versions too."""
    return sum(path.stat().st_size for path in (place / "data").iterdir())


def compact(place: Path, how: str) -> None:
    """Compact a dataset once; rewrite nothing if too little can be merged."""
    import lance

    from reconciler import storage
    from reconciler.model.maintenance import WantedCompaction

    if how == OURS:
        storage.compact(str(place), {}, WantedCompaction(1), None)
    else:
        lance.dataset(str(place)).optimize.compact_files()


def amplification(shape: str, how: str) -> tuple[float, int, int]:
    """Return the bytes written as a multiple of the data, its bytes, and its fragments.

    Raises:
        AssertionError: rows differ from those appended, or a second run wrote something.
    """
    import lance

    number, width = SHAPES[shape]
    share, appended = number // DAYS // 2, 0
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as folder:
        place = Path(folder, "a.lance")
        for first in range(0, number, share):
            rows = rows_of(first, share, width)
            appended += checksum(rows)
            lance.write_dataset(rows, str(place), mode="append")
            if first // share % 2:
                compact(place, how)
                before = written_bytes(place)
                compact(place, how)
                assert how != OURS or written_bytes(place) == before
        dataset = lance.dataset(str(place))
        sizes = [file.file_size_bytes or 0 for each in dataset.get_fragments() for file in each.data_files()]
        batches = dataset.scanner(batch_size_bytes=64 << 20).to_batches()
        assert (dataset.count_rows(), sum(map(checksum, batches)) % 2**64) == (number, appended % 2**64)
        return written_bytes(place) / sum(sizes), sum(sizes), len(sizes)


def section(shapes: Sequence[str] = tuple(SHAPES)) -> Section:
    """Measure and return the section of the page."""
    lines, goals = [], []
    for shape in shapes:
        for how in (OURS, BARE):
            times, size, fragments = amplification(shape, how)
            lines.append([shape, how, f"{times:.2f}", f"{size / 2**20:,.0f}", str(fragments)])
            if how == OURS:
                what = f"bytes written over {DAYS} daily appends of {SHAPES[shape][0]:,} {shape} rows, against the data"
                goals.append(Goal(what, times, MOST, f"{fragments} fragments at the end"))
    about = (__doc__ or "").partition("\n\n")[2].strip().replace("DAYS", str(DAYS))
    head = ["rows", "compaction", "written / data", "MiB of data", "fragments"]
    return Section("Daily appends", "python -m benchmarks.appends", f"{about}\n\n{table(head, lines)}", goals)


if __name__ == "__main__":
    measured = section(tuple(sys.argv[1:]) or tuple(SHAPES))
    print(measured.text, *measured.goals, sep="\n")
