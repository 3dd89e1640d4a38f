"""Checks of the namespace operations."""

from __future__ import annotations

from lance_namespace import ListNamespacesRequest, NamespaceExistsRequest
from lance_namespace.errors import (
    InvalidInputError,
    LanceNamespaceError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
)

from reconciler.conformance.check import FaultError, check, equal, need, raises
from reconciler.conformance.ground import Ground
from reconciler.names import Identifier
from reconciler.state import PropertyChanges

_LONG = 1500
_PROPERTIES = {"owner": "ml-platform", "note": "größer, 東京, 'quoted' \"twice\" \\ {json}"}


def awkward_properties(ground: Ground) -> dict[str, str]:
    """Return properties with everything in them that a catalog should keep, as long as this one can."""
    return {**_PROPERTIES, "long": "x" * (ground.backend.capabilities.longest_property or _LONG)}


def _sibling(ground: Ground, suffix: str = "_second") -> Identifier:
    """Return the identifier of a namespace beside ``base``: every catalog can hold that one."""
    return (*ground.base[:-1], ground.base[-1] + suffix)


@check("CreateNamespace")
def a_namespace_is_created_and_found(ground: Ground) -> None:
    """A created namespace exists, is described and listed."""
    listed = ground.namespaces(ground.base[:-1])
    equal("the new namespace in the list of its parent", ground.base[-1] in listed, wanted=True)
    ground.backend.namespace_exists(NamespaceExistsRequest(id=list(ground.base)))
    ground.namespace(ground.base)


@check("CreateNamespace")
def namespace_properties_round_trip(ground: Ground) -> None:
    """Properties come back as given: unicode, quotes and long values."""
    need(ground.backend.capabilities.namespace_markers, "namespaces keep no properties")
    other = _sibling(ground)
    try:
        given = awkward_properties(ground)
        ground.create(other, given)
        found = ground.namespace(other)
        equal("the properties", {key: found.get(key) for key in given}, given)
    finally:
        ground.drop(other, mode="skip")


@check("CreateNamespace")
def a_second_create_is_refused(ground: Ground) -> None:
    """Creating what exists raises NamespaceAlreadyExists."""
    raises(NamespaceAlreadyExistsError, lambda: ground.create(ground.base))
    raises(NamespaceAlreadyExistsError, lambda: ground.create(ground.base, mode="Create"))


@check("CreateNamespace")
def exist_ok_leaves_what_exists(ground: Ground) -> None:
    """Mode exist_ok succeeds on an existing namespace and leaves its properties."""
    before = ground.namespace(ground.base)
    ground.create(ground.base, {"owner": "somebody else"}, mode="EXIST_OK")
    equal("the properties", ground.namespace(ground.base), before)


@check("CreateNamespace")
def overwrite_replaces_properties_and_drops_nothing(ground: Ground) -> None:
    """Mode overwrite replaces the properties; the tables inside stay."""
    able = ground.backend.capabilities
    need(able.namespace_markers and able.alter_namespace, "the properties of a namespace cannot be changed")
    other = _sibling(ground)
    try:
        ground.create(other, {"old": "1", "kept": "1"})
        ground.declare((*other, "inside"))
        ground.create(other, {"kept": "2"}, mode="overwrite")
        found = ground.namespace(other)
        equal("the properties", {key: found.get(key) for key in ("old", "kept")}, {"old": None, "kept": "2"})
        equal("the tables", ground.tables(other), ["inside"])
    finally:
        ground.drop(other, mode="skip", behavior="cascade")


@check("CreateNamespace")
def a_missing_parent_is_named(ground: Ground) -> None:
    """Creating below a namespace that does not exist raises NamespaceNotFound."""
    inner = ground.nested("missing")
    most = ground.backend.capabilities.max_depth
    need(most is None or len(inner) < most, "namespaces do not nest this deep here")
    raises(NamespaceNotFoundError, lambda: ground.create((*inner, "child")))


@check("CreateNamespace")
def an_unknown_mode_is_refused(ground: Ground) -> None:
    """A mode that does not exist raises InvalidInput."""
    raises(InvalidInputError, lambda: ground.create(_sibling(ground), mode="sometimes"))


