"""Answers to the planner's questions, from storage and the catalogs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from reconciler import storage
from reconciler.model import locations, ownership
from reconciler.model.columns import Schema, ShownColumns
from reconciler.model.concurrency import in_parallel
from reconciler.model.desired import DesiredNamespace, DesiredTable, Evolve
from reconciler.model.errors import InvalidInputError, NamespaceNotFoundError, SelectionError, TableNotFoundError
from reconciler.model.live import ForeignTable, LiveTable, Storage, StorageKind
from reconciler.model.names import Identifier, Scope, folded
from reconciler.planner.entries import Change
from reconciler.planner.facts import (
    Answers,
    CatalogInput,
    EntryColumns,
    LiveTables,
    Questions,
    StorageQuestion,
    Stored,
    TableFacts,
)
from reconciler.planner.schemas import planned
from reconciler.planner.stored import schema_difference

if TYPE_CHECKING:
    from reconciler.backends.base import Backend
    from reconciler.operations.connections import Connection


_NO_DATA = (StorageKind.NOTHING, StorageKind.NOT_LANCE)
_NOT_LOOKED_AT = Storage(StorageKind.UNKNOWN)


def answers_to(
    questions: Questions,
    backend: Backend,
    spaces: Collection[Identifier],
    written: Mapping[Identifier, Storage],
    parallelism: int,
) -> Answers:
    """Return the answers of storage and of the catalog.

    Args:
        questions: those of some tables.
        backend: the catalog.
        spaces: its live namespaces.
        written: what a mirror's source will have written by then; those locations are not opened.
        parallelism: how many requests and storage probes run at once.

    Raises:
        BackendError: the catalog could not tell where a table goes, or what has its name.
    """
    tables = ask_storage(backend, questions.storage, parallelism, written) if questions.storage else {}
    return Answers(tables, ask_held(backend, questions.names, spaces, parallelism) if questions.names else {})


def ask_storage(
    backend: Backend,
    questions: Iterable[StorageQuestion],
    parallelism: int,
    written: Mapping[Identifier, Storage],
) -> Mapping[Identifier, TableFacts]:
    """Return what storage holds for each table in question.

    ``written`` tells what a mirror's source will have written by then; those locations are not opened.

    Raises:
        BackendError: the catalog could not tell the default location of a table.
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
    # A service that places tables creates a new, empty location.
    otherwise = Storage(StorageKind.NOTHING) if backend.capabilities().places_tables else _NOT_LOOKED_AT
    facts = {
        identifier: TableFacts(
            place,
            found[place] if place in found and identifier in probed else written.get(identifier, otherwise),
            problem_of(backend, question, place),
        )
        for question in asked
        for identifier, place in ((question.table.id, places[question.table.id]),)
    }
    facts |= _look_again(backend, asking, facts, parallelism)
    stale = _stale_columns(backend, asked, facts)
    return {identifier: replace(one, entry=stale.get(identifier)) for identifier, one in facts.items()}


def _look_at(
    backend: Backend, places: Iterable[tuple[str | None, LiveTable | None]], parallelism: int
) -> dict[str, Storage]:
    """Return what each place holds, opened with credentials of a table there.

    Raises:
        BackendError: the catalog could not hand out credentials.
    """
    live_at = {place: live for place, live in places if place is not None}

    def look(place: str) -> Storage:
        return storage.probe(place, _options(backend, place, live_at[place]))

    return dict(zip(live_at, in_parallel(look, live_at, parallelism), strict=True))


def _options(backend: Backend, place: str, live: LiveTable | None) -> Mapping[str, str]:
    """Return the options to open a place with, those of the table there if it is in force."""
    in_force = live is not None and live.location == place
    return backend.table_storage_options(live) if live and in_force else backend.storage_options()


def _look_again(
    backend: Backend, asked: Iterable[StorageQuestion], facts: Mapping[Identifier, TableFacts], parallelism: int
) -> dict[Identifier, TableFacts]:
    """Return the facts of the datasets whose tags are in question, or that are to gain columns.

    They have the tags, and as the detail of their storage why apply would refuse the columns.
    """

    def look(question: StorageQuestion) -> TableFacts:
        known = facts[question.table.id]
        place = known.location or ""
        options = _options(backend, place, question.live)
        if question.table.tags or question.recorded_tags:
            tags = storage.find_tags(place, options, question.table.tags, question.recorded_tags)
            if isinstance(tags, Storage):
                return replace(known, storage=tags)
            known = replace(known, tags=tags)
        problem = storage.addition_problem(place, columns, options) if (columns := _added(question, known)) else ""
        return replace(known, storage=replace(known.storage, detail=problem)) if problem else known

    again = [
        question
        for question in asked
        if facts[question.table.id].storage.kind is StorageKind.DATASET
        and (question.table.tags or question.recorded_tags or _added(question, facts[question.table.id]))
    ]
    looked = in_parallel(look, again, parallelism)
    return {question.table.id: known for question, known in zip(again, looked, strict=True)}


