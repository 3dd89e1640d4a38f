"""Remember what audits saw in storage, so that the next one looks only where something changed.

Tasks write their looks as they go, to files in a folder inside the history; an audit that was cut off goes on from
them. Of a dataset that has lost files nothing is remembered, so it is looked at every time.
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
from reconciler.auditor.records import Stored
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
"""The look of the audit number ``run`` at a dataset; ``stored`` is null for one that is not whole."""

# Another lancens may look at more, so its looks are not used.
_KEPT = pa.schema([("catalog", STRING), ("key", STRING), LOOK], metadata={"lancens.looks": f"1 {version('lancens')}"})
_FILE = re.compile(r"([0-9a-f]{32})/(\d+)-[0-9a-f]{32}\.parquet")
_LONGEST_BREAK = timedelta(days=1)
_LONGEST_UNUSED = timedelta(days=90)
"""How long looks are kept without an audit that has their settings."""
_STORED = TypeAdapter(Stored)


@dataclass(frozen=True, slots=True)
class Looks:
    """The looks of earlier audits with the same settings, and of this one if it was cut off.

    Args:
        folder: the folder of all looks.
        series: the name of the folder of these, inside it.
        run: how many audits with these settings are in the history.
        rounds: in how many audits every dataset is looked at; 1 for this one alone.
        now: the start of the audit.
        unused: the names of the folders that no audit uses any more.
    """

    folder: str
    series: str
    run: int
    rounds: int
    now: datetime
    unused: frozenset[str] = frozenset()

    @classmethod
    def of(cls, history: str, runs: Sequence[RunSummary], series: tuple[str, str], now: datetime, rounds: int) -> Looks:
        """Return the looks of the ``runs`` of a ``series`` in a history, for an audit that starts ``now``."""
        folder = locations.join(locations.absolute(history, Path.cwd().as_posix()), FOLDER)
        used = [_name_of(run.series) for run in runs]
        last = dict(zip(used, (run.finished for run in runs), strict=True))
        unused = frozenset(name for name, when in last.items() if now - when > _LONGEST_UNUSED)
        name = _name_of(series)
        return cls(folder, name, used.count(name), rounds, now, unused - {name})

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
        """Remove the looks that later ones have replaced or no audit uses, once this one is in the history."""
        with self._session() as session:
            for found in filter(None, map(_FILE.fullmatch, session.list())):
                is_replaced = found[1] == self.series and int(found[2]) <= self.run - self.rounds
                if is_replaced or found[1] in self.unused:
                    with suppress(OSError):  # the credentials may write and not delete
                        session.delete_file(found[0])

    def _files(self) -> list[str]:
        with self._session() as session:
            return [name for name in session.list(self.series) if _FILE.fullmatch(name)]

    def _read(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
                name = f"{self.series}/{self.run}-{uuid.uuid4().hex}.parquet"
                session.upload_file(Path(scratch, "looks"), name)

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
            is_damaged = file and isinstance(error, InvalidTableStateError)
            what = "remove the file" if is_damaged else "give --history a place that can be read and written"
            raise LancensError(f"{error}; audits keep there what they saw: {what} and run the audit again") from None


def _name_of(series: tuple[str, str]) -> str:
    return uuid.uuid5(uuid.NAMESPACE_OID, str(series)).hex
