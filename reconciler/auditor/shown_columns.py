"""The columns that the entries of tables show, asked of the catalogs on the executors and compared with the data's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from reconciler.backends import optional
from reconciler.model.errors import CatalogError
from reconciler.model.names import Identifier
from reconciler.planner.facts import EntryColumns

if TYPE_CHECKING:
    from reconciler.model.columns import Schema
    from reconciler.operations.connections import CatalogSpec


def compared_columns(spec: CatalogSpec, tables: Mapping[Identifier, Schema]) -> Mapping[Identifier, EntryColumns | str]:
    """Return the columns of those ``tables`` whose entries show others than their data has, or why they are not known.

    ``tables`` gives the schema of each one's data; a catalog whose entries show no columns is not to be asked.
    """
    try:
        with spec.connect() as backend:
            shown = optional.shown_columns(backend, tables)
            compared = {
                identifier: EntryColumns(columns, to_show)
                for identifier, columns in shown.items()
                if (to_show := optional.columns_to_show(backend, tables[identifier])) is not None
            }
    except CatalogError as error:
        return dict.fromkeys(tables, str(error))
    return {identifier: columns for identifier, columns in compared.items() if columns}
