"""LanceDB and pylance, in this process on a catalog, or through ``lancens serve``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any

import lance
import lance_namespace
import lancedb
import pyarrow as pa
from lance_namespace import (
    CreateNamespaceRequest,
    DeregisterTableRequest,
    DropTableRequest,
    ListTablesRequest,
)

from reconciler.model.names import Identifier
from tests.clients.walk import Refused

__all__ = ["LanceDb", "Pylance"]

_DATASET: Any = lance.dataset
_WRITE: Any = lance.write_dataset
_CLIENT = "namespace_client" if "namespace_client" in signature(_DATASET).parameters else "namespace"
"""What pylance calls a namespace; up to version 1 it was ``namespace``."""


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {error}") from error


def _rows(ids: Sequence[int]) -> pa.Table:
    vectors = pa.array([[float(one), 0.0] for one in ids], pa.list_(pa.float32(), 2))
    return pa.table({"id": pa.array(ids, pa.int64()), "vector": vectors})


class LanceDb:
    """LanceDB over the Lance namespace of this name and configuration."""

    def __init__(self, impl: str, config: Mapping[str, str]) -> None:
        self._db: Any = lancedb.connect_namespace(impl, dict(config))

    def create_namespace(self, namespace: Identifier) -> None:
        self._db.create_namespace(list(namespace))

    @_refusals()
    def create(self, table: Identifier, ids: Sequence[int]) -> None:
        self._db.create_table(table[-1], _rows(ids), namespace_path=list(table[:-1]))

    def _open(self, table: Identifier) -> Any:
        return self._db.open_table(table[-1], namespace_path=list(table[:-1]))

    def comments(self, table: Identifier) -> dict[str, str]:
        """Return the comment of each column that has one."""
        found = ((field.name, (field.metadata or {}).get(b"comment")) for field in self._open(table).schema)
        return {name: text.decode() for name, text in found if text is not None}

    @_refusals()
    def ids(self, table: Identifier) -> list[int]:
        return sorted(self._open(table).to_arrow().column("id").to_pylist())

    @_refusals()
    def append(self, table: Identifier, ids: Sequence[int]) -> None:
        self._open(table).add(_rows(ids))

    @_refusals()
    def overwrite(self, table: Identifier, ids: Sequence[int]) -> None:
        self._db.create_table(table[-1], _rows(ids), mode="overwrite", namespace_path=list(table[:-1]))

    @_refusals()
    def search(self, table: Identifier, wanted: int) -> int:
        return int(self._open(table).search([float(wanted), 0.0]).limit(1).to_list()[0]["id"])

    @_refusals()
    def tables(self, namespace: Identifier) -> list[str]:
        names: list[str] = self._db.list_tables(namespace_path=list(namespace)).tables
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            assert sorted(self._db.table_names(namespace_path=list(namespace))) == sorted(names)
        return names

    @_refusals()
    def create_from_query(self, table: Identifier, source: Identifier, wanted: int) -> None:
        rows = self._open(source).search().where(f"id = {wanted}").to_arrow()
        self._db.create_table(table[-1], rows, namespace_path=list(table[:-1]))

    @_refusals()
    def rename(self, table: Identifier, name: str) -> None:
        above = list(table[:-1])
        self._db.rename_table(table[-1], name, cur_namespace_path=above, new_namespace_path=above)

    @_refusals()
    def drop(self, table: Identifier) -> None:
        self._db.drop_table(table[-1], namespace_path=list(table[:-1]))

    def instead_of_drop(self, table: Identifier) -> None:
        self._db.namespace_client().deregister_table(DeregisterTableRequest(id=list(table)))


class Pylance:
    """pylance's ``namespace_client=`` with the Lance namespace of this name and configuration."""

    def __init__(self, impl: str, config: Mapping[str, str]) -> None:
        self._namespace = lance_namespace.connect(impl, dict(config))

    def create_namespace(self, namespace: Identifier) -> None:
        self._namespace.create_namespace(CreateNamespaceRequest(id=list(namespace)))

    def _write(self, table: Identifier, rows: pa.Table, mode: str) -> None:
        _WRITE(rows, **{_CLIENT: self._namespace}, table_id=list(table), mode=mode)

    def _open(self, table: Identifier) -> Any:
        return _DATASET(**{_CLIENT: self._namespace}, table_id=list(table))

    @_refusals()
    def create(self, table: Identifier, ids: Sequence[int]) -> None:
        self._write(table, _rows(ids), "create")

    @_refusals()
    def ids(self, table: Identifier) -> list[int]:
        return sorted(self._open(table).to_table().column("id").to_pylist())

    @_refusals()
    def append(self, table: Identifier, ids: Sequence[int]) -> None:
        self._write(table, _rows(ids), "append")

    @_refusals()
    def overwrite(self, table: Identifier, ids: Sequence[int]) -> None:
        self._write(table, _rows(ids), "overwrite")

    @_refusals()
    def search(self, table: Identifier, wanted: int) -> int:
        nearest = {"column": "vector", "q": [float(wanted), 0.0], "k": 1}
        return int(self._open(table).to_table(nearest=nearest).column("id")[0].as_py())

    @_refusals()
    def tables(self, namespace: Identifier) -> list[str]:
        return list(self._namespace.list_tables(ListTablesRequest(id=list(namespace))).tables)

    @_refusals()
    def create_from_query(self, table: Identifier, source: Identifier, wanted: int) -> None:
        self._write(table, self._open(source).to_table(filter=f"id = {wanted}"), "create")

    @_refusals()
    def rename(self, table: Identifier, name: str) -> None:
        self._namespace.rename_table(lance_namespace.RenameTableRequest(id=list(table), new_table_name=name))

    @_refusals()
    def drop(self, table: Identifier) -> None:
        self._namespace.drop_table(DropTableRequest(id=list(table)))

    def instead_of_drop(self, table: Identifier) -> None:
        self._namespace.deregister_table(DeregisterTableRequest(id=list(table)))
