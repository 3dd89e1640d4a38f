"""Answers to the planner's questions, from storage and the catalogs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from reconciler import storage
from reconciler.model import locations, ownership
from reconciler.model.clones import CloneBase, CloneProblem, CloneRefusal
from reconciler.model.columns import Schema, ShownColumns
from reconciler.model.concurrency import in_parallel
from reconciler.model.desired import DesiredCatalog, DesiredNamespace, DesiredTable
from reconciler.model.errors import InvalidInputError, NamespaceNotFoundError, SelectionError, TableNotFoundError
from reconciler.model.live import ForeignTable, LiveTable, Storage, StorageKind
from reconciler.model.names import Identifier, Scope, address, folded, selecting
from reconciler.model.reasons import Params, ReasonCode, Why
from reconciler.model.tags import FoundTags, TagTarget
from reconciler.operations.probes import Probes
from reconciler.planner.clones import followed, followed_base, why_written
from reconciler.planner.entries import Change
from reconciler.planner.facts import (
    Answers,
    CatalogInput,
    EntryColumns,
    LiveTables,
    PossibleLocations,
    Questions,
    StorageQuestion,
    TableFacts,
    is_followed,
)
from reconciler.planner.schemas import planned_columns
from reconciler.planner.stored import schema_difference

if TYPE_CHECKING:
    from reconciler.backends.base import Backend
    from reconciler.operations.connections import Connection


_MOST_MEANT = 3
_NO_DATA = (StorageKind.NOTHING, StorageKind.NOT_LANCE)
_OTHER_STORE = "the clone would be in another object store or bucket"
_REFUSALS = {
    CloneProblem.MISSING_TAG: "it has no tag `{detail}`",
    CloneProblem.MISSING_VERSION: "it has no version {detail} any more",
    CloneProblem.DAMAGED: "its data is damaged: {detail}",
    CloneProblem.FIXED_COLUMNS: "its clone cannot get the columns of its block: {detail}",
    CloneProblem.INSIDE: "the clone would lie at its location, or one would be inside the other",
    CloneProblem.LOCAL_BASE: "its data is on this machine, and the clone would be in an object store",
    CloneProblem.BLOBS: "its column `{detail}` holds blobs of the first format, which pylance does not find in a clone",
    CloneProblem.OTHER_STORE: f"{_OTHER_STORE}, where none can be written: {{detail}}",
    CloneProblem.STABLE_ROW_IDS: f"{_OTHER_STORE}, which loses its stable row ids",
    CloneProblem.OLD_INDEX: f"{_OTHER_STORE}, where pylance loses its index `{{detail}}`",
    CloneProblem.UNCOUNTED: f"{_OTHER_STORE}, which needs the number of rows of each fragment",
    CloneProblem.UNKNOWN_FEATURES: f"{_OTHER_STORE}, which loses its features {{detail}}",
}
_OTHER_STORES = {
    CloneProblem.LOCAL_BASE,
    CloneProblem.OTHER_STORE,
    CloneProblem.STABLE_ROW_IDS,
    CloneProblem.OLD_INDEX,
    CloneProblem.UNCOUNTED,
    CloneProblem.UNKNOWN_FEATURES,
}
_NOT_PROBED = Storage(StorageKind.UNKNOWN)


def answers_to(
    questions: Questions,
    backend: Backend,
    spaces: Collection[Identifier],
    planned_data: Mapping[Identifier, Storage],
    parallelism: int,
    probes: Probes,
) -> Answers:
    """Return the answers of storage and of the catalog.

    Args:
        questions: those of some tables.
        backend: the catalog.
        spaces: its live namespaces.
        planned_data: what the plan of a mirror's source writes, by mirrored table; not opened.
        parallelism: how many requests and storage probes run at once.
        probes: the storage probes of the plan.

    Raises:
        BackendError: the catalog could not tell where a table goes, or what has its name.
    """
    tables = ask_storage(backend, questions.storage, parallelism, planned_data, probes) if questions.storage else {}
    return Answers(tables, ask_name_holders(backend, questions.names, spaces, parallelism) if questions.names else {})


def ask_storage(
    backend: Backend,
    questions: Iterable[StorageQuestion],
    parallelism: int,
    planned_data: Mapping[Identifier, Storage],
    probes: Probes,
) -> Mapping[Identifier, TableFacts]:
    """Return what storage holds for each table in question.

    ``planned_data`` is what the plan of a mirror's source writes, by mirrored table; those locations are not opened.
    ``probes`` are those of the plan.

    Raises:
        BackendError: the catalog could not tell the default location of a table, or hand out credentials.
    """
    questions = list(questions)
    table_locations = ask_locations(backend, questions, parallelism)
    to_probe = [question for question in questions if question.table.probe and question.table.id not in planned_data]
    data = _probe_all(probes, backend, to_probe, table_locations, parallelism)
    elsewhere = {
        question.table.id: question.otherwise
        for question in to_probe
        if question.otherwise is not None and data[question.table.id].storage.kind is StorageKind.NOTHING
    }
    if elsewhere:
        table_locations = {**table_locations, **elsewhere}
        again = [question for question in to_probe if question.table.id in elsewhere]
        data |= _probe_all(probes, backend, again, table_locations, parallelism)
    # A service that places tables creates a new, empty location.
    otherwise = Storage(StorageKind.NOTHING) if backend.capabilities().places_tables else _NOT_PROBED
    facts: dict[Identifier, TableFacts] = {}
    for question in questions:
        identifier = question.table.id
        location = table_locations[identifier]
        content = data.get(identifier) or storage.TableContent(planned_data.get(identifier, otherwise))
        stored = replace(content.storage, detail=content.problem) if content.problem else content.storage
        facts[identifier] = TableFacts(location, stored, problem_of(backend, question, location), tags=content.tags)
    clones = [question for question in questions if question.table.clones is not None and question.table.probe]
    facts |= in_parallel(lambda question: _with_clone(backend, question, facts[question.table.id]), clones, parallelism)
    stale = _stale_columns(backend, questions, facts)
    return {**facts, **{identifier: replace(facts[identifier], entry=entry) for identifier, entry in stale.items()}}


def _with_clone(backend: Backend, question: StorageQuestion, facts: TableFacts) -> tuple[Identifier, TableFacts]:
    """Return the facts about a table that is to be a clone: what is there, and for a new one the version to clone."""
    table, location, found = question.table, facts.location, None
    if location is not None and facts.storage.kind is StorageKind.DATASET:
        found = storage.find_clone(location, _storage_options(backend, location, question.live))
    if isinstance(found, storage.FoundClone):
        facts = replace(facts, clone=found.base, is_begun=not found.is_finished, written=found.written)
    if location is None or not (question.live is None or is_followed(table, question.live)):
        return table.id, facts
    facts = replace(facts, base=_read_base(backend, table, location, facts.clone))
    base = facts.base
    if question.live is not None:
        base = followed_base(table, question.live, facts)
        why = _why_written(backend, table, question.live, facts, base) if isinstance(base, CloneBase) else None
        if why is not None:
            return table.id, replace(facts, base=why)
    is_new = question.live is not None or facts.storage.kind is StorageKind.NOTHING
    if isinstance(base, CloneBase) and is_new:
        facts = replace(facts, tags=_tags_of_new_clone(backend, table, base, location) if table.tags else None)
    return table.id, facts


def _why_written(
    backend: Backend, table: DesiredTable, live: LiveTable, facts: TableFacts, base: CloneBase
) -> Why | None:
    """Return why an entry cannot get a new clone of ``base``: an entry had one, others wrote to it, and it was left."""
    block, new = followed(table, live, facts, base)
    left = storage.find_clone(new.location or "", backend.storage_options())
    return why_written(block, new, base, left.written) if isinstance(left, storage.FoundClone) else None


def _tags_of_new_clone(backend: Backend, table: DesiredTable, base: CloneBase, target: str) -> FoundTags:
    """Return the tags of a clone that is yet to be written: only the version that equals its base can have one."""
    catalog = table.clones.origin.catalog if table.clones is not None else ""
    version = str(storage.first_version(base, backend.base_options[catalog], target))
    return FoundTags(missing=tuple(name for name, wanted in sorted(table.tags.items()) if wanted != version))


def _read_base(backend: Backend, table: DesiredTable, target: str, begun: CloneBase | None) -> CloneBase | Why | None:
    """Return the version that a new table is cloned from, or why there is none; None if it is not known yet.

    ``begun`` is the base of a clone that is at the target. If the latest version is to be cloned, an earlier run may
    have written it when that was another one.
    """
    clone, options = table.clones, backend.storage_options()
    if clone is None or clone.location is None or clone.awaited is not None:
        return None
    base_options = backend.base_options[clone.origin.catalog]
    params = Params(name=address(clone.origin.catalog, clone.origin.identifier), other=clone.origin.catalog)
    if dict(base_options) != dict(options):
        return Why(ReasonCode.OPTIONS_DIFFER, params)
    place, *roots = storage.resolve_locations([clone.location, *options.admission.roots])
    if not replace(options.admission, roots=tuple(roots)).admits(storage.resolve_location(target), place):
        return Why(ReasonCode.BASE_OUTSIDE, {**params, "location": locations.redact(clone.location)})
    at: TagTarget | str | int | None = clone.at.tag or clone.at.version
    if clone.moved_to is not None:
        at = TagTarget.of(clone.moved_to)
    if at is None and begun is not None and locations.same(begun.location, clone.location):
        at = begun.version
    to_add = None if table.schema is None else partial(_added_to_clone, table, target)
    base = storage.read_base(clone.location, at, base_options, target, to_add)
    if isinstance(base, CloneBase):
        return replace(base, tag=clone.at.tag)
    if isinstance(base, CloneRefusal):
        if base.problem is CloneProblem.MISSING_TAG:
            params["tag"] = base.detail
        elif base.problem in _OTHER_STORES:
            params["location"] = locations.redact(clone.location)
        detail = _REFUSALS[base.problem].format(detail=base.detail).rstrip(" :")
        return Why(ReasonCode.BASE_UNAVAILABLE, {**params, "detail": detail})
    detail = base.detail or "no dataset is there"
    return Why(ReasonCode.BASE_UNAVAILABLE, {**params, "detail": f"{locations.redact(clone.location)}: {detail}"})


def _probe_all(
    probes: Probes,
    backend: Backend,
    questions: Iterable[StorageQuestion],
    table_locations: Mapping[Identifier, str | None],
    parallelism: int,
) -> dict[Identifier, storage.TableContent]:
    """Return the content of each table's location; tables whose location is unknown are left out.

    Raises:
        BackendError: the catalog could not hand out credentials.
    """

    def probe(question: StorageQuestion) -> storage.TableContent:
        table, location = question.table, table_locations[question.table.id] or ""
        options = _storage_options(backend, location, question.live)
        if not (table.tags or question.recorded_tags or question.may_grow):
            return storage.TableContent(probes.probe(location, options))
        to_add = partial(_columns_to_add, question, location)
        read = partial(storage.probe_table, location, options, table.tags, question.recorded_tags, to_add)
        return probes.probe_table(location, options, read)

    located = [question for question in questions if table_locations[question.table.id] is not None]
    contents = in_parallel(probe, located, parallelism)
    return {question.table.id: content for question, content in zip(located, contents, strict=True)}


def _storage_options(backend: Backend, location: str, live: LiveTable | None) -> Mapping[str, str]:
    """Return storage options for a location: the table's own if its entry has that location already."""
    is_present = live is not None and live.location == location
    return backend.table_storage_options(live) if live and is_present else backend.storage_options()


