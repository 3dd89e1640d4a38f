"""List live tables, and describe one object as it is desired, live and planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Literal, TypeAlias

from reconciler.manifest import Manifest
from reconciler.model import locations, ownership
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.desired import DesiredCatalog, DesiredNamespace, DesiredTable, Evolve, ExtraColumns, Source
from reconciler.model.errors import SelectionError
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.names import Only, address
from reconciler.model.policies import Policies, TablePolicy
from reconciler.model.redaction import redact_properties
from reconciler.operations.connections import Connection, open_connections, read_all, shown_locations_of
from reconciler.operations.plan import plan, selected_in, selection_of
from reconciler.planner.entries import Blocked, Change, Protection
from reconciler.planner.placeholders import location_hider
from reconciler.planner.views import column_text

_WILDCARDS = frozenset("*?")
Which: TypeAlias = Literal["all", "owned", "unmanaged", "blocked"]


@dataclass(frozen=True, slots=True)
class ListedTable:
    """One object as `lancens list` shows it; ``location`` is redacted.

    ``clone`` is the table and version that its data was cloned from.
    """

    address: str
    location: str | None
    owner: str | None = None
    mirror: str | None = None
    protect: bool = False
    clone: str | None = None


def list_tables(
    manifest: Manifest, select: Sequence[str] = (), *, which: Which = "all", parallelism: int = DEFAULT_PARALLELISM
) -> tuple[list[ListedTable], int]:
    """Return the live tables that match, by address, and the number of all tables that were read.

    Args:
        manifest: names the catalogs; within the ``scope`` of each, every table counts.
        select: globs over ``catalog/namespace/table``; all tables if there are none. The address of a catalog or
            namespace stands for everything below it.
        which: the tables that this manifest manages, that nobody manages, or the objects that its plan blocks.
        parallelism: how many requests run at once.

    Raises:
        CatalogError: a catalog could not be read completely.
        SelectionError: a glob matches nothing.
    """
    if which == "blocked":
        desired = {name: catalog.desired for name, catalog in manifest.catalogs.items()}
        select = [f"{glob}/**" if _is_namespace(desired, glob) else glob for glob in select]
        planned = plan(manifest, select=select, allow_mass_removal=True, parallelism=parallelism)
        tables = [_listed_blocked(entry) for entry in planned.blocked]
        return tables, sum(catalog.tables for catalog in planned.catalogs)
    selection = selection_of([*select, *(f"{glob}/**" for glob in select if _WILDCARDS.isdisjoint(glob))])
    concerned = [name for name in manifest.catalogs if selection.below(name).patterns]
    with open_connections(manifest, concerned, parallelism=parallelism) as connections:
        read = read_all(connections.values(), _scan, parallelism)
        live = [
            (connection, selected_in(connection, selection), tables)
            for connection, tables in zip(connections.values(), read, strict=True)
        ]
        matching = [
            (connection, table)
            for connection, selected, tables in live
            for table in tables
            if selected.contains(table.id)
        ]
    if select and not matching:
        known = ", ".join(sorted(manifest.catalogs))
        raise SelectionError(
            f"{', '.join(f'`{glob}`' for glob in select)}: no live table has such an address; addresses begin with a "
            f"catalog: {known}"
        )
    hide = location_hider(shown_locations_of(manifest))
    tables = [
        _listed(connection, table, hide) for connection, table in matching if _is_wanted(connection, table, which)
    ]
    return sorted(tables, key=lambda listed: listed.address), sum(map(len, read))


def _scan(connection: Connection) -> list[LiveTable]:
    return [*connection.spec.scan(connection.backend, connection.desired.scope).tables.values()]


def _is_wanted(connection: Connection, table: LiveTable, which: Which) -> bool:
    owner = ownership.owner_of(table.properties)
    is_owned = ownership.is_same_owner(owner, connection.desired.owner)
    return which == "all" or (is_owned if which == "owned" else owner is None)


def _listed(connection: Connection, table: LiveTable, hide: Callable[[str], str]) -> ListedTable:
    return ListedTable(
        address(connection.spec.name, table.id),
        hide(locations.redact(table.location)),
        ownership.owner_of(table.properties),
        ownership.mirror_of(table.properties),
        ownership.is_protected(table.properties),
        ownership.clone_of(table.properties),
    )


def _listed_blocked(entry: Blocked) -> ListedTable:
    view = entry.before
    if view is None:
        return ListedTable(entry.address, locations.redact(entry.location))
    marks = view.managed_by, view.mirror, view.protect, view.clone
    return ListedTable(entry.address, locations.redact(view.location), *marks)


def _is_namespace(catalogs: Mapping[str, DesiredCatalog], address_: str) -> bool:
    name, _, path = address_.partition("/")
    return name in catalogs and (not path or tuple(path.split("/")) in catalogs[name].namespaces)


# ---- one object ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Value:
    """One value of an object; ``origin`` says what writes it, ``source`` where."""

    key: str
    text: str
    origin: str = ""
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class ObjectDescription:
    """An object as the manifest wants it, as the catalog has it, and what a plan does about it.

    ``desired`` and ``live`` are None where there is none.
    """

    address: str
    desired: Sequence[Value] | None
    live: Sequence[Value] | None
    planned: Sequence[Change | Protection | Blocked]


def describe(manifest: Manifest, address_: str, *, parallelism: int = DEFAULT_PARALLELISM) -> ObjectDescription:
    """Return everything known of the object at an address, without secrets.

    Load the manifest with ``traced`` to learn where each value is written.

    Raises:
        CatalogError: its catalog could not be read completely.
        SelectionError: no manifest and no catalog has such an object.
    """
    name, _, path = address_.partition("/")
    if name not in manifest.catalogs or not path:
        known = ", ".join(manifest.catalogs)
        raise SelectionError(f"`{address_}` is no file, run or address; addresses begin with a catalog: {known}")
    planned = plan(manifest, select=(address_,), allow_mass_removal=True, parallelism=parallelism)
    with open_connections(manifest, [name], parallelism=parallelism) as connections, connections[name].spec.errors():
        connection = connections[name]
        folds = connection.capabilities().folds_case
        identifier = tuple((path.lower() if folds else path).split("/"))
        snapshot = connection.spec.scan(connection.backend, Only([identifier]))
        live = snapshot.tables.get(identifier) or snapshot.namespaces.get(identifier)
        hide = location_hider(shown_locations_of(manifest))
    desired = connection.desired.tables.get(identifier) or connection.desired.namespaces.get(identifier)
    mirror = connection.desired.mirror
    all_entries: tuple[Change | Protection | Blocked, ...] = (
        *planned.changes,
        *planned.waiting,
        *planned.blocked,
        *planned.guards,
    )
    entries = [entry for entry in all_entries if (entry.catalog, entry.identifier) == (name, identifier)]
    values = None if desired is None else [*_desired_values(manifest, address_, desired, hide)]
    marks = None if live is None else ownership.mirror_of(live.properties) or ownership.clone_of(live.properties)
    if values is None and mirror is not None and marks is not None:
        values = [Value(mirror.key, mirror.origin, mirror.key, mirror.source)]
    elif values is None and isinstance(live, LiveTable) and ownership.owner_of(live.properties) is None:
        values = [*_policy_values(address_, Policies(connection.desired.policies).of(identifier))] or None
    return ObjectDescription(address_, values, None if live is None else [*_live_values(address_, live, hide)], entries)


_USUAL_VALUES = (False, True, Evolve.NEVER, ExtraColumns.KEEP)
"""Values that are shown only where the manifest writes them."""


def _desired_values(
    manifest: Manifest, address_: str, desired: DesiredTable | DesiredNamespace, hide: Callable[[str], str]
) -> Iterator[Value]:
    texts: dict[str, str] = {}
    for key in ("absent", "location", "protect", "kind", "evolve", "extra_columns", "probe"):
        value = getattr(desired, key, None)
        if value is not None and (key in manifest.origins or value not in _USUAL_VALUES):
            texts[key] = hide(locations.redact(value)) if key == "location" else _text(value)
    if isinstance(desired, DesiredTable):
        columns = ", ".join(f"{each.name} {column_text(each, address_)}" for each in desired.schema or ())
        texts |= {"schema": columns} if columns else {}
        expected = {each.name: getattr(desired.expect, each.name) for each in fields(desired.expect)}
        expectations = ", ".join(f"{key} {_text(value)}" for key, value in expected.items() if value)
        texts |= {"expect": expectations} if expectations else {}
        texts |= {f"tags.{name}": target for name, target in desired.tags.items()}
        if desired.clones is not None:
            base, at = desired.clones.origin, desired.clones.at
            version = f"tag {at.tag}" if at.tag else f"version {at.version}" if at.version else "latest"
            version += f"{', pinned' if at.pin else ''}{', followed' if at.follow else ''}"
            texts["clone"] = f"{address(base.catalog, base.identifier)} ({version})"
    shown = redact_properties(desired.properties, address_, desired.secret_keys)
    texts |= {f"properties.{key}": value for key, value in sorted(shown.items())}
    for key, text in texts.items():
        origin, source = manifest.origins.get(key, ("block", desired.source))
        yield Value(key, text, origin, source)


def _policy_values(address_: str, policy: TablePolicy | None) -> Iterator[Value]:
    if policy is None:
        return
    shown = redact_properties(policy.block.properties, address_, policy.block.secret_keys)
    for key, writer in sorted(policy.writers.items()):
        kind, _, name = key.partition(".")
        text = shown[name] if kind == "properties" else _text(getattr(policy.block.expect, name))
        yield Value(key, text, f"policy {writer.pattern}", writer.source)


def _live_values(address_: str, live: LiveTable | LiveNamespace, hide: Callable[[str], str]) -> Iterator[Value]:
    if isinstance(live, LiveTable):
        yield Value("location", hide(locations.redact(live.location)))
    elif live.kind is not None:
        yield Value("kind", live.kind)
    shown = redact_properties(live.properties, address_, ownership.recorded_secrets(live.properties))
    for key, text in sorted(shown.items()):
        yield Value(f"properties.{key}", hide(locations.redact(text)) if key.endswith("location") else text)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "/".join(map(str, value))
    return str(value.value if isinstance(value, Enum) else value).lower() if not isinstance(value, str) else value
