"""Hypothesis strategies for desired and live states: small ones, in which much meets and clashes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume
from hypothesis import strategies as st

from reconciler.model import ownership
from reconciler.model.capabilities import Safeguard
from reconciler.model.desired import (
    DesiredCatalog,
    DesiredMirror,
    DesiredMove,
    DesiredNamespace,
    DesiredPolicy,
    DesiredTable,
    Prune,
)
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope
from reconciler.planner.facts import PlanOptions
from tests.unit.planner.building import OTHER, OWNER, at, desired, marks

__all__ = [
    "SAFEGUARD",
    "catalogs",
    "held_names",
    "identifiers",
    "manifests",
    "mirrors",
    "option_sets",
    "safeguards",
    "situations",
]

names = st.sampled_from(["a", "b", "c"])
identifiers = st.lists(names, min_size=1, max_size=3).map(tuple)
properties = st.dictionaries(st.sampled_from(["tier", "team"]), st.sampled_from(["x", "y"]), max_size=2)
owners = st.sampled_from([None, OWNER, OTHER])
places = st.sampled_from([f"shared-memory://shelf/{number}" for number in range(4)])
protections = st.sampled_from([None, None, None, True, False])
SAFEGUARD = Safeguard("gc.enabled", "false", "a clean-up would delete the data", hazard="purge")
safeguards = st.sampled_from([None, SAFEGUARD])
option_sets = st.builds(PlanOptions, adopt=st.booleans(), take_over=st.booleans())

# What is drawn many times is made once: to make a strategy anew takes longer than to draw from it.
_booleans, _chances = st.booleans(), st.integers(0, 4)
_no_protection = st.sampled_from([None, False])
_places_or_none = st.none() | places
_up_to_six, _up_to_three = (st.lists(identifiers, max_size=most, unique=True) for most in (6, 3))
_prunes = st.sampled_from(Prune)
_key_sets = st.sets(st.sampled_from(["tier", "team"]))
_teams = st.sampled_from([OWNER, OTHER])
_switched_off, _purges = st.sampled_from([None, "false"]), st.sampled_from([None, None, "TRUE", "false"])


@st.composite
def table_blocks(draw: st.DrawFn, identifier: Identifier) -> DesiredTable:
    if draw(_chances) == 0:
        return DesiredTable(identifier, at(), absent=True, protect=draw(_no_protection))
    location = draw(_places_or_none)
    # Without a look at storage tables move freely between the shelves, which hold no data.
    return DesiredTable(identifier, at(), draw(properties), location, probe=False, protect=draw(protections))


@st.composite
def moves(draw: st.DrawFn, wanted: DesiredCatalog, live: Snapshot) -> DesiredCatalog:
    """Return ``wanted`` with lines of ``moved``: from live names that it does not have to names that it has."""
    lines: list[DesiredMove] = []
    for blocks, there, is_table in ((wanted.tables, live.tables, True), (wanted.namespaces, live.namespaces, False)):
        names = [block.id for block in blocks.values() if not block.absent]
        # Those that are not there yet first: most lines that people write move something.
        names.sort(key=lambda name: (name in there, name))
        origins = sorted(there.keys() - blocks.keys())
        count = draw(st.integers(0, min(2, len(names), len(origins))))
        chosen = draw(st.permutations(origins))[:count]
        lines += [DesiredMove(origin, to, at(), is_table) for origin, to in zip(chosen, names, strict=False)]
    return replace(wanted, moves=tuple(lines))


patterns = st.sampled_from(["**", "a/**", "**/b", "*/?", "c"])
policies = st.builds(
    lambda pattern, properties: DesiredPolicy(pattern, Scope((pattern,)), at(), properties), patterns, properties
)
_up_to_two_policies = st.lists(policies, max_size=2)


@st.composite
def manifests(draw: st.DrawFn) -> DesiredCatalog:
    tables = [draw(table_blocks(identifier)) for identifier in draw(_up_to_six)]
    parents = {table.id[:depth] for table in tables for depth in range(1, len(table.id))}
    claimed = draw(_up_to_three)
    claims = [
        DesiredNamespace(
            identifier,
            at(),
            draw(properties),
            True,
            identifier not in parents and draw(_booleans),
            draw(protections),
        )
        for identifier in claimed
    ]
    absent = {claim.id for claim in claims if claim.absent}
    assume(not any(other[:depth] in absent for other in claimed for depth in range(1, len(other))))
    wanted = desired(*tables, *claims, prune=draw(_prunes))
    return replace(wanted, policies=tuple(draw(_up_to_two_policies)))


@st.composite
def catalogs(draw: st.DrawFn) -> Snapshot:
    tables = draw(_up_to_six)
    extra = draw(_up_to_three)
    ancestors = {one[:depth] for one in [*tables, *extra] for depth in range(1, len(one))}

    def marked() -> dict[str, str]:
        return marks(draw(properties), draw(owners), protect=draw(_booleans) and draw(_booleans))

    def by_policy() -> dict[str, str]:
        found = marked()
        if ownership.MANAGED_BY in found or draw(_booleans):
            return found
        keys = ownership.encode_keys(draw(_key_sets))
        return {**found, ownership.KEYS: keys, ownership.POLICY: draw(_teams)}

    def noted() -> dict[str, str]:
        asked, chosen, said = draw(_places_or_none), draw(_places_or_none), draw(_switched_off)
        found = {ownership.REQUESTED_LOCATION: asked, ownership.CHOSEN_LOCATION: chosen, SAFEGUARD.key: said}
        found["purge"] = draw(_purges)
        return {key: value for key, value in found.items() if value is not None} if draw(_booleans) else {}

    return Snapshot(
        {one: LiveNamespace(one, marked()) for one in sorted({*ancestors, *extra}, key=lambda one: (len(one), one))},
        {one: LiveTable(one, draw(places), {**by_policy(), **noted()}) for one in tables},
    )


def held_names(wanted: DesiredCatalog, live: Snapshot) -> st.SearchStrategy[list[Identifier]]:
    """Return names of wanted tables that are not there, for tables of another kind to have."""
    free = sorted(
        table.id
        for table in wanted.tables.values()
        if not table.absent and table.id not in live.tables and (len(table.id) == 1 or table.id[:-1] in live.namespaces)
    )
    return st.lists(st.sampled_from(free), max_size=2, unique=True) if free else st.just([])


@st.composite
def mirrors(draw: st.DrawFn, wanted: DesiredCatalog, live: Snapshot, of: str) -> tuple[DesiredCatalog, Snapshot]:
    """Return ``wanted`` with a mirror of the catalog ``of``, and ``live`` with entries of this mirror or another."""
    mirror = DesiredMirror(
        of,
        at(),
        draw(st.sampled_from([EVERYTHING, Scope(("a/**",)), Scope(("*",))])),
        draw(st.sampled_from([(), ("a",), ("d", "e")])),
        draw(st.dictionaries(identifiers, identifiers, max_size=2)),
        draw(st.dictionaries(st.just(()) | identifiers, identifiers.flatmap(defaults), max_size=2)),
    )
    marked = {
        name: replace(table, properties={**table.properties, ownership.MIRROR: source})
        for name, table in live.tables.items()
        if (source := draw(st.sampled_from([None, None, of, of, "another"]))) is not None
    }
    return replace(wanted, mirror=mirror), replace(live, tables={**live.tables, **marked})


@st.composite
def defaults(draw: st.DrawFn, identifier: Identifier) -> DesiredTable:
    return DesiredTable(identifier, at(), draw(properties), probe=draw(_booleans), protect=draw(protections))


_catalogs, _manifests = catalogs(), manifests()


@st.composite
def situations(draw: st.DrawFn) -> tuple[DesiredCatalog, Snapshot]:
    """Return what is wanted, with moves, and what is there."""
    live = draw(_catalogs)
    return draw(moves(draw(_manifests), live)), live