def _added(question: StorageQuestion, known: TableFacts) -> Schema:
    """Return the columns that apply would add to the data of a table."""
    is_growing = question.table.evolve is Evolve.ADDITIVE and question.in_force is not None
    return schema_difference(question.table, known).missing if is_growing else ()


def _stale_columns(
    backend: Backend, asked: Iterable[StorageQuestion], facts: Mapping[Identifier, TableFacts]
) -> Mapping[Identifier, EntryColumns]:
    """Return shown and wanted columns of entries that show outdated ones."""
    to_show: dict[Identifier, tuple[Identifier, Schema, ShownColumns]] = {}
    for question in asked:
        live, schema = question.live, planned(question.table, facts[question.table.id].storage)
        columns = backend.columns_to_show(schema) if schema and live is not None else None
        if schema and columns is not None and live is not None:
            to_show[live.id] = question.table.id, schema, columns
    shown = backend.shown_columns(to_show) if to_show else {}
    both = {
        identifier: EntryColumns(shown[entry], _keeping_comments(schema, columns, shown[entry]))
        for entry, (identifier, schema, columns) in to_show.items()
        if entry in shown
    }
    return {identifier: columns for identifier, columns in both.items() if columns}


def _keeping_comments(schema: Schema, columns: ShownColumns, shown: ShownColumns) -> ShownColumns:
    """Return ``columns``, those that are renamed with the comments that an entry shows of them."""
    comments = {column.name.casefold(): column.comment for column in shown}
    origins = ((field.renamed_from or "").casefold() for field in schema)
    return tuple(
        replace(column, comment=column.comment or comments.get(origin))
        for column, origin in zip(columns, origins, strict=True)
    )


def problem_of(backend: Backend, question: StorageQuestion, place: str | None) -> str | None:
    """Return why the catalog rejects the table at ``place``; None if it does not."""
    if place is None or place == question.in_force:
        return None
    return backend.location_problem(question.table.id, place)