@check("CreateNamespace")
def the_root_cannot_be_created_or_dropped(ground: Ground) -> None:
    """The root namespace is always there: creating or dropping it raises InvalidInput."""
    raises(InvalidInputError, lambda: ground.create([]))
    raises(InvalidInputError, lambda: ground.drop([]))


@check("CreateNamespace")
def fixed_levels_stay(ground: Ground) -> None:
    """The outermost levels that a catalog keeps itself are never created or dropped."""
    fixed = ground.backend.capabilities.fixed_levels
    need(fixed > 0, "every level can be created")
    need(len(ground.base) > fixed, "no fixed level is above")
    refusals: tuple[type[LanceNamespaceError], ...] = (UnsupportedOperationError, InvalidInputError)
    raises(refusals, lambda: ground.create(("lancens_check_new",)))
    raises((*refusals, NamespaceNotEmptyError), lambda: ground.drop(ground.base[:fixed]))
    ground.namespace(ground.base)


@check("DescribeNamespace")
def the_root_is_described(ground: Ground) -> None:
    """The root namespace exists and has no properties."""
    ground.backend.namespace_exists(NamespaceExistsRequest(id=[]))
    equal("the properties of the root", ground.namespace([]), {})


@check("DescribeNamespace")
def a_missing_namespace_is_not_found(ground: Ground) -> None:
    """Describing, and asking for, a missing namespace raises NamespaceNotFound."""
    missing = _sibling(ground, "_missing")
    raises(NamespaceNotFoundError, lambda: ground.namespace(missing))
    raises(NamespaceNotFoundError, lambda: ground.backend.namespace_exists(NamespaceExistsRequest(id=list(missing))))


@check("DescribeNamespace")
def a_namespace_too_deep_is_refused(ground: Ground) -> None:
    """An identifier deeper than the catalog nests raises InvalidInput."""
    most = ground.backend.capabilities.max_depth
    need(most is not None, "namespaces nest without limit")
    deep = (*ground.base, *("deeper",) * ((most or 0) + 1 - len(ground.base)))
    raises(InvalidInputError, lambda: ground.namespace(deep))
    raises(InvalidInputError, lambda: ground.create(deep))


@check("ListNamespaces")
def namespaces_are_listed_in_pages(ground: Ground) -> None:
    """Pages of any size together hold every child once, in order."""
    names = [f"n{number}" for number in range(5)]
    for name in names:
        ground.create(ground.nested(name))
    for limit in (1, 2, 5, 100):
        found: list[str] = []
        token = None
        while True:
            page = ground.backend.list_namespaces(
                ListNamespacesRequest(id=list(ground.base), limit=limit, page_token=token)
            )
            if len(page.namespaces) > limit:
                raise FaultError(f"a page of {len(page.namespaces)} names where {limit} were asked for")
            found += page.namespaces
            token = page.page_token
            if not token:
                break
        equal(f"the children in pages of {limit}", found, names)


@check("ListNamespaces")
def listing_a_missing_namespace_is_an_error(ground: Ground) -> None:
    """The children of a missing namespace are not an empty list but NamespaceNotFound."""
    missing = _sibling(ground, "_missing")
    raises(NamespaceNotFoundError, lambda: list(ground.backend.child_tables(missing)))
    raises(NamespaceNotFoundError, lambda: ground.tables(missing))
    if ground.nests:
        raises(NamespaceNotFoundError, lambda: ground.namespaces(missing))


@check("AlterNamespace")
def altering_a_namespace_merges(ground: Ground) -> None:
    """Keys that are set or removed change; every other key stays."""
    able = ground.backend.capabilities
    need(able.namespace_markers and able.alter_namespace, "the properties of a namespace cannot be changed")
    other = _sibling(ground)
    try:
        ground.create(other, {"unknown": "stays", "old": "1", "both": "1"})
        changes = PropertyChanges({"both": "2", "new": "3"}, frozenset({"old", "never there"}))
        answer = ground.backend.alter_namespace(other, changes)
        wanted = {"unknown": "stays", "both": "2", "new": "3", "old": None}
        for what, found in (("the answer", answer.properties), ("the properties", ground.namespace(other))):
            equal(what, {key: found.get(key) for key in wanted}, wanted)
    finally:
        ground.drop(other, mode="skip")


