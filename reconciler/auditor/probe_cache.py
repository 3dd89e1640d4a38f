"""Cache probe results between audits, so that the next one probes only what changed.

Each result is a "look". Tasks write their looks as they go, to files in a folder inside the history; an interrupted
audit continues from them. Datasets with lost files are not cached, so every audit probes them.
"""

from __future__ import annotations

import re
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pyarrow as pa
from pydantic import TypeAdapter

from reconciler import storage
from reconciler.auditor.records import LocationContent
from reconciler.model import locations
from reconciler.model.errors import BackendError, InvalidTableStateError, LancensError
from reconciler.pipeline.frames import frame_of
from reconciler.pipeline.schemas import LONG, MOMENT, STRING, Row, record_batch
from reconciler.pipeline.tasks import batched, row_tasks, unbatched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.auditor.document import RunSummary
    from reconciler.pipeline.frames import Frame


FOLDER = "_looks"

LOOK = pa.field("look", pa.struct([("location", STRING), ("run", LONG), ("at", MOMENT), ("stored", STRING)]))
"""The column of a look: its dataset's location, the number and start of the audit, and the probe result as JSON.

``stored``, the result, is null for a dataset with lost files.
"""

# Another version of lancens may probe more, so its looks are not used.
_FILE_SCHEMA = pa.schema(
    [("catalog", STRING), ("key", STRING), LOOK], metadata={"lancens.looks": f"1 {version('lancens')}"}
)
_FILE = re.compile(r"([0-9a-f]{32})/(\d+)-[0-9a-f]{32}\.parquet")
_LONGEST_BREAK = timedelta(days=1)
_LONGEST_UNUSED = timedelta(days=90)
"""Looks are removed when no audit has had their settings for this long."""
_STORED = TypeAdapter(LocationContent)


@dataclass(frozen=True, slots=True)
class ProbeCache:
    """The looks of earlier audits with the same settings, and of this one if it was interrupted.

    Args:
        folder: the location of the looks of all audits.
        series: the folder, inside ``folder``, of the looks of audits with these settings.
        run: how many audits with these settings are in the history, which is the number of this one.
        rounds: how many audits it takes to probe every dataset; 1 if this one probes all.
        now: the start of the audit.
        unused: the folders, inside ``folder``, that no audit uses any more.
    """

    folder: str
    series: str
    run: int
    rounds: int
    now: datetime
    unused: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, history: str, runs: Sequence[RunSummary], series: tuple[str, str], now: datetime, rounds: int
    ) -> ProbeCache:
        """Return the cache for an audit that starts ``now``.

        Args:
            history: the location of the history.
            runs: all runs in the history.
            series: the manifest and the settings of the audit; only runs with the same ones share looks.
            now: the start of the audit.
            rounds: how many audits it takes to probe every dataset.
        """
        folder = locations.join(locations.absolute(history, Path.cwd().as_posix()), FOLDER)
        names = [_folder_of(run.series) for run in runs]
        last = dict(zip(names, (run.finished for run in runs), strict=True))
        unused = frozenset(name for name, finished in last.items() if now - finished > _LONGEST_UNUSED)
        name = _folder_of(series)
        return cls(folder, name, names.count(name), rounds, now, unused - {name})

    def cached(self, row: Row) -> LocationContent | None:
        """Return the cached result for the table of ``row``.

        The result is None if the table must be probed again.
        """
        look: Row | None = row["look"]
        if look is None or look["stored"] is None or look["location"] != locations.redact(row["location"]):
            return None
        # Concurrent audits skip numbers, truncated histories repeat them, and clocks go wrong.
        runs, age = self.run - look["run"], self.now - look["at"]
        if runs not in range(self.rounds) or age < timedelta():
            return None
        is_its_turn = (crc32(row["data_place"].encode()) - self.run) % self.rounds == 0
        if is_its_turn and (runs or age >= _LONGEST_BREAK):
            return None
        return replace(_STORED.validate_json(look["stored"]), carried_from=look["at"])

    def entries(self, spark: SparkSession | None, schema: pa.Schema) -> Frame:
        """Read the looks, and return them with the columns of ``schema``.

        A table may have several.
        """
        names = self._files()
        tasks = row_tasks(len(names) * 1_000)  # a file has up to 4,000 rows
        return frame_of(spark, batched(names, 16)).map(partial(self._read_files, schema), schema, tasks)

    def prune(self) -> None:
        """Remove the files of replaced and unused looks.

        Call it once this audit is in the history.
        """
        with self._session() as session:
            for match in filter(None, map(_FILE.fullmatch, session.list())):
                is_replaced = match[1] == self.series and int(match[2]) <= self.run - self.rounds
                if is_replaced or match[1] in self.unused:
                    with suppress(OSError):  # the credentials may allow writing but not deleting
                        session.delete_file(match[0])

    def _files(self) -> list[str]:
        with self._session() as session:
            return [name for name in session.list(self.series) if _FILE.fullmatch(name)]

    def _read_files(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the looks in the named files, with the columns of ``schema``."""
        import pyarrow.parquet as pq

        for name in (name for names in unbatched(batches) for name in names):
            with self._session(name) as session, tempfile.TemporaryDirectory() as scratch:
                copy = Path(scratch, "looks")
                try:
                    session.download_file(name, copy)
                except OSError:
                    if session.contains(name):
                        raise
                    continue  # another audit has replaced it meanwhile
                table = pq.read_table(copy)
            if table.schema.equals(_FILE_SCHEMA, check_metadata=True):
                yield record_batch(table.to_pylist(), schema)

    def write(self, rows: Iterable[Row], results: Iterable[LocationContent]) -> None:
        """Write the ``results`` of this audit for ``rows`` to a new file, atomically."""
        import pyarrow.parquet as pq

        looks = [
            {"catalog": row["catalog"], "key": row["key"], "look": self._look(row, stored)}
            for row, stored in zip(rows, results, strict=True)
            # A dataset that lost files replaces its earlier look, which would hide the loss.
            if stored.carried_from is None and (row.get("look") or (stored.state and stored.is_whole))
        ]
        if looks:
            with self._session() as session, tempfile.TemporaryDirectory() as scratch:
                pq.write_table(pa.Table.from_pylist(looks, _FILE_SCHEMA), Path(scratch, "looks"), compression="zstd")
                name = f"{self.series}/{self.run}-{uuid.uuid4().hex}.parquet"
                session.upload_file(Path(scratch, "looks"), name)

    def _look(self, row: Row, stored: LocationContent) -> Row:
        is_whole = stored.state is not None and stored.is_whole
        text = _STORED.dump_json(stored, exclude_defaults=True).decode() if is_whole else None
        return {"location": locations.redact(row["location"]), "run": self.run, "at": self.now, "stored": text}

    @contextmanager
    def _session(self, *file: str) -> Iterator[Any]:
        """Yield access to the folder, or to a ``file`` in it.

        Raises:
            LancensError: it cannot be used.
        """
        location = locations.join(self.folder, *file)
        try:
            with storage.translated(location, {}):
                yield storage.session_at(self.folder, {})
        except BackendError as error:
            is_damaged = file and isinstance(error, InvalidTableStateError)
            remedy = "remove the file" if is_damaged else "give --history a place that can be read and written"
            raise LancensError(f"{error}; audits keep there what they saw: {remedy} and run the audit again") from None


def _folder_of(series: tuple[str, str]) -> str:
    """Return the name of the folder of a series' looks."""
    return uuid.uuid5(uuid.NAMESPACE_OID, str(series)).hex
