"""Checks of the namespace operations."""

from __future__ import annotations

from lance_namespace import errors as spec

from reconciler.conformance.context import CheckContext, check
from reconciler.conformance.expectations import equal, raises, require
from reconciler.model import errors as ours
from reconciler.model.live import PropertyChanges

_LONG = 1500
_PROPERTIES = {"owner": "ml-platform", "note": "größer, 東京, 'quoted' \"twice\" \\ {json}"}


def awkward_properties(context: CheckContext) -> dict[str, str]:
    """Return properties with unicode, quotes and the longest possible value."""
    return {**_PROPERTIES, "long": "x" * (context.backend.capabilities().longest_property or _LONG)}


@check("CreateNamespace")
def a_namespace_is_created_and_found(context: CheckContext) -> None:
    """A created namespace exists, is described and listed."""
    listed = context.namespaces(context.base[:-1])
    equal("the new namespace in the list of its parent", context.base[-1] in listed, expected=True)
    context.call("namespace_exists", context.base)
    context.namespace_properties(context.base)


@check("CreateNamespace")
def namespace_properties_round_trip(context: CheckContext) -> None:
    """Properties come back as given: unicode, quotes and long values."""
    require(context.backend.capabilities().namespace_markers, "namespaces keep no properties")
    properties = awkward_properties(context)
    with context.second_namespace(properties) as other:
        equal("the properties", context.namespace_properties_in(other, properties), properties)


@check("CreateNamespace")
def a_second_create_is_refused(context: CheckContext) -> None:
    """Creating what exists raises NamespaceAlreadyExists."""
    raises(spec.NamespaceAlreadyExistsError, lambda: context.create(context.base))
    raises(spec.NamespaceAlreadyExistsError, lambda: context.create(context.base, mode="Create"))


@check("CreateNamespace")
def exist_ok_leaves_what_exists(context: CheckContext) -> None:
    """Mode exist_ok succeeds on an existing namespace and leaves its properties."""
    before = context.namespace_properties(context.base)
    context.create(context.base, {"owner": "somebody else"}, mode="EXIST_OK")
    equal("the properties", context.namespace_properties(context.base), before)


@check("CreateNamespace", promised=True)
def overwrite_replaces_properties_and_drops_nothing(context: CheckContext) -> None:
    """Mode overwrite replaces the properties; the tables inside stay."""
    able = context.backend.capabilities()
    require(able.namespace_markers and able.alter_namespace, "the properties of a namespace cannot be changed")
    with context.second_namespace({"old": "1", "kept": "1"}) as other:
        context.declare((*other, "inside"))
        context.create(other, {"kept": "2"}, mode="overwrite")
        equal("the properties", context.namespace_properties_in(other, ("old", "kept")), {"old": None, "kept": "2"})
        equal("the tables", context.tables(other), ["inside"])


@check("CreateNamespace")
def a_missing_parent_is_named(context: CheckContext) -> None:
    """Creating below a namespace that does not exist raises NamespaceNotFound."""
    inner = context.nested_namespace("missing")
    most = context.backend.capabilities().max_depth
    require(most is None or len(inner) < most, "namespaces do not nest this deep here")
    raises(spec.NamespaceNotFoundError, lambda: context.create((*inner, "child")))


@check("CreateNamespace", promised=True)
def an_unknown_mode_is_refused(context: CheckContext) -> None:
    """A mode that does not exist raises InvalidInput."""
    raises(spec.InvalidInputError, lambda: context.create(context.sibling("_second"), mode="sometimes"))


@check("CreateNamespace")
def the_root_cannot_be_created_or_dropped(context: CheckContext) -> None:
    """The root namespace always exists: creating or dropping it raises InvalidInput."""
    refusals: tuple[type[spec.LanceNamespaceError], ...] = (spec.InvalidInputError,)
    if not context.is_backend:
        refusals = (
            spec.InvalidInputError,
            spec.NamespaceAlreadyExistsError,
            spec.NamespaceNotEmptyError,
            spec.UnsupportedOperationError,
        )
    raises(refusals, lambda: context.create([]))
    raises(refusals, lambda: context.drop([]))


@check("CreateNamespace", promised=True)
def fixed_levels_stay(context: CheckContext) -> None:
    """The fixed outermost levels of a catalog are never created or dropped."""
    fixed = context.backend.capabilities().fixed_levels
    require(fixed > 0, "every level can be created")
    require(len(context.base) > fixed, "no fixed level is above")
    refusals: tuple[type[spec.LanceNamespaceError], ...] = (spec.UnsupportedOperationError, spec.InvalidInputError)
    raises(refusals, lambda: context.create(("lancens_check_new",)))
    raises((*refusals, spec.NamespaceNotEmptyError), lambda: context.drop(context.base[:fixed]))
    context.namespace_properties(context.base)


@check("DescribeNamespace")
def the_root_is_described(context: CheckContext) -> None:
    """The root namespace exists and is described."""
    context.call("namespace_exists", [])
    properties = context.namespace_properties([])
    if context.is_backend:
        equal("the properties of the root", properties, {})


@check("DescribeNamespace")
def a_missing_namespace_is_not_found(context: CheckContext) -> None:
    """Describing, and asking for, a missing namespace raises NamespaceNotFound."""
    missing = context.sibling("_missing")
    raises(spec.NamespaceNotFoundError, lambda: context.namespace_properties(missing))
    raises(spec.NamespaceNotFoundError, lambda: context.call("namespace_exists", missing))


@check("DescribeNamespace", promised=True)
def a_namespace_too_deep_is_refused(context: CheckContext) -> None:
    """An identifier deeper than the catalog nests raises InvalidInput."""
    most = context.backend.capabilities().max_depth
    require(most is not None, "namespaces nest without limit")
    deep = (*context.base, *("deeper",) * ((most or 0) + 1 - len(context.base)))
    raises(spec.InvalidInputError, lambda: context.namespace_properties(deep))
    raises(spec.InvalidInputError, lambda: context.create(deep))


