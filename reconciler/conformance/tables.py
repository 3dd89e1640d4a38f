"""Checks of the table operations that are about the catalog's entries."""

from __future__ import annotations

from functools import partial

from lance_namespace import ListTablesRequest, TableExistsRequest
from lance_namespace.errors import (
    InvalidInputError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)

from reconciler import locations
from reconciler.conformance.check import FaultError, check, equal, need, raises
from reconciler.conformance.ground import Ground
from reconciler.conformance.namespaces import awkward_properties
from reconciler.state import LocationPolicy, PropertyChanges

_MISSING = (TableNotFoundError, NamespaceNotFoundError)
_UNLIKELY_NAMES = ("with space", "with.dot", "with-dash", "UPPER", "ünïcode", 'with"quote')


@check("DeclareTable")
def a_table_is_declared_and_found(ground: Ground) -> None:
    """A declared table exists, is listed, and is described with the location the answer named."""
    table = (*ground.base, "declared")
    location = ground.declare(table)
    ground.backend.table_exists(TableExistsRequest(id=list(table)))
    equal("the tables", ground.tables(ground.base), ["declared"])
    found = ground.describe(table, with_table_uri=True)
    equal("the location is the one of the answer", locations.same(found.location, location), wanted=True)
    equal("name and namespace", (found.table, found.namespace), ("declared", list(ground.base)))


@check("DeclareTable")
def a_given_location_is_kept(ground: Ground) -> None:
    """The location asked for is the one in force."""
    need(not ground.backend.capabilities.ignores_location, "the catalog chooses the location itself")
    table = (*ground.base, "placed")
    place = ground.place(table, "here")
    equal(
        "the answered location", locations.normalise(ground.declare(table, location=place)), locations.normalise(place)
    )
    equal("the location", locations.normalise(ground.describe(table).location or ""), locations.normalise(place))


@check("DeclareTable")
def table_properties_round_trip(ground: Ground) -> None:
    """Properties come back as given: unicode, quotes and long values."""
    need(ground.backend.capabilities.table_markers, "tables keep no properties")
    table = (*ground.base, "described")
    given = awkward_properties(ground)
    ground.declare(table, given)
    equal("the properties", ground.properties(table, given), given)


@check("DeclareTable")
def a_second_declare_is_refused(ground: Ground) -> None:
    """Declaring what exists raises TableAlreadyExists and changes nothing."""
    table = (*ground.base, "twice")
    location = ground.declare(table, {"first": "yes"})
    raises(TableAlreadyExistsError, lambda: ground.declare(table, {"first": "no"}, location=ground.place(table, "b")))
    equal("the location", locations.same(ground.describe(table).location, location), wanted=True)
    if ground.backend.capabilities.table_markers:
        equal("the properties", ground.properties(table, {"first": ""}), {"first": "yes"})


@check("DeclareTable")
def a_table_needs_its_namespace(ground: Ground) -> None:
    """Declaring in a namespace that does not exist raises NamespaceNotFound and creates nothing."""
    missing = (*ground.base[:-1], ground.base[-1] + "_missing")
    place = ground.place((*ground.base, "elsewhere"))
    raises(NamespaceNotFoundError, lambda: ground.declare((*missing, "table"), location=place))
    raises(NamespaceNotFoundError, lambda: ground.namespace(missing))


@check("DeclareTable")
def names_that_cannot_be_are_refused(ground: Ground) -> None:
    """Empty names, and names with a separator or control character, raise InvalidInput."""
    for name in ("", "a$b", "a/b", "..", "tab\tbed", "x" * 300):
        raises(InvalidInputError, partial(ground.declare, (*ground.base, name)))
    raises(InvalidInputError, lambda: ground.declare([]))
    equal("the tables", ground.tables(ground.base), [])


@check("DeclareTable")
def names_the_rule_excludes_are_refused(ground: Ground) -> None:
    """Names the catalog's rule excludes raise InvalidInput before anything is sent."""
    rule = ground.backend.capabilities.name_rule
    need(rule is not None, "the catalog has no rule of its own for names")
    assert rule is not None
    folded = [name.lower() if ground.backend.capabilities.folds_case else name for name in _UNLIKELY_NAMES]
    refused = [name for name in folded if not rule.pattern.fullmatch(name)]
    need(bool(refused), "the rule takes every name tried")
    for name in refused:
        raises(InvalidInputError, partial(ground.declare, (*ground.base, name)))


