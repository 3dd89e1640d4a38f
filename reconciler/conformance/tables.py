"""Checks of the table operations on entries of the catalog."""

from __future__ import annotations

from functools import partial

from lance_namespace import ListTablesRequest
from lance_namespace import errors as spec

from reconciler.conformance.context import CheckContext, check
from reconciler.conformance.expectations import equal, raises, require
from reconciler.conformance.namespaces import awkward_properties
from reconciler.model import errors as ours
from reconciler.model import locations
from reconciler.model.capabilities import LocationPolicy
from reconciler.model.live import PropertyChanges

_MISSING = (spec.TableNotFoundError, spec.NamespaceNotFoundError)
_UNLIKELY_NAMES = ("with space", "with.dot", "with-dash", "UPPER", "ünïcode", 'with"quote')


@check("DeclareTable")
def a_table_is_declared_and_found(context: CheckContext) -> None:
    """A declared table exists, is listed, and is described with the location the answer named."""
    table = (*context.base, "declared")
    location = context.declare(table)
    context.call("table_exists", table)
    equal("the tables", context.tables(context.base), ["declared"])
    response = context.describe(table, with_table_uri=True)
    context.expect_same_location("the location", response.location, location)
    equal("name and namespace", (response.table, response.namespace), ("declared", list(context.base)))


@check("DeclareTable", promised=True)
def a_given_location_is_kept(context: CheckContext) -> None:
    """The location asked for is the one in force."""
    require(not context.backend.capabilities().ignores_location, "the catalog chooses the location itself")
    table = (*context.base, "placed")
    location = context.new_location(table, "here")
    context.expect_same_location("the answered location", context.declare(table, location=location), location)
    context.expect_location(table, location)


@check("DeclareTable")
def table_properties_round_trip(context: CheckContext) -> None:
    """Properties come back as given: unicode, quotes and long values."""
    require(context.backend.capabilities().table_markers, "tables keep no properties")
    table = (*context.base, "described")
    properties = awkward_properties(context)
    context.declare(table, properties)
    equal("the properties", context.properties(table, properties), properties)


@check("DeclareTable")
def a_second_declare_is_refused(context: CheckContext) -> None:
    """Declaring what exists raises TableAlreadyExists and changes nothing."""
    table = (*context.base, "twice")
    location = context.declare(table, {"first": "yes"})
    other = context.new_location(table, "b") if context.is_backend else None
    raises(spec.TableAlreadyExistsError, lambda: context.declare(table, {"first": "no"}, location=other))
    context.expect_location(table, location)
    if context.backend.capabilities().table_markers:
        equal("the properties", context.properties(table, {"first": ""}), {"first": "yes"})


@check("DeclareTable")
def a_table_needs_its_namespace(context: CheckContext) -> None:
    """Declaring in a namespace that does not exist raises NamespaceNotFound and creates nothing."""
    missing = context.sibling("_missing")
    location = context.new_location((*context.base, "elsewhere")) if context.is_backend else None
    raises(spec.NamespaceNotFoundError, lambda: context.declare((*missing, "table"), location=location))
    raises(spec.NamespaceNotFoundError, lambda: context.namespace_properties(missing))


@check("DeclareTable", promised=True)
def names_that_cannot_be_are_refused(context: CheckContext) -> None:
    """Empty names, and names with a separator or control character, raise InvalidInput."""
    for name in ("", "a$b", "a/b", "..", "tab\tbed", "x" * 300):
        raises(spec.InvalidInputError, partial(context.declare, (*context.base, name)))
    raises(spec.InvalidInputError, lambda: context.declare([]))
    equal("the tables", context.tables(context.base), [])


@check("DeclareTable", promised=True)
def names_the_rule_excludes_are_refused(context: CheckContext) -> None:
    """Names the catalog's rule excludes raise InvalidInput before anything is sent."""
    rule = context.backend.capabilities().name_rule
    require(rule is not None, "the catalog has no rule of its own for names")
    assert rule is not None
    folded = [name.lower() if context.backend.capabilities().folds_case else name for name in _UNLIKELY_NAMES]
    refused = [name for name in folded if not rule.pattern.fullmatch(name)]
    require(bool(refused), "the rule takes every name tried")
    for name in refused:
        raises(spec.InvalidInputError, partial(context.declare, (*context.base, name)))


@check("DeclareTable", promised=True)
def case_is_folded_or_kept(context: CheckContext) -> None:
    """Where names fold case, both spellings are one table; elsewhere they are two."""
    context.declare((*context.base, "mixedcase"))
    spelled = (*context.base, "MixedCase")
    if context.backend.capabilities().folds_case:
        context.describe(spelled)
        raises(
            spec.TableAlreadyExistsError,
            lambda: context.declare(spelled, location=context.new_location((*context.base, "x"))),
        )
    else:
        rule = context.backend.capabilities().name_rule
        require(rule is None or rule.pattern.fullmatch("MixedCase") is not None, "names have no upper case here")
        raises(spec.TableNotFoundError, lambda: context.describe(spelled))


