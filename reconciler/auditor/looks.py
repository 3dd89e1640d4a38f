"""Remember what audits saw in storage, so that the next one looks only where something changed.

Tasks write their looks as they go, to files in a folder inside the history; an audit that was cut off goes on from
them. Of a dataset that has lost files nothing is remembered, so it is looked at every time.
"""

from __future__ import annotations

import re
import tempfile
import uuid
from collections.abc import Iterable, Iterator
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
from reconciler.auditor.records import Stored
from reconciler.model import locations
from reconciler.model.errors import BackendError, LancensError
from reconciler.spark.frames import frame_of
from reconciler.spark.schemas import LONG, MOMENT, STRING, Row, record_batch
from reconciler.spark.tasks import batched, row_tasks, unbatched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.auditor.document import RunSummary
    from reconciler.spark.frames import Frame


FOLDER = "_looks"

LOOK = pa.field("look", pa.struct([("location", STRING), ("run", LONG), ("at", MOMENT), ("stored", STRING)]))
"""The look of the audit number ``run`` at a dataset; ``stored`` is null for one that is not whole."""

# Another lancens may look at more, so its looks are not used.
_KEPT = pa.schema([("catalog", STRING), ("key", STRING), LOOK], metadata={"lancens.looks": f"1 {version('lancens')}"})
_NAME = re.compile(r"(\d+)-[0-9a-f]{32}\.parquet")
_LONGEST_BREAK = timedelta(days=1)
_STORED = TypeAdapter(Stored)


@dataclass(frozen=True, slots=True)
class Looks:
    """The looks of earlier audits with the same settings, and of this one if it was cut off.

    Args:
        folder: the folder of their files.
        run: how many audits with these settings are in the history.
        rounds: in how many audits every dataset is looked at; 1 for this one alone.
        now: the start of the audit.
    """

    folder: str
    run: int
    rounds: int
    now: datetime

    @classmethod
    def of(cls, history: str, runs: Iterable[RunSummary], series: tuple[str, str], now: datetime, rounds: int) -> Looks:
        """Return the looks of the ``runs`` of a ``series`` in a history, for an audit that starts ``now``."""
        name = uuid.uuid5(uuid.NAMESPACE_OID, str(series)).hex
        folder = locations.join(locations.absolute(history, Path.cwd().as_posix()), FOLDER, name)
        return cls(folder, sum(run.series == series for run in runs), rounds, now)

    def carried(self, row: Row) -> Stored | None:
        """Return what was seen of the dataset of ``row`` in its state then; None if it must be looked at anyway."""
        look: Row | None = row["look"]
        if look is None or look["stored"] is None or look["location"] != locations.redact(row["location"]):
            return None
        # Audits that run at once skip numbers, a history that is cut back repeats them, and clocks go wrong.
        runs, age = self.run - look["run"], self.now - look["at"]
        if runs not in range(self.rounds) or age < timedelta():
            return None
        is_its_turn = (crc32(row["claimed"].encode()) - self.run) % self.rounds == 0
        if is_its_turn and (runs or age >= _LONGEST_BREAK):
            return None
        return replace(_STORED.validate_json(look["stored"]), carried_from=look["at"])

    def entries(self, spark: SparkSession | None, schema: pa.Schema) -> Frame:
        """Return the looks with the columns of ``schema``; a table may have several."""
        names = self._files()
        shares = row_tasks(len(names) * 1_000)  # a file has up to 4,000 rows
        return frame_of(spark, batched(names, 16)).map(partial(self._read, schema), schema, shares)

    def forget(self) -> None:
        """Remove the looks that later ones have replaced, once the audit is in the history."""
        with self._session() as session:
            for name, run in self._files().items():
                if run <= self.run - self.rounds:
                    with suppress(OSError):  # the credentials may write and not delete
                        session.delete_file(name)

    def _files(self) -> dict[str, int]:
        """Return the files with the number of their audit."""
        with self._session() as session:
            names = [name.rpartition("/")[2] for name in session.list_with_delimiter().objects]
        return {name: int(found[1]) for name in names if (found := _NAME.fullmatch(name)) is not None}

    def _read(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        for name in (name for names in unbatched(batches) for name in names):
            with self._session(name) as session, tempfile.TemporaryDirectory() as scratch:
                copy = Path(scratch, name)
                try:
                    session.download_file(name, copy)
                except OSError:
                    if session.contains(name):
                        raise
                    continue  # another audit has replaced it meanwhile
                table = pq.read_table(copy)
            if table.schema.equals(_KEPT, check_metadata=True):
                yield record_batch(table.to_pylist(), schema)

    def write(self, rows: Iterable[Row], found: Iterable[Stored]) -> None:
        """Write what this audit ``found`` at ``rows`` to a file of its own, whole or not at all."""
        import pyarrow.parquet as pq

        kept = [
            {"catalog": row["catalog"], "key": row["key"], "look": self._look(row, stored)}
            for row, stored in zip(rows, found, strict=True)
            # What is not whole takes the place of an earlier look, which would hide the loss.
            if stored.carried_from is None and (row.get("look") or (stored.state and stored.is_whole))
        ]
        if kept:
            with self._session() as session, tempfile.TemporaryDirectory() as scratch:
                pq.write_table(pa.Table.from_pylist(kept, _KEPT), Path(scratch, "looks"), compression="zstd")
                session.upload_file(Path(scratch, "looks"), f"{self.run}-{uuid.uuid4().hex}.parquet")

    def _look(self, row: Row, stored: Stored) -> Row:
        is_whole = stored.state is not None and stored.is_whole
        text = _STORED.dump_json(stored, exclude_defaults=True).decode() if is_whole else None
        return {"location": locations.redact(row["location"]), "run": self.run, "at": self.now, "stored": text}

    @contextmanager
    def _session(self, *file: str) -> Iterator[Any]:
        """Yield access to the folder, or to a ``file`` in it.

        Raises:
            LancensError: it cannot be used.
        """
        place = locations.join(self.folder, *file)
        try:
            with storage.translated(place, {}):
                yield storage.session_at(self.folder, {})
        except BackendError as error:
            what = "remove the file" if file else "give --history a place that can be written"
            raise LancensError(f"{error}; audits keep there what they saw: {what} and run the audit again") from None