@check("AlterNamespace")
def altering_a_missing_namespace_is_not_found(ground: Ground) -> None:
    """A missing namespace cannot be altered: NamespaceNotFound."""
    need(ground.backend.capabilities.alter_namespace, "the properties of a namespace cannot be changed")
    missing = _sibling(ground, "_missing")
    raises(NamespaceNotFoundError, lambda: ground.backend.alter_namespace(missing, PropertyChanges({"a": "b"})))


@check("DropNamespace")
def an_empty_namespace_is_dropped(ground: Ground) -> None:
    """Dropping an empty namespace removes it; its parent stays."""
    other = _sibling(ground)
    ground.create(other)
    ground.drop(other)
    raises(NamespaceNotFoundError, lambda: ground.namespace(other))
    ground.namespace(ground.base)


@check("DropNamespace")
def dropping_a_missing_namespace(ground: Ground) -> None:
    """A missing namespace is NamespaceNotFound in mode fail and nothing in mode skip."""
    # What no mode means differs: the Iceberg REST specification counts a missing namespace as dropped.
    missing = _sibling(ground, "_missing")
    raises(NamespaceNotFoundError, lambda: ground.drop(missing, mode="Fail"))
    ground.drop(missing, mode="SKIP")


@check("DropNamespace")
def restrict_keeps_what_is_not_empty(ground: Ground) -> None:
    """Behaviour restrict refuses a namespace with a table in it: NamespaceNotEmpty."""
    ground.declare((*ground.base, "inside"))
    raises(NamespaceNotEmptyError, lambda: ground.drop(ground.base))
    raises(NamespaceNotEmptyError, lambda: ground.drop(ground.base, mode="skip", behavior="Restrict"))
    equal("the tables", ground.tables(ground.base), ["inside"])


@check("DropNamespace")
def restrict_keeps_a_parent(ground: Ground) -> None:
    """Behaviour restrict refuses a namespace with a namespace in it: NamespaceNotEmpty."""
    ground.create(ground.nested())
    raises(NamespaceNotEmptyError, lambda: ground.drop(ground.base))
    ground.namespace(ground.nested())


@check("DropNamespace")
def cascade_deregisters_and_keeps_data(ground: Ground) -> None:
    """Behaviour cascade removes the entries of a namespace; every data file stays as it was."""
    other = _sibling(ground)
    try:
        ground.create(other)
        place = ground.place((*other, "real"))
        ground.write(place)
        before = ground.data(place)
        ground.register((*other, "real"), place)
        ground.declare((*other, "declared"))
        ground.drop(other, behavior="Cascade")
        raises(NamespaceNotFoundError, lambda: ground.namespace(other))
        equal("the data files", ground.data(place), before)
    finally:
        ground.drop(other, mode="skip", behavior="cascade")


@check("DropNamespace")
def cascade_goes_deepest_first(ground: Ground) -> None:
    """Behaviour cascade empties namespaces within namespaces."""
    inner = ground.nested(with_tables=True)
    ground.create(inner)
    ground.declare((*ground.base, "outside"))
    ground.declare((*inner, "inside"))
    ground.drop(ground.base, behavior="cascade")
    raises(NamespaceNotFoundError, lambda: ground.namespace(ground.base))
    raises((NamespaceNotFoundError, TableNotFoundError), lambda: ground.describe((*inner, "inside")))


@check("DropNamespace")
def foreign_objects_keep_a_namespace(ground: Ground) -> None:
    """A namespace that holds a view or another format's table is kept, by cascade too, with all that is in it."""
    need(ground.add_foreign is not None, "no way was given to make a foreign object")
    assert ground.add_foreign is not None
    ground.declare((*ground.base, "ours"))
    take_away = ground.add_foreign(ground.backend, (*ground.base, "theirs"))
    try:
        raises(NamespaceNotEmptyError, lambda: ground.drop(ground.base, behavior="cascade"))
        equal("the Lance tables", ground.tables(ground.base), ["ours"])
        ground.deregister((*ground.base, "ours"))
        raises(NamespaceNotEmptyError, lambda: ground.drop(ground.base))
        raises(NamespaceNotEmptyError, lambda: ground.backend.remove_namespace(ground.base))
    finally:
        take_away()