@check("DeclareTable", promised=True)
def depths_that_cannot_be_are_refused(context: CheckContext) -> None:
    """Identifiers with too few or too many namespaces for a table raise InvalidInput."""
    fewest, most = context.backend.capabilities().table_depths
    require(fewest > 0 or most is not None, "tables can have any depth")
    if fewest > 0:
        raises(spec.InvalidInputError, lambda: context.describe([*["level"] * (fewest - 1), "table"]))
    if most is not None:
        raises(spec.InvalidInputError, lambda: context.describe([*["level"] * (most + 1), "table"]))


@check("DeclareTable", promised=True)
def default_locations_differ(context: CheckContext) -> None:
    """Each table has a default location of its own, and it stays the same."""
    first, second = ((*context.base, name) for name in ("first", "second"))
    defaults = [context.backend.default_location(table) for table in (first, second)]
    require(None not in defaults, "the catalog has no default location")
    equal("two tables in one place", locations.same(defaults[0], defaults[1]), expected=False)
    equal("the default location asked again", context.backend.default_location(first), defaults[0])
    if not context.backend.capabilities().ignores_location:
        context.expect_same_location("the location in force", context.declare(first), defaults[0])


@check("DeclareTable", promised=True)
def locations_outside_the_root_are_refused(context: CheckContext) -> None:
    """Where tables stay under a root, a location elsewhere, or one that climbs out, raises InvalidInput."""
    require(context.backend.capabilities().location_policy is LocationPolicy.UNDER_ROOT, "every location is taken")
    table = (*context.base, "outside")
    inside = context.new_location(table)
    for location in ("/somewhere/else.lance", "s3://another-bucket/x.lance", f"{inside}/../../../../out.lance"):
        raises(spec.InvalidInputError, partial(context.declare, table, location=location))
    equal("the tables", context.tables(context.base), [])


@check("DescribeTable")
def a_missing_table_is_not_found(context: CheckContext) -> None:
    """A missing table is TableNotFound; in a missing namespace NamespaceNotFound does as well."""
    missing = (*context.base, "missing")
    raises(spec.TableNotFoundError, lambda: context.describe(missing))
    raises(spec.TableNotFoundError, lambda: context.call("table_exists", missing))
    nowhere = (*context.sibling("_missing"), "table")
    raises(_MISSING, lambda: context.describe(nowhere))


@check("ListTables")
def tables_are_listed_in_pages(context: CheckContext) -> None:
    """Pages of any size together hold every table once, in order."""
    names = [f"t{number}" for number in range(5)]
    for name in reversed(names):
        context.declare((*context.base, name))
    context.expect_pages("list_tables", names)
    if context.is_backend:
        raises(spec.InvalidInputError, lambda: context.call("list_tables", context.base, limit=-1))


@check("ListTables")
def declared_tables_can_be_left_out(context: CheckContext) -> None:
    """With include_declared false, only tables with data are listed."""
    context.create_table_with_data((*context.base, "real"))
    context.declare((*context.base, "declared"))
    with_data = context.call("list_tables", context.base, include_declared=False)
    equal("the tables with data", with_data.tables, ["real"])
    equal("all tables", context.tables(context.base), ["declared", "real"])
    for name, is_declared in (("real", False), ("declared", True)):
        response = context.describe((*context.base, name), check_declared=True)
        equal(f"{name} is only declared", response.is_only_declared, is_declared)


@check("ListAllTables")
def all_tables_are_listed(context: CheckContext) -> None:
    """ListAllTables holds the string identifiers of tables at every depth."""
    tables = [(*context.base, "outer")]
    if context.can_nest and context.backend.capabilities().table_depths[1] is None:
        context.create(context.nested_namespace())
        tables.append((*context.nested_namespace(), "inner"))
    for table in tables:
        context.declare(table)
    listed = set(context.namespace.list_all_tables(ListTablesRequest()).tables)
    equal("what is missing", {"$".join(table) for table in tables} - listed, set())


@check("AlterTable", promised=True)
def altering_a_table_merges(context: CheckContext) -> None:
    """Keys that are set or removed change; every other key and the location stay."""
    capabilities = context.backend.capabilities()
    require(capabilities.alter_table and capabilities.table_markers, "the properties of a table cannot be changed")
    table = (*context.base, "altered")
    location = context.declare(table, {"unknown": "stays", "old": "1", "both": "1"})
    changes = PropertyChanges({"both": "2", "new": "größer"}, frozenset({"old", "never there"}))
    answer = context.backend.alter_table(table, changes)
    expected = {"unknown": "stays", "both": "2", "new": "größer"}
    equal("the properties", context.properties(table, {**expected, "old": ""}), expected)
    equal("the answer", {key: answer.properties.get(key) for key in expected}, expected)
    context.expect_location(table, location)


