"""Tables as rows: nothing of one is lost between a catalog's answer and what is done with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_type_hints

import pyarrow as pa

from reconciler.auditor.entries import ENTRIES
from reconciler.model.live import LiveTable, Snapshot
from reconciler.model.names import Identifier
from reconciler.pipeline.rows import LIVE, ROWS, live_table, rows_of
from reconciler.pipeline.schemas import record_batch

_SAMPLES: Mapping[Any, Any] = {
    Identifier: ("a", "b$c", "t"),
    str: "s3://lake/t",
    Mapping[str, str]: {"k": "v", "lancens.keys": '["k"]'},
    bool: True,
}
"""A value of each type that a field of ``LiveTable`` has, which is no field's default."""

FULL = LiveTable(
    **{field.name: _SAMPLES[get_type_hints(LiveTable)[field.name]] for field in dataclasses.fields(LiveTable)}
)


def test_every_field_of_a_table_survives_as_a_row() -> None:
    defaults = [field.default for field in dataclasses.fields(LiveTable)]
    assert not [one for one in defaults if one in dataclasses.astuple(FULL)]
    (row,) = record_batch(rows_of("lake", Snapshot(tables={FULL.id: FULL})), ROWS).to_pylist()
    assert live_table((*row["namespace"], row["name"]), row) == FULL


def test_an_entry_of_the_audit_has_every_field_of_a_table() -> None:
    assert ENTRIES.field("live").type == pa.struct(list(LIVE))
    said = {name: getattr(FULL, name) for name in LIVE.names}
    (row,) = record_batch([{"live": said}], ENTRIES).to_pylist()
    assert live_table(FULL.id, row["live"]) == FULL
