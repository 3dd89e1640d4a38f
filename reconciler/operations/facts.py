"""The planner's questions, answered by storage and by the catalogs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from reconciler import storage
from reconciler.backends import optional
from reconciler.model import locations
from reconciler.model.columns import Schema, ShownColumns
from reconciler.model.concurrency import in_parallel
from reconciler.model.desired import DesiredCatalog, DesiredNamespace, DesiredTable
from reconciler.model.errors import (
    InvalidInputError,
    NamespaceNotFoundError,
    SelectionError,
    TableNotFoundError,
)
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, Snapshot, Storage, StorageKind
from reconciler.model.names import Identifier, Scope, folded
from reconciler.planner.entries import Change
from reconciler.planner.facts import CatalogInput, EntryColumns, LiveTables, StorageQuestion, TableFacts
from reconciler.planner.schemas import planned

if TYPE_CHECKING:
    from reconciler.backends.base import Backend


_NOT_LOOKED_AT = Storage(StorageKind.UNKNOWN)
_NOTHING_WRITTEN: Mapping[Identifier, Storage] = {}


def ask_storage(
    backend: Backend,
    questions: Iterable[StorageQuestion],
    parallelism: int,
    written: Mapping[Identifier, Storage] = _NOTHING_WRITTEN,
) -> Mapping[Identifier, TableFacts]:
    """Return what storage holds for each table in question, where it is or would be.

    ``written`` is what it will hold for some of them, by the plan of the catalog that they follow; they are not opened.

    Raises:
        BackendError: the catalog could not say where a table goes.
    """
    asked = list(questions)
    places = ask_places(backend, asked, parallelism)
    probed = {question.table.id for question in asked if question.table.probe} - written.keys()
    asking = [question for question in asked if question.table.id in probed]
    found = _look_at(backend, ((places[question.table.id], question.live) for question in asking), parallelism)
    elsewhere = {
        question.table.id: question.otherwise
        for question in asking
        if question.otherwise is not None
        and found.get(places[question.table.id] or "", _NOT_LOOKED_AT).kind is StorageKind.NOTHING
    }
    if elsewhere:
        places = {**places, **elsewhere}
        again = ((question.otherwise, question.live) for question in asking if question.table.id in elsewhere)
        found |= _look_at(backend, again, parallelism)
    # A service makes a new place for a table that names none.
    otherwise = Storage(StorageKind.NOTHING) if backend.capabilities.places_tables else _NOT_LOOKED_AT
    facts = {
        identifier: TableFacts(
            place,
            found[place] if place in found and identifier in probed else written.get(identifier, otherwise),
            problem_of(backend, question, place),
        )
        for question in asked
        for identifier, place in ((question.table.id, places[question.table.id]),)
    }
    stale = _stale_columns(backend, asked, facts)
    return {identifier: replace(one, entry=stale.get(identifier)) for identifier, one in facts.items()}


def _look_at(
    backend: Backend, places: Iterable[tuple[str | None, LiveTable | None]], parallelism: int
) -> dict[str, Storage]:
    """Return what each place holds, with what the catalog gives for opening it where it is that of the live table.

    Raises:
        BackendError: the catalog was asked for credentials and could not answer.
    """
    live_at = {place: live for place, live in places if place is not None}

    def look(place: str) -> Storage:
        live = live_at[place]
        in_force = live is not None and live.location == place
        options = optional.table_storage_options(backend, live) if live and in_force else backend.storage_options()
        return storage.probe(place, options)

    return dict(zip(live_at, in_parallel(look, live_at, parallelism), strict=True))


def _stale_columns(
    backend: Backend, asked: Iterable[StorageQuestion], facts: Mapping[Identifier, TableFacts]
) -> Mapping[Identifier, EntryColumns]:
    """Return, for the tables in question whose entry shows other columns than their data is to have, both."""
    to_show: dict[Identifier, tuple[Identifier, ShownColumns]] = {}
    for question in asked:
        schema = planned(question.table, facts[question.table.id].storage)
        columns = optional.columns_to_show(backend, schema) if schema and question.entry is not None else None
        if columns is not None and question.entry is not None:
            to_show[question.entry] = question.table.id, columns
    shown = optional.shown_columns(backend, to_show) if to_show else {}
    both = {to_show[entry][0]: EntryColumns(columns, to_show[entry][1]) for entry, columns in shown.items()}
    return {identifier: columns for identifier, columns in both.items() if columns}


def problem_of(backend: Backend, question: StorageQuestion, place: str | None) -> str | None:
    """Return why the catalog does not take the table in question at ``place``; None where it does, or has it there."""
    if place is None or place == question.in_force:
        return None
    return optional.location_problem(backend, question.table.id, place)


def ask_places(
    backend: Backend, questions: Iterable[StorageQuestion], parallelism: int
) -> Mapping[Identifier, str | None]:
    """Return where each table in question is or would be; None where nothing says it.

    Raises:
        BackendError: the catalog could not say where a table goes.
    """
    return dict(
        in_parallel(
            lambda question: (question.table.id, question.location or backend.default_location(question.table.id)),
            questions,
            parallelism,
        )
    )


def ask_held(
    backend: Backend, names: Iterable[Identifier], spaces: Collection[Identifier], parallelism: int
) -> Mapping[Identifier, str]:
    """Return what has one of ``names`` in the catalog and is no Lance table, in words.

    ``spaces`` are the namespaces that there are; of others nothing is asked.

    Raises:
        BackendError: the catalog could not say.
    """
    asked: defaultdict[Identifier, set[str]] = defaultdict(set)
    for name in names:
        if len(name) == 1 or name[:-1] in spaces:
            asked[name[:-1]].add(name[-1])

    def held_in(space: Identifier) -> Sequence[ForeignTable]:
        try:
            return optional.foreign_tables(backend, space, asked[space])
        except NamespaceNotFoundError:
            return ()

    found = in_parallel(held_in, sorted(asked), parallelism)
    return {table.id: _in_words(table) for tables in found for table in tables}


def _in_words(table: ForeignTable) -> str:
    return table.format if table.location is None else f"{table.format}, at {locations.redact(table.location)}"


def links_to(wanted: Iterable[str | None], live: Iterable[LiveTable]) -> Mapping[str, str]:
    """Return where symbolic links lead the locations of tables to be made and of live ones (see ``Facts.places``).

    It is looked at on this machine only, and for live tables only where a new one is on it.
    """
    here = [location for location in wanted if location is not None and storage.local_path(location) is not None]
    return storage.real_places(chain(here, (table.location for table in live))) if here else {}


def schemas_to_show(questions: Iterable[StorageQuestion], found: Mapping[Identifier, TableFacts]) -> Iterator[Schema]:
    """Yield the columns that the catalog will be told of: those of the tables that have no entry yet."""
    for question in questions:
        schema = question.table.schema or found[question.table.id].storage.schema
        if schema is not None and question.in_force is None:
            yield schema


def missing_blocks(desired: DesiredCatalog, live: Snapshot) -> Iterator[DesiredNamespace | DesiredTable]:
    """Yield the blocks of what should be there and is not."""
    for namespace in desired.namespaces.values():
        if not namespace.absent and namespace.id not in live.namespaces:
            yield namespace
    for table in desired.tables.values():
        if not table.absent and table.refused is None and table.id not in live.tables:
            yield table


def names_kept(
    backend: Backend, missing: Iterable[DesiredNamespace | DesiredTable], there: Iterable[Identifier]
) -> Mapping[Identifier, Identifier]:
    """Return the names that the service keeps in another form, by those that a mirror asks for.

    It is asked for those of ``missing``, which a scan did not find, that differ from one in ``there`` in capitals only.

    Raises:
        InvalidInputError: the manifest's own blocks have such names; it tells each, and what to write.
        BackendError: the catalog could not be read.
    """
    asked = [] if backend.capabilities.folds_case else list(missing)
    if not asked:
        return {}
    known = {folded(identifier): identifier for identifier in there}
    found: dict[Identifier, Identifier] = {}
    wrong: list[str] = []
    for block in asked:
        kept = known.get(folded(block.id))
        if kept is None or not _answers(backend, block):
            continue
        if block.mirrors is not None if isinstance(block, DesiredTable) else block.mirrored:
            found[block.id] = kept
        else:
            wrong.append(f"`{'/'.join(block.id)}` as `{'/'.join(kept)}` ({block.source})")
    if wrong:
        raise InvalidInputError(
            f"{backend.impl}: the service keeps {', '.join(wrong)}: write the names in the manifest as the service does"
        )
    return found


def _answers(backend: Backend, block: DesiredNamespace | DesiredTable) -> bool:
    """Return whether a name that was not listed is answered to all the same."""
    try:
        if isinstance(block, DesiredTable):
            backend.load_table(block.id)
        else:
            backend.load_namespace(block.id)
    except (NamespaceNotFoundError, TableNotFoundError):
        return False
    except InvalidInputError:  # answered, under another name
        return True
    return True


def ask_occupants(
    backend: Backend, source: CatalogInput, drops: Iterable[Change], parallelism: int
) -> Mapping[Identifier, Sequence[str]]:
    """Return what the namespaces of ``drops`` hold beside what was read.

    That is foreign objects, and what the manifest's scope leaves out.

    Raises:
        BackendError: the catalog could not say.
    """
    candidates = [change.identifier for change in drops]
    names = in_parallel(lambda identifier: _occupants(backend, source, identifier), candidates, parallelism)
    return dict(zip(candidates, names, strict=True))


def _occupants(backend: Backend, source: CatalogInput, identifier: Identifier) -> tuple[str, ...]:
    names = list(optional.foreign_objects(backend, identifier))
    scope = source.desired.scope
    if not scope.is_everything:
        names += [name for name in backend.child_tables(identifier) if not scope.contains((*identifier, name))]
        known = source.live.namespaces
        names += [name for name in backend.child_namespaces(identifier) if (*identifier, name) not in known]
    return tuple(names)


def check_selection(select: Sequence[str], catalogs: Collection[tuple[CatalogInput, LiveTables]]) -> None:
    """Check that each glob of ``select`` matches something.

    Raises:
        SelectionError: one matches no namespace and no table, wanted or live.
    """
    for pattern in select:
        scope = Scope((pattern,))
        if not any(_selects(scope.below(source.desired.name), source, tables) for source, tables in catalogs):
            raise SelectionError(f"--select `{pattern}` matches no namespace and no table, in the manifest or live")


def _selects(scope: Scope, source: CatalogInput, tables: LiveTables) -> bool:
    if source.capabilities.folds_case:
        scope = scope.folded()
    if not scope.patterns:
        return False
    return any(map(scope.contains, _identifiers(source.desired, source.live.namespaces))) or tables.any_in(scope)


def _identifiers(desired: DesiredCatalog, live: Mapping[Identifier, LiveNamespace]) -> Iterator[Identifier]:
    yield from desired.namespaces
    yield from desired.tables
    yield from live