def ask_places(
    backend: Backend, questions: Iterable[StorageQuestion], parallelism: int
) -> Mapping[Identifier, str | None]:
    """Return the present or future location of each table, None if unknown.

    Raises:
        BackendError: the catalog could not tell the default location of a table.
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
) -> dict[Identifier, str]:
    """Describe the tables of other formats that have one of ``names``.

    Only the namespaces ``spaces`` are read.

    Raises:
        BackendError: the catalog could not be read.
    """
    asked: defaultdict[Identifier, set[str]] = defaultdict(set)
    for name in names:
        if len(name) == 1 or name[:-1] in spaces:
            asked[name[:-1]].add(name[-1])

    def held_in(space: Identifier) -> Sequence[ForeignTable]:
        try:
            return backend.foreign_tables(space, asked[space])
        except NamespaceNotFoundError:
            return ()

    found = in_parallel(held_in, sorted(asked), parallelism)
    return {table.id: _described(table) for tables in found for table in tables}


def _described(table: ForeignTable) -> str:
    return table.format if table.location is None else f"{table.format}, at {locations.redact(table.location)}"


def links_to(wanted: Iterable[str | None], live: Iterable[LiveTable]) -> Mapping[str, str]:
    """Return where symbolic links lead local locations (see ``Facts.places``).

    Live tables are looked at only if a new one is local.
    """
    here = [location for location in wanted if location is not None and storage.local_path(location) is not None]
    return storage.real_places(chain(here, (table.location for table in live))) if here else {}


def names_kept(
    backend: Backend, missing: Iterable[DesiredNamespace | DesiredTable], there: Iterable[Identifier]
) -> Mapping[Identifier, Identifier]:
    """Return the spelling that the service keeps for names a mirror asks for.

    Asked are the ``missing`` names, not found by a scan, that differ from one in ``there`` by case only.

    Raises:
        InvalidInputError: blocks of the manifest have such names; the message tells what to write.
        BackendError: the catalog could not be read.
    """
    asked = [] if backend.capabilities().folds_case else list(missing)
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
    """Return whether the service finds an object by a name that it does not list."""
    try:
        if isinstance(block, DesiredTable):
            backend.load_table(block.id)
        else:
            backend.load_namespace(block.id)
    except (NamespaceNotFoundError, TableNotFoundError):
        return False
    except InvalidInputError:  # found, under another name
        return True
    return True


def ask_occupants(
    backend: Backend, source: CatalogInput, drops: Iterable[Change], parallelism: int
) -> Mapping[Identifier, Sequence[str]]:
    """Return the foreign and out-of-scope objects in the namespaces of ``drops``.

    Raises:
        BackendError: the catalog could not be read.
    """
    candidates = [change.identifier for change in drops]
    names = in_parallel(lambda identifier: _occupants(backend, source, identifier), candidates, parallelism)
    return dict(zip(candidates, names, strict=True))


def _occupants(backend: Backend, source: CatalogInput, identifier: Identifier) -> tuple[str, ...]:
    names = list(backend.foreign_objects(identifier))
    scope = source.desired.scope
    if not scope.is_everything:
        names += [name for name in backend.child_tables(identifier) if not scope.contains((*identifier, name))]
        known = source.live.namespaces
        names += [name for name in backend.child_namespaces(identifier) if (*identifier, name) not in known]
    return tuple(names)


def check_selection(select: Sequence[str], catalogs: Collection[tuple[CatalogInput, LiveTables]]) -> None:
    """Raise if a glob of ``select`` matches nothing.

    Raises:
        SelectionError: one matches no namespace and no table, wanted or live.
    """
    for pattern in select:
        scope = Scope((pattern,))
        if not any(_selects(scope.below(source.desired.name), source, tables) for source, tables in catalogs):
            hint = "" if "/" in pattern else f"; a glob begins with the catalog: CATALOG/{pattern}"
            raise SelectionError(f"`{pattern}` matches no namespace and no table, in the manifest or live{hint}")


def _selects(scope: Scope, source: CatalogInput, tables: LiveTables) -> bool:
    if source.capabilities.folds_case:
        scope = scope.folded()
    if not scope.patterns:
        return False
    desired = source.desired
    named = chain(desired.namespaces, desired.tables, source.live.namespaces)
    return any(map(scope.contains, named)) or tables.any_in(scope)


def find_stored(
    connection: Connection,
    names: Mapping[Identifier, Identifier | None],
    others: Iterable[Connection],
    parallelism: int,
) -> Stored:
    """Return where data of new tables may be, other than at their default locations.

    Candidates are the default location of a table's former name, directories of the root with one of its names, and
    its location in a mirror of this catalog.

    Args:
        connection: the catalog.
        names: the tables, each with the name that it had before, if any.
        others: all catalogs that are connected.
        parallelism: how many locations are looked at once.

    Raises:
        BackendError: a directory could not be listed.
        CatalogError: a mirror could not be read.
    """
    backend = connection.backend
    named: defaultdict[Identifier, list[str]] = defaultdict(list)
    options = backend.storage_options()
    for root in map(storage.as_plain_path, backend.roots()) if names and backend.is_its_root else ():
        for place in storage.look_into(root, options).below:
            named[tuple(backend.identifier_at([place.rpartition("/")[2]]))].append(place)
    for name, place in _in_mirrors(connection.spec.name, names, others) if names else ():
        named[name].append(place)
    asked: dict[Identifier, list[str]] = {}
    for name, former in names.items():
        default = _default_of(backend, former) if former is not None else None
        places = [*([default] if default else ()), *named.get(former or (), ()), *named.get(name, ())]
        if places:
            own = _default_of(backend, name)
            asked[name] = [place for place in dict.fromkeys(places) if not locations.same(place, own)]
    looked_at = list(dict.fromkeys(chain.from_iterable(asked.values())))
    probed = in_parallel(lambda place: storage.probe(place, options).kind, looked_at, parallelism)
    kinds = dict(zip(looked_at, probed, strict=True))
    found = {name: [place for place in places if kinds[place] not in _NO_DATA] for name, places in asked.items()}
    return {name: places for name, places in found.items() if places}


def _in_mirrors(
    catalog: str, names: Mapping[Identifier, Identifier | None], others: Iterable[Connection]
) -> Iterator[tuple[Identifier, str]]:
    """Yield the locations of tables with new or former names in mirrors of a catalog."""
    for other in others:
        mirror, backend = other.desired.mirror, other.backend
        if mirror is None or mirror.origin != catalog:
            continue
        shown = {
            tuple(backend.capabilities().folded(part) for part in mirror.name_of(name)): name
            for name in chain(names, filter(None, names.values()))
        }
        with other.spec.errors():
            for parent in sorted({name[:-1] for name in shown}):
                there: set[Identifier] = set()
                with suppress(NamespaceNotFoundError):
                    there.update((*parent, name) for name in backend.candidate_tables(parent))
                for name in sorted(shown.keys() & there):
                    with suppress(TableNotFoundError):
                        table = backend.load_table(name)
                        if ownership.mirror_of(table.properties) == catalog:
                            yield shown[name], table.location


def _default_of(backend: Backend, name: Identifier) -> str | None:
    try:
        return backend.default_location(name)
    except NamespaceNotFoundError:  # the default depends on a namespace that is gone as well
        return None