@check("DeclareTable")
def case_is_folded_or_kept(ground: Ground) -> None:
    """Where names fold case, both spellings are one table; elsewhere they are two."""
    ground.declare((*ground.base, "mixedcase"))
    spelled = (*ground.base, "MixedCase")
    if ground.backend.capabilities.folds_case:
        ground.describe(spelled)
        raises(TableAlreadyExistsError, lambda: ground.declare(spelled, location=ground.place((*ground.base, "x"))))
    else:
        rule = ground.backend.capabilities.name_rule
        need(rule is None or rule.pattern.fullmatch("MixedCase") is not None, "names have no upper case here")
        raises(TableNotFoundError, lambda: ground.describe(spelled))


@check("DeclareTable")
def depths_that_cannot_be_are_refused(ground: Ground) -> None:
    """Identifiers with too few or too many namespaces for a table raise InvalidInput."""
    fewest, most = ground.backend.capabilities.table_depths
    need(fewest > 0 or most is not None, "tables stand at every depth")
    if fewest > 0:
        raises(InvalidInputError, lambda: ground.describe([*["level"] * (fewest - 1), "table"]))
    if most is not None:
        raises(InvalidInputError, lambda: ground.describe([*["level"] * (most + 1), "table"]))


@check("DeclareTable")
def default_locations_differ(ground: Ground) -> None:
    """Each table has a default location of its own, and it stays the same."""
    first, second = ((*ground.base, name) for name in ("first", "second"))
    places = [ground.backend.default_location(table) for table in (first, second)]
    need(None not in places, "the catalog has no default location")
    equal("two tables in one place", locations.same(places[0], places[1]), wanted=False)
    equal("the default location asked again", ground.backend.default_location(first), places[0])
    if not ground.backend.capabilities.ignores_location:
        equal("the location in force", locations.same(ground.declare(first), places[0]), wanted=True)


@check("DeclareTable")
def locations_outside_the_root_are_refused(ground: Ground) -> None:
    """Where tables stay under a root, a location elsewhere, or one that climbs out, raises InvalidInput."""
    need(ground.backend.capabilities.location_policy is LocationPolicy.UNDER_ROOT, "every location is taken")
    table = (*ground.base, "outside")
    inside = ground.place(table)
    for place in ("/somewhere/else.lance", "s3://another-bucket/x.lance", f"{inside}/../../../../out.lance"):
        raises(InvalidInputError, partial(ground.declare, table, location=place))
    equal("the tables", ground.tables(ground.base), [])


@check("DescribeTable")
def a_missing_table_is_not_found(ground: Ground) -> None:
    """A missing table is TableNotFound; in a missing namespace NamespaceNotFound does as well."""
    missing = (*ground.base, "missing")
    raises(TableNotFoundError, lambda: ground.describe(missing))
    raises(TableNotFoundError, lambda: ground.backend.table_exists(TableExistsRequest(id=list(missing))))
    nowhere = (*ground.base[:-1], ground.base[-1] + "_missing", "table")
    raises(_MISSING, lambda: ground.describe(nowhere))


@check("ListTables")
def tables_are_listed_in_pages(ground: Ground) -> None:
    """Pages of any size together hold every table once, in order."""
    names = [f"t{number}" for number in range(5)]
    for name in reversed(names):
        ground.declare((*ground.base, name))
    for limit in (1, 2, 5, 100):
        found: list[str] = []
        token = None
        while True:
            page = ground.backend.list_tables(ListTablesRequest(id=list(ground.base), limit=limit, page_token=token))
            if len(page.tables) > limit:
                raise FaultError(f"a page of {len(page.tables)} names where {limit} were asked for")
            found += page.tables
            token = page.page_token
            if not token:
                break
        equal(f"the tables in pages of {limit}", found, names)
    raises(InvalidInputError, lambda: ground.backend.list_tables(ListTablesRequest(id=list(ground.base), limit=-1)))


@check("ListTables")
def declared_tables_can_be_left_out(ground: Ground) -> None:
    """With include_declared false, only tables with data are listed."""
    ground.real_table((*ground.base, "real"))
    ground.declare((*ground.base, "declared"))
    request = ListTablesRequest(id=list(ground.base), include_declared=False)
    equal("the tables with data", ground.backend.list_tables(request).tables, ["real"])
    equal("all tables", ground.tables(ground.base), ["declared", "real"])
    equal(
        "real is only declared",
        ground.describe((*ground.base, "real"), check_declared=True).is_only_declared,
        wanted=False,
    )
    equal(
        "declared is only declared",
        ground.describe((*ground.base, "declared"), check_declared=True).is_only_declared,
        wanted=True,
    )