@check("ListNamespaces")
def namespaces_are_listed_in_pages(context: CheckContext) -> None:
    """Pages of any size together hold every child once, in order."""
    names = [f"n{number}" for number in range(5)]
    for name in names:
        context.create(context.nested_namespace(name))
    context.expect_pages("list_namespaces", names)


@check("ListNamespaces")
def listing_a_missing_namespace_is_an_error(context: CheckContext) -> None:
    """The children of a missing namespace are not an empty list but NamespaceNotFound."""
    missing = context.sibling("_missing")
    if context.is_backend:
        raises(ours.NamespaceNotFoundError, lambda: list(context.backend.child_tables(missing)))
    raises(spec.NamespaceNotFoundError, lambda: context.tables(missing))
    if context.can_nest:
        raises(spec.NamespaceNotFoundError, lambda: context.namespaces(missing))


@check("AlterNamespace", promised=True)
def altering_a_namespace_merges(context: CheckContext) -> None:
    """Keys that are set or removed change; every other key stays."""
    capabilities = context.backend.capabilities()
    require(
        capabilities.namespace_markers and capabilities.alter_namespace,
        "the properties of a namespace cannot be changed",
    )
    with context.second_namespace({"unknown": "stays", "old": "1", "both": "1"}) as other:
        changes = PropertyChanges({"both": "2", "new": "3"}, frozenset({"old", "never there"}))
        answer = context.backend.alter_namespace(other, changes)
        expected = {"unknown": "stays", "both": "2", "new": "3", "old": None}
        equal("the answer", {key: answer.properties.get(key) for key in expected}, expected)
        equal("the properties", context.namespace_properties_in(other, expected), expected)


@check("AlterNamespace", promised=True)
def altering_a_missing_namespace_is_not_found(context: CheckContext) -> None:
    """Altering a missing namespace raises NamespaceNotFound."""
    require(context.backend.capabilities().alter_namespace, "the properties of a namespace cannot be changed")
    missing = context.sibling("_missing")
    raises(ours.NamespaceNotFoundError, lambda: context.backend.alter_namespace(missing, PropertyChanges({"a": "b"})))


@check("DropNamespace")
def an_empty_namespace_is_dropped(context: CheckContext) -> None:
    """Dropping an empty namespace removes it; its parent stays."""
    with context.second_namespace() as other:
        context.drop(other)
        raises(spec.NamespaceNotFoundError, lambda: context.namespace_properties(other))
    context.namespace_properties(context.base)


@check("DropNamespace")
def dropping_a_missing_namespace(context: CheckContext) -> None:
    """Dropping a missing namespace raises NamespaceNotFound in mode fail and succeeds in mode skip."""
    # The default mode differs: in Iceberg REST, a missing namespace counts as dropped.
    missing = context.sibling("_missing")
    raises(spec.NamespaceNotFoundError, lambda: context.drop(missing, mode="Fail"))
    context.drop(missing, mode="SKIP")


@check("DropNamespace")
def restrict_keeps_what_is_not_empty(context: CheckContext) -> None:
    """Behaviour restrict refuses a namespace with a table in it: NamespaceNotEmpty."""
    context.declare((*context.base, "inside"))
    raises(spec.NamespaceNotEmptyError, lambda: context.drop(context.base))
    raises(spec.NamespaceNotEmptyError, lambda: context.drop(context.base, mode="skip", behavior="Restrict"))
    equal("the tables", context.tables(context.base), ["inside"])


@check("DropNamespace")
def restrict_keeps_a_parent(context: CheckContext) -> None:
    """Behaviour restrict refuses a namespace with a namespace in it: NamespaceNotEmpty."""
    context.create(context.nested_namespace())
    raises(spec.NamespaceNotEmptyError, lambda: context.drop(context.base))
    context.namespace_properties(context.nested_namespace())


@check("DropNamespace", promised=True)
def cascade_deregisters_and_keeps_data(context: CheckContext) -> None:
    """Behaviour cascade removes the entries of a namespace; every data file stays as it was."""
    with context.second_namespace() as other:
        location = context.create_table_with_data((*other, "real"))
        context.declare((*other, "declared"))
        with context.data_unchanged(location):
            context.drop(other, behavior="Cascade")
        raises(spec.NamespaceNotFoundError, lambda: context.namespace_properties(other))


@check("DropNamespace", promised=True)
def cascade_goes_deepest_first(context: CheckContext) -> None:
    """Behaviour cascade empties namespaces within namespaces."""
    inner = context.nested_namespace(with_tables=True)
    context.create(inner)
    context.declare((*context.base, "outside"))
    context.declare((*inner, "inside"))
    context.drop(context.base, behavior="cascade")
    raises(spec.NamespaceNotFoundError, lambda: context.namespace_properties(context.base))
    raises((spec.NamespaceNotFoundError, spec.TableNotFoundError), lambda: context.describe((*inner, "inside")))


@check("DropNamespace", promised=True)
def foreign_objects_keep_a_namespace(context: CheckContext) -> None:
    """A namespace that holds a view or another format's table is not dropped, not even by cascade."""
    with context.foreign_object():
        context.declare((*context.base, "ours"))
        raises(spec.NamespaceNotEmptyError, lambda: context.drop(context.base, behavior="cascade"))
        equal("the Lance tables", context.tables(context.base), ["ours"])
        context.deregister((*context.base, "ours"))
        raises(spec.NamespaceNotEmptyError, lambda: context.drop(context.base))
        raises(ours.NamespaceNotEmptyError, lambda: context.backend.remove_namespace(context.base))
