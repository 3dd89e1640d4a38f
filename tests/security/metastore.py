"""A small Hive metastore with wrong answers: valid Thrift with odd content, and invalid Thrift."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from tests.security.corpus import mutated, mutated_json
from tests.security.hostile import EVIL_NAME
from tests.servers.listening import socket_server

__all__ = ["spoiled_metastore"]

_MOST_CALLS = 500
_NUMBERS = {3: 8, 6: 16, 8: 32, 10: 64}
"""The bits of Thrift's types of integers."""
_BOOL, _TEXT, _STRUCT, _MAP, _LISTS = 2, 11, 12, 13, (14, 15)


class _Answers:
    """Says what databases and tables there are; one answer in nine is another one than it should be."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def _said(self, sound: Any) -> Any:
        """Return what is said instead of ``sound``.

        Raises:
            TException: nothing is said, but that there is no such thing.
        """
        from reconciler.backends.hive.gen.ttypes import InvalidOperationException, MetaException, NoSuchObjectException

        match self._dice.randrange(60):
            case 0:
                error: Any = self._dice.choice([InvalidOperationException, MetaException, NoSuchObjectException])
                raise error(self._dice.choice(["", EVIL_NAME, "x" * 10_000, "\n::error::x"]))
            case 1 | 2 | 3 | 4 | 5 | 6:
                return mutated_json(self._dice, sound)
        return sound

    def _names(self, *names: str) -> Any:
        return _fitting(_LISTS[1], (_TEXT, None), self._said(list(names)))

    def get_databases(self, pattern: str) -> Any:
        return self._names("a", "default")

    def get_catalogs(self) -> Any:
        from reconciler.backends.hive.gen.ttypes import GetCatalogsResponse

        return GetCatalogsResponse(self._names("hive", "c"))

    def get_catalog(self, asked: Any) -> Any:
        from reconciler.backends.hive.gen.ttypes import Catalog, GetCatalogResponse

        catalog = {"name": asked.name, "locationUri": "file:/lake/c", "description": "made by hand", "createTime": 1}
        return GetCatalogResponse(_struct(Catalog, self._said(catalog)))

    def get_database(self, name: str) -> Any:
        from reconciler.backends.hive.gen.ttypes import Database

        plain = name.rpartition("#")[2]
        database = {"name": plain, "description": "", "locationUri": f"file:/lake/{plain}", "parameters": {"k": "v"}}
        return _struct(Database, self._said({**database, "catalogName": "c", "ownerName": "me"}))

    def get_all_tables(self, database: str) -> Any:
        return self._names("t", "u", "view")

    def get_functions(self, database: str, pattern: str) -> Any:
        return self._names()

    def get_table_meta(self, databases: str, tables: str, types: Any) -> Any:
        return []

    def get_table_names_by_filter(self, database: str, text: str, most: int) -> Any:
        return self._names("t", "u")

    def get_table_objects_by_name_req(self, asked: Any) -> Any:
        from reconciler.backends.hive.gen.ttypes import GetTablesResult, Table

        tables = [
            {
                "tableName": name,
                "dbName": asked.dbName,
                "owner": "me",
                "createTime": 1,
                "tableType": "EXTERNAL_TABLE",
                "parameters": {"EXTERNAL": "TRUE", "table_type": "lance", "tier": "gold", "lancens.keys": '["tier"]'},
                "sd": {
                    "cols": [{"name": "id", "type": "bigint", "comment": "the key"}],
                    "location": f"file:/lake/{name}.lance",
                    "serdeInfo": {"name": "x", "parameters": {}},
                },
            }
            for name in asked.tblNames or []
        ]
        said = self._said(tables)
        return GetTablesResult([_struct(Table, table) for table in said if isinstance(said, list)])


def _struct(kind: type[Any], said: Any) -> Any:
    """Return a struct of Thrift's with what of ``said`` has a place in it."""
    fields = said if isinstance(said, Mapping) else {}
    given = {
        name: _fitting(kind_of, more, fields[name])
        for _, kind_of, name, more, _ in filter(None, getattr(kind, "thrift_spec", ()))
        if fields.get(name) is not None
    }
    return kind(**given)


def _fitting(kind: int, more: Any, said: Any) -> Any:
    """Return ``said`` as a value of a type of Thrift's, whatever it is."""
    if kind == _TEXT:
        text = said if isinstance(said, str) else json.dumps(said)
        return text.encode("utf-8", "replace").decode()
    if kind == _BOOL:
        return bool(said)
    if kind in _NUMBERS:
        half = 1 << (_NUMBERS[kind] - 1)
        return max(-half, min(half - 1, said)) if isinstance(said, int) else -half
    if kind == _STRUCT:
        return _struct(more[0], said)
    if kind == _MAP:
        entries = said.items() if isinstance(said, Mapping) else ()
        return {_fitting(more[0], more[1], key): _fitting(more[2], more[3], value) for key, value in entries}
    return [_fitting(more[0], more[1], one) for one in (said if isinstance(said, list) else [said])]


@contextmanager
def spoiled_metastore(dice: random.Random) -> Iterator[tuple[int, list[bytes]]]:
    """Run the metastore; yields its port and what it said since the list was last emptied."""
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.Thrift import TException
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport, TMemoryBuffer

    from reconciler.backends.hive.gen.ThriftHiveMetastore import Processor

    said: list[bytes] = []
    processor = Processor(_Answers(dice))

    def one(connection: socket.socket) -> None:
        carrier = TSocket()
        carrier.setHandle(connection)
        asked = TBinaryProtocol(TBufferedTransport(carrier))
        with suppress(EOFError, TException):
            while len(said) < _MOST_CALLS:
                answer = TMemoryBuffer()
                processor.process(asked, TBinaryProtocol(answer))
                reply = answer.getvalue()
                if not dice.randrange(30):
                    reply = mutated(dice, reply)
                said.append(reply)
                connection.sendall(reply)
                if not dice.randrange(40):
                    return

    with socket_server(one) as port:
        yield port, said
