"""Writes that a busy service refuses, and that are sent again: what others made meanwhile stays."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from reconciler.backends.unity import UnityBackend
from reconciler.model.errors import InternalError, NotLanceTableError
from tests.servers.scripted import Answer, Scripted

API = "/api/2.1/unity-catalog"
BUSY = Answer({"error_code": "REQUEST_LIMIT_EXCEEDED"}, 429, {"Retry-After": "0"})
LANCE = {"table_type": "lance"}


def test_a_table_that_another_made_before_the_next_try_stays(script: Scripted) -> None:
    """The service deletes the data of a managed one."""
    ours = {"name": "t", "table_id": "1", "table_type": "EXTERNAL", "storage_location": "s3://a/t", "properties": LANCE}
    theirs = {"name": "t", "table_id": "2", "table_type": "MANAGED"}
    script.routes[f"GET {API}/tables/c.s.t"] = [Answer(ours), Answer(theirs)]
    script.routes[f"DELETE {API}/tables/c.s.t"] = [BUSY, Answer({})]
    with closing(UnityBackend(endpoint=script.url, catalog="c")) as backend, pytest.raises(NotLanceTableError):
        backend.remove_table(("c", "s", "t"))
    assert script.paths().count(f"DELETE {API}/tables/c.s.t") == 1


def test_a_new_entry_without_a_location_is_an_error(script: Scripted, tmp_path: Path) -> None:
    """Nothing may be written to the location in force, which there is none of."""
    nowhere = {"name": "t", "table_id": "1", "table_type": "EXTERNAL", "properties": LANCE}
    script.routes |= {f"POST {API}/tables": Answer(nowhere), f"GET {API}/tables/c.s.t": Answer(nowhere)}
    with (
        closing(UnityBackend(endpoint=script.url, catalog="c")) as backend,
        pytest.raises(InternalError, match=r"`c\$s\$t` has no storage_location"),
    ):
        backend.insert_table(("c", "s", "t"), tmp_path.as_uri(), {})