def _columns_to_add(question: StorageQuestion, location: str, content: Storage) -> Schema:
    """Return the columns that apply would add to the data of a table."""
    return schema_difference(question.table, TableFacts(location, content)).missing if question.may_grow else ()


def _added_to_clone(table: DesiredTable, target: str, columns: Schema) -> Schema:
    """Return the columns that apply would add to a clone of data with ``columns``."""
    difference = schema_difference(table, TableFacts(target, Storage(StorageKind.DATASET, columns)))
    return () if difference.blocking(table.evolve, table.extra_columns) else difference.missing


def _stale_columns(
    backend: Backend, questions: Iterable[StorageQuestion], facts: Mapping[Identifier, TableFacts]
) -> Mapping[Identifier, EntryColumns]:
    """Return the columns that entries show and should show, of entries where these differ."""
    to_show: dict[Identifier, tuple[Identifier, Schema, ShownColumns]] = {}
    for question in questions:
        if question.live is None:
            continue
        schema = planned_columns(question.table, facts[question.table.id].storage)
        columns = backend.columns_to_show(schema) if schema else None
        if schema and columns is not None:
            to_show[question.live.id] = question.table.id, schema, columns
    shown = backend.shown_columns(to_show) if to_show else {}
    both = {
        identifier: EntryColumns(shown[entry], _keeping_comments(schema, columns, shown[entry]))
        for entry, (identifier, schema, columns) in to_show.items()
        if entry in shown
    }
    return {identifier: columns for identifier, columns in both.items() if columns}