@check("ListAllTables")
def all_tables_are_listed(ground: Ground) -> None:
    """ListAllTables holds the string identifiers of tables at every depth."""
    tables = [(*ground.base, "outer")]
    if ground.nests and ground.backend.capabilities.table_depths[1] is None:
        ground.create(ground.nested())
        tables.append((*ground.nested(), "inner"))
    for table in tables:
        ground.declare(table)
    found = set(ground.backend.list_all_tables(ListTablesRequest()).tables)
    equal("what is missing", {"$".join(table) for table in tables} - found, set())


@check("AlterTable")
def altering_a_table_merges(ground: Ground) -> None:
    """Keys that are set or removed change; every other key and the location stay."""
    able = ground.backend.capabilities
    need(able.alter_table and able.table_markers, "the properties of a table cannot be changed")
    table = (*ground.base, "altered")
    location = ground.declare(table, {"unknown": "stays", "old": "1", "both": "1"})
    changes = PropertyChanges({"both": "2", "new": "größer"}, frozenset({"old", "never there"}))
    answer = ground.backend.alter_table(table, changes)
    wanted = {"unknown": "stays", "both": "2", "new": "größer"}
    equal("the properties", ground.properties(table, {**wanted, "old": ""}), wanted)
    equal("the answer", {key: answer.properties.get(key) for key in wanted}, wanted)
    equal("the location", locations.same(ground.describe(table).location, location), wanted=True)


@check("AlterTable")
def a_table_is_relocated(ground: Ground) -> None:
    """The entry moves to the new location; properties stay, and the data at both places does too."""
    able = ground.backend.capabilities
    need(able.relocate_table, "the location of a table cannot be changed")
    need(not able.ignores_location, "the catalog chooses the location itself")
    table = (*ground.base, "moved")
    old, new = ground.place(table, "old"), ground.place(table, "new")
    ground.write(old)
    ground.write(new, rows=5)
    before = ground.data(old), ground.data(new)
    ground.register(table, old, {"kept": "yes"})
    answer = ground.backend.alter_table(table, PropertyChanges(), new)
    equal("the answered location", locations.normalise(answer.location), locations.normalise(new))
    equal("the location", locations.same(ground.describe(table).location, new), wanted=True)
    if able.table_markers:
        equal("the properties", ground.properties(table, {"kept": ""}), {"kept": "yes"})
    equal("the data files", (ground.data(old), ground.data(new)), before)


@check("AlterTable")
def altering_a_missing_table_is_not_found(ground: Ground) -> None:
    """A missing table cannot be altered: TableNotFound, and it is not created."""
    need(ground.backend.capabilities.alter_table, "the properties of a table cannot be changed")
    raises(_MISSING, lambda: ground.backend.alter_table((*ground.base, "missing"), PropertyChanges({"a": "b"})))
    equal("the tables", ground.tables(ground.base), [])


@check("DeregisterTable")
def a_table_is_deregistered(ground: Ground) -> None:
    """The entry goes and the answer says where the table was; then the name is free again."""
    table = (*ground.base, "gone")
    location = ground.declare(table)
    answer = ground.deregister(table)
    equal("the answered location", locations.same(answer.location, location), wanted=True)
    raises(TableNotFoundError, lambda: ground.describe(table))
    raises(TableNotFoundError, lambda: ground.deregister(table))
    equal("the tables", ground.tables(ground.base), [])
    ground.declare(table)
    equal("the tables after another declare", ground.tables(ground.base), ["gone"])


@check("DeregisterTable")
def only_lance_tables_are_deregistered(ground: Ground) -> None:
    """A foreign object is not listed, not described and not deregistered, and its name is taken."""
    need(ground.add_foreign is not None, "no way was given to make a foreign object")
    assert ground.add_foreign is not None
    foreign = (*ground.base, "theirs")
    take_away = ground.add_foreign(ground.backend, foreign)
    try:
        equal("the tables", ground.tables(ground.base), [])
        raises((TableNotFoundError, InvalidInputError), lambda: ground.describe(foreign))
        raises((TableNotFoundError, InvalidInputError), lambda: ground.deregister(foreign))
        raises(TableAlreadyExistsError, lambda: ground.declare(foreign, location=ground.place((*ground.base, "x"))))
        equal("the tables of a scan", [table for table in ground.backend.scan().tables if table == foreign], [])
    finally:
        take_away()