@check("AlterTable", promised=True)
def a_table_is_relocated(context: CheckContext) -> None:
    """The entry moves to the new location; properties stay, and the data at both places does too."""
    able = context.backend.capabilities()
    require(able.relocate_table, "the location of a table cannot be changed")
    require(not able.ignores_location, "the catalog chooses the location itself")
    table = (*context.base, "moved")
    old, new = context.new_location(table, "old"), context.new_location(table, "new")
    context.write(old)
    context.write(new, rows=5)
    with context.data_unchanged(old, new):
        context.register(table, old, {"kept": "yes"})
        answer = context.backend.alter_table(table, PropertyChanges(), new)
    context.expect_same_location("the answered location", answer.location, new)
    context.expect_location(table, new)
    if able.table_markers:
        equal("the properties", context.properties(table, {"kept": ""}), {"kept": "yes"})


@check("AlterTable", promised=True)
def altering_a_missing_table_is_not_found(context: CheckContext) -> None:
    """A missing table cannot be altered: TableNotFound, and it is not created."""
    require(context.backend.capabilities().alter_table, "the properties of a table cannot be changed")
    raises(
        (ours.TableNotFoundError, ours.NamespaceNotFoundError),
        lambda: context.backend.alter_table((*context.base, "missing"), PropertyChanges({"a": "b"})),
    )
    equal("the tables", context.tables(context.base), [])


@check("RenameTable")
def a_table_is_renamed_in_place(context: CheckContext) -> None:
    """Location, properties and data stay, and the old name is free."""
    require(context.can_rename, "tables are not renamed in place")
    capabilities = context.backend.capabilities()
    old, new = (*context.base, "old"), (*context.base, "new")
    location = context.create_table_with_data(old)
    if capabilities.alter_table and capabilities.table_markers:
        context.backend.alter_table(old, PropertyChanges({"kept": "größer"}))
    with context.data_unchanged(location):
        context.rename(old, new)
    equal("the tables", context.tables(context.base), ["new"])
    raises(spec.TableNotFoundError, lambda: context.describe(old))
    context.expect_location(new, location)
    if capabilities.alter_table and capabilities.table_markers:
        equal("the properties", context.properties(new, {"kept": ""}), {"kept": "größer"})
    equal("the rows", context.rows(location), 3)


@check("RenameTable")
def a_table_is_renamed_into_another_namespace(context: CheckContext) -> None:
    """The namespace may be another one; it has to exist."""
    require(context.can_rename, "tables are not renamed in place")
    location = context.create_table_with_data((*context.base, "table"))
    missing = (*context.sibling("_second"), "table")
    raises(spec.NamespaceNotFoundError, lambda: context.rename((*context.base, "table"), missing))
    equal("the tables", context.tables(context.base), ["table"])
    with context.second_namespace() as other:
        context.rename((*context.base, "table"), (*other, "renamed"))
        equal("the tables there and here", (context.tables(other), context.tables(context.base)), (["renamed"], []))
        context.expect_location((*other, "renamed"), location)
        equal("the rows", context.rows(location), 3)


@check("RenameTable")
def a_name_that_is_taken_is_refused(context: CheckContext) -> None:
    """Renaming to the name of another table raises TableAlreadyExists and changes neither; a missing one is missing."""
    require(context.can_rename, "tables are not renamed in place")
    first, second = (*context.base, "first"), (*context.base, "second")
    table_locations = context.declare(first), context.declare(second)
    raises(spec.TableAlreadyExistsError, lambda: context.rename(first, second))
    raises(spec.TableNotFoundError, lambda: context.rename((*context.base, "missing"), (*context.base, "third")))
    equal("the tables", context.tables(context.base), ["first", "second"])
    for table, location in zip((first, second), table_locations, strict=True):
        context.expect_location(table, location)


@check("DeregisterTable")
def a_table_is_deregistered(context: CheckContext) -> None:
    """The entry goes and the answer says where the table was; then the name is free again."""
    table = (*context.base, "gone")
    location = context.declare(table)
    answer = context.deregister(table)
    context.expect_same_location("the answered location", answer.location, location)
    raises(spec.TableNotFoundError, lambda: context.describe(table))
    raises(spec.TableNotFoundError, lambda: context.deregister(table))
    equal("the tables", context.tables(context.base), [])
    context.declare(table)
    equal("the tables after another declare", context.tables(context.base), ["gone"])


@check("DeregisterTable", promised=True)
def only_lance_tables_are_deregistered(context: CheckContext) -> None:
    """A foreign object is not listed, not described and not deregistered, and its name is taken."""
    with context.foreign_object() as foreign:
        equal("the tables", context.tables(context.base), [])
        raises((spec.TableNotFoundError, spec.InvalidInputError), lambda: context.describe(foreign))
        raises((spec.TableNotFoundError, spec.InvalidInputError), lambda: context.deregister(foreign))
        raises(
            spec.TableAlreadyExistsError,
            lambda: context.declare(foreign, location=context.new_location((*context.base, "x"))),
        )
        equal("the tables of a scan", [table for table in context.backend.scan().tables if table == foreign], [])