def _keeping_comments(schema: Schema, columns: ShownColumns, shown: ShownColumns) -> ShownColumns:
    """Return ``columns``; a renamed one gets the comment that the entry shows under its old name."""
    comments = {column.name.casefold(): column.comment for column in shown}
    origins = ((field.renamed_from or "").casefold() for field in schema)
    return tuple(
        column if column.comment or not comments.get(origin) else replace(column, comment=comments[origin])
        for column, origin in zip(columns, origins, strict=True)
    )


def problem_of(backend: Backend, question: StorageQuestion, location: str | None) -> str | None:
    """Return why the catalog rejects the table at ``location``; None if it does not."""
    if location is None or location == question.present_location:
        return None
    return backend.location_problem(question.table.id, location)


def ask_locations(
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


def ask_name_holders(
    backend: Backend, names: Iterable[Identifier], spaces: Collection[Identifier], parallelism: int
) -> dict[Identifier, str]:
    """Describe the tables of other formats that have one of ``names``.

    Only namespaces in ``spaces`` are read; they are live.

    Raises:
        BackendError: the catalog could not be read.
    """
    names_in: defaultdict[Identifier, set[str]] = defaultdict(set)
    for name in names:
        if len(name) == 1 or name[:-1] in spaces:
            names_in[name[:-1]].add(name[-1])

    def foreign_in(space: Identifier) -> Sequence[ForeignTable]:
        try:
            return backend.foreign_tables(space, names_in[space])
        except NamespaceNotFoundError:
            return ()

    foreign = in_parallel(foreign_in, sorted(names_in), parallelism)
    return {table.id: _format_text(table) for tables in foreign for table in tables}


def _format_text(table: ForeignTable) -> str:
    return table.format if table.location is None else f"{table.format}, at {locations.redact(table.location)}"


def links_to(new: Iterable[str | None], live: Iterable[LiveTable]) -> Mapping[str, str]:
    """Return the targets of local locations that are symbolic links (see ``Facts.places``).

    Live tables are resolved only if a location in ``new`` is local.
    """
    local = [location for location in new if location is not None and locations.path_of(location) is not None]
    return storage.resolved_links(chain(local, (table.location for table in live))) if local else {}


def stored_spellings(
    backend: Backend, missing: Iterable[DesiredNamespace | DesiredTable], live_names: Iterable[Identifier]
) -> Mapping[Identifier, Identifier]:
    """Return the stored spelling of names that a mirror asks for and the service spells otherwise.

    These are names of ``missing`` blocks that differ from one of ``live_names`` in case only, and that the service
    finds.

    Raises:
        InvalidInputError: blocks of the manifest have such names; the message tells what to write.
        BackendError: the catalog could not be read.
    """
    candidates = [] if backend.capabilities().folds_case else list(missing)
    if not candidates:
        return {}
    known = {folded(identifier): identifier for identifier in live_names}
    spellings: dict[Identifier, Identifier] = {}
    wrong: list[str] = []
    for block in candidates:
        spelling = known.get(folded(block.id))
        if spelling is None or not _is_known_name(backend, block):
            continue
        if block.mirrors is not None if isinstance(block, DesiredTable) else block.mirrored:
            spellings[block.id] = spelling
        else:
            wrong.append(f"`{'/'.join(block.id)}` as `{'/'.join(spelling)}` ({block.source})")
    if wrong:
        raise InvalidInputError(
            f"{backend.impl}: the service keeps {', '.join(wrong)}: write the names in the manifest as the service does"
        )
    return spellings


def _is_known_name(backend: Backend, block: DesiredNamespace | DesiredTable) -> bool:
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


def check_selection(
    select: Sequence[Scope],
    catalogs: Collection[tuple[CatalogInput, LiveTables]],
    blocks: Iterable[DesiredCatalog] = (),
) -> None:
    """Raise if a scope of ``select`` contains nothing in ``catalogs``: a glob, or what ``--exclude`` leaves of all.

    ``blocks`` are those of all catalogs, which the error may suggest.

    Raises:
        SelectionError: one contains no namespace and no table, wanted or live.
    """
    unmatched = dict.fromkeys(select)
    for source, tables in catalogs:
        scopes = {scope: source.selected(scope) for scope in unmatched}
        desired = source.desired
        named = chain(desired.namespaces, desired.tables, source.live.namespaces)
        matched = selecting(scopes.values(), named).union(tables.selected_by(scopes.values()))
        unmatched = {scope: None for scope in unmatched if scopes[scope] not in matched}
    if not unmatched:
        return
    known = {
        block.name: {*block.namespaces, *block.tables} for block in (*blocks, *(each.desired for each, _ in catalogs))
    }
    for source, tables in catalogs:
        known[source.desired.name].update(source.live.namespaces, tables.tables)
    for scope in unmatched:
        if scope.excluded:
            raise SelectionError("`--exclude` leaves nothing of what `--select` names")
        [pattern] = scope.patterns
        path = pattern.replace(".", "/")
        with_catalog = f"`{path}`, or CATALOG/{path}" if path.count("/") > 1 else f"CATALOG/{path}, or `**/{path}`"
        hint = f"; a glob begins with the catalog: {with_catalog}"
        if pattern.strip("/") != pattern:
            hint = "; an address neither begins nor ends with a slash"
        elif "/" in pattern:
            hint = "" if pattern.partition("/")[0] in known else "; a glob begins with a catalog of the manifest"
        if meant := _globs_within_catalogs(path, known) or _addresses_that_end_with(path, known):
            hint = f"; did you mean {' or '.join(f'`{each}`' for each in meant)}?"
        raise SelectionError(f"`{pattern}` matches no namespace and no table, in the manifest or live{hint}")


def _globs_within_catalogs(path: str, known: Mapping[str, Collection[Identifier]]) -> list[str]:
    """Return ``path`` below each catalog in which it matches something; none if there are many.

    If it begins almost like a catalog's name, that name replaces the beginning.
    """
    first, _, rest = path.partition("/")
    if first in known:
        return []
    similar = get_close_matches(first, known if rest else (), n=1)
    within = [(name, path) for name in known] + [(name, rest) for name in similar]
    globs = [f"{name}/{glob}" for name, glob in within if selecting([Scope((glob,))], known[name])]
    return globs if len(globs) <= _MOST_MEANT else []


def _addresses_that_end_with(path: str, known: Mapping[str, Collection[Identifier]]) -> list[str]:
    """Return the addresses that end with a path of names, or else with its last name; none if there are many."""
    addresses = sorted(address(name, identifier) for name, identifiers in known.items() for identifier in identifiers)
    for end in dict.fromkeys((path, path.rpartition("/")[2])):
        if meant := [each for each in addresses if f"/{each}".endswith(f"/{end}")]:
            return meant if len(meant) <= _MOST_MEANT else []
    return []


def find_possible_locations(
    connection: Connection,
    names: Mapping[Identifier, Identifier | None],
    connections: Iterable[Connection],
    parallelism: int,
    probes: Probes,
) -> PossibleLocations:
    """Return the locations, other than default ones, that have data which may be a new table's.

    Candidates are the default location of a table's old name, directories under the root with its new or old name, and
    its location in a mirror of this catalog.

    Args:
        connection: the catalog.
        names: the new tables, each with its old name, if any.
        connections: all catalogs that are connected.
        parallelism: how many locations are probed at once.
        probes: those of the plan.

    Raises:
        BackendError: a directory could not be listed.
        CatalogError: a mirror could not be read.
    """
    backend = connection.backend
    named: defaultdict[Identifier, list[str]] = defaultdict(list)
    options = backend.storage_options()
    for root in map(storage.as_plain_path, backend.roots()) if names and backend.is_its_root else ():
        for path in storage.classify_directory(root, options).below:
            named[tuple(backend.identifier_at([path.rpartition("/")[2]]))].append(path)
    for name, path in _locations_in_mirrors(connection.spec.name, names, connections) if names else ():
        named[name].append(path)
    candidates: dict[Identifier, list[str]] = {}
    for name, former in names.items():
        former_default = _default_location(backend, former) if former is not None else None
        paths = [*([former_default] if former_default else ()), *named.get(former or (), ()), *named.get(name, ())]
        if paths:
            default = _default_location(backend, name)
            candidates[name] = [path for path in dict.fromkeys(paths) if not locations.same(path, default)]
    paths_to_probe = list(dict.fromkeys(chain.from_iterable(candidates.values())))
    probed = in_parallel(lambda path: probes.probe(path, options).kind, paths_to_probe, parallelism)
    kinds = dict(zip(paths_to_probe, probed, strict=True))
    with_data = {name: [path for path in paths if kinds[path] not in _NO_DATA] for name, paths in candidates.items()}
    return {name: paths for name, paths in with_data.items() if paths}


def _locations_in_mirrors(
    catalog: str, names: Mapping[Identifier, Identifier | None], connections: Iterable[Connection]
) -> Iterator[tuple[Identifier, str]]:
    """Yield the name and location of tables in ``names``, new or old, that mirrors of a catalog have."""
    for connection in connections:
        mirror, backend = connection.desired.mirror, connection.backend
        if mirror is None or mirror.origin != catalog:
            continue
        shown = {
            tuple(backend.capabilities().folded(part) for part in mirror.name_of(name)): name
            for name in chain(names, filter(None, names.values()))
        }
        with connection.spec.errors():
            for parent in sorted({name[:-1] for name in shown}):
                listed: set[Identifier] = set()
                with suppress(NamespaceNotFoundError):
                    listed.update((*parent, name) for name in backend.candidate_tables(parent))
                for name in sorted(shown.keys() & listed):
                    with suppress(TableNotFoundError):
                        table = backend.load_table(name)
                        if ownership.mirror_of(table.properties) == catalog:
                            yield shown[name], table.location


def _default_location(backend: Backend, name: Identifier) -> str | None:
    try:
        return backend.default_location(name)
    except NamespaceNotFoundError:  # the default depends on a namespace that is gone as well
        return None
