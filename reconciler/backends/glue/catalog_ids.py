"""Where a database or a catalog stands: ids of catalogs, and the names that lead there.

``ACCOUNT`` is an account's own catalog, ``ACCOUNT:name`` one in it, ``ACCOUNT:parent/child`` one below that.
"""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.model.names import Identifier, check_name, join


@dataclass(frozen=True, slots=True)
class GlueCatalog:
    """A catalog: ``path`` is its identifier in lancens, ``catalog_id`` its id in Glue.

    The root has the empty path. Its id is None where nobody has said which account that is: Glue takes the caller's.
    """

    path: Identifier
    catalog_id: str | None

    @property
    def label(self) -> str:
        """What a person knows the catalog as."""
        if self.path:
            return f"`{join(self.path)}`"
        return f"catalog {self.catalog_id}" if self.catalog_id else "the root catalog"

    def label_of(self, *names: str) -> str:
        """What a person knows a database of the catalog, or a table in one, as."""
        return f"`{join((*self.path, *names))}`"

    @property
    def account(self) -> str | None:
        """The account the catalog belongs to."""
        return self.catalog_id and self.catalog_id.partition(":")[0]

    @property
    def depth(self) -> int:
        """How many levels this one stands below the account's own catalog."""
        return len(_names_in(self.catalog_id))

    def below(self, path: Identifier) -> GlueCatalog:
        """Return the catalog at ``path`` below this one, whose id has to be known."""
        if not path:
            return self
        names = (*_names_in(self.catalog_id), *path)
        return GlueCatalog((*self.path, *path), f"{self.account}:{'/'.join(names)}")

    def found(self, catalog_id: str) -> GlueCatalog:
        """Return the place of ``catalog_id``, which a listing of what is below this catalog answered."""
        return GlueCatalog((*self.path, *_names_in(catalog_id)[self.depth :]), catalog_id)


def _names_in(catalog_id: str | None) -> Identifier:
    return tuple(name for name in (catalog_id or "").partition(":")[2].split("/") if name)


def name_fault(name: str) -> str | None:
    """Return why a live name cannot be part of an identifier here, None when it can.

    Glue answers lower-case names. A service that keeps capitals would be asked for another name than the one meant.
    """
    fault = check_name(name)
    if fault is None and name != name.lower():
        fault = "its name has capitals, which Glue folds"
    return fault
