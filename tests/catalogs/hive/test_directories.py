"""A directory is made with an entry that the metastore refuses; one that keeps no keys takes it, and drops it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.backends.hive.tables import make_directory
from reconciler.model import locations
from reconciler.model.errors import InvalidInputError
from reconciler.model.names import Identifier
from tests.catalogs.hive.files import digests
from tests.catalogs.hive.raw import entries
from tests.servers.hive import Metastore
from tests.writing import write_dataset

if TYPE_CHECKING:
    from reconciler.backends.hive.gen.ttypes import SQLPrimaryKey, Table
    from reconciler.backends.hive.metastore import Metastore as Calls


def test_one_is_made_with_all_above_it_and_nothing_else(
    server: Metastore, backend: Hive2Backend, database: Identifier, tmp_path: Path
) -> None:
    write_dataset(tmp_path / "there")
    before, files = entries(server.uri), digests(tmp_path)
    for name in ("new/deep", "there"):
        make_directory(backend._metastore, str(tmp_path / name))
        make_directory(backend._metastore, str(tmp_path / name), database)
    assert list((tmp_path / "new" / "deep").iterdir()) == []
    assert entries(server.uri) == before
    assert digests(tmp_path) == files


def test_a_place_that_the_metastore_has_no_library_for_is_refused(backend: Hive2Backend) -> None:
    with pytest.raises(InvalidInputError, match="no library for this kind"):
        make_directory(backend._metastore, "s3://bucket/place")


@dataclass
class _KeepsNoKeys:
    """A service that speaks the protocol and takes the table."""

    tables: dict[str, str] = field(default_factory=dict)
    pointed_at: list[str] = field(default_factory=list)

    def write(self, call: Callable[[Any], object], _what: str) -> object:
        return call(self)

    def create_table_with_constraints(self, table: Table, _keys: list[SQLPrimaryKey], _foreign: list[object]) -> None:
        self.tables[table.tableName] = table.sd.location
        self.pointed_at.append(table.sd.location)

    def drop_table(self, _database: str, name: str, delete_data: bool) -> None:
        assert not delete_data
        del self.tables[name]


def test_a_table_that_is_taken_goes_again_and_pointed_at_nothing() -> None:
    service = _KeepsNoKeys()
    make_directory(cast("Calls", service), "/lake/users")
    assert service.tables == {}
    assert [locations.home_of(place) for place in service.pointed_at] == ["/lake/users"]
    assert locations.is_new_place(service.pointed_at[0].rpartition("/")[2])
