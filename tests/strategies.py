"""Hypothesis strategies for plans: ordinary ones, and ones whose every name and value is hostile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_type_hints

from hypothesis import strategies as st

from reconciler.model.columns import Column
from reconciler.model.desired import Source
from reconciler.model.reasons import NoteCode, Params, ReasonCode
from reconciler.planner.entries import Action, Blocked, Change, Fingerprint, Kind, Note, Protection
from reconciler.planner.plan import CatalogSummary, ManifestRef, Plan
from reconciler.planner.views import ObjectView, field_changes

SECRET = "hunter2-correct-horse"
"""Part of every value that must not be shown, and of nothing else."""

HOSTILE = (
    "\x1b[31mred\x1b[0m",
    "\x9b31m",
    "a\nPlan: 0 to create, 0 to declare, 0 to update, 0 to deregister.",
    "\r+ forged",
    "\u202eecnal",
    "\u2066isolated\u2069",
    "zero\u200bwidth",
    "[red]bold[/red]",
    "a|b",
    "`code` ``more``",
    "\\|",
    "\\",
    "<script>alert(1)</script>",
    "</script></style><!-- -->",
    "<img src=x onerror=alert(1)>",
    "[link](https://example.com)",
    "![image](https://example.com/x.png)",
    "https://example.com www.example.com",
    "@octocat #1 GH-1 owner/repo#2",
    "**bold** _em_ ~~gone~~",
    "*",
    "-/+ features/users",
    "a -> b",
    " padded ",
    "&lt;&#64;",
    '"quoted"',
    "'; DROP TABLE",
    "表テーブル",
    "e\u0301\u0301\u0301",
    "\u0301leading",
    "ﷺ" * 5,
    "👩‍👩‍👧‍👦",
    "x" * 300,
    "\u3164",
    "",
)

_ordinary = st.sampled_from(("a", "b2", "id", "users", "clicks", "events_2026", "embeddings_v"))
hostile_text = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=12))
names = st.one_of(_ordinary, hostile_text)
identifiers = st.lists(names, min_size=1, max_size=4).map(tuple)

_catalog_names = st.one_of(st.sampled_from(("lake", "prod")), names)
_sensitive_keys = st.sampled_from(("db_password", "api-key", "TOKEN", "fs.s3a.access.key", "client_secret"))
_secrets = st.integers(0, 3).map(lambda number: f"{SECRET}-{number}")
_plain_locations = st.one_of(
    _ordinary.map(lambda name: f"s3://bucket/{name}.lance"),
    _ordinary.map(lambda name: f"/data/{name}"),
    hostile_text.map(lambda text: f"gs://bucket/{text.replace('?', '').replace('#', '')}"),
)
_secret_locations = st.one_of(
    _secrets.map(lambda secret: f"s3://key:{secret}@bucket/table.lance"),
    _secrets.map(lambda secret: f"https://host/table.lance?sig={secret}"),
)
locations = st.one_of(_plain_locations, _secret_locations)
_properties = st.builds(
    lambda plain, sensitive: {**plain, **sensitive},
    st.dictionaries(names.filter(lambda key: SECRET not in key), hostile_text | _ordinary, max_size=3),
    st.dictionaries(_sensitive_keys, _secrets, max_size=2),
)
columns = st.builds(
    Column,
    name=names,
    type=st.sampled_from(("int64", "utf8", "fixed_size_list<float32>[768]", "struct<a: int64, b: list<utf8>>")),
    nullable=st.booleans(),
    metadata=st.dictionaries(_ordinary, hostile_text, max_size=1),
)
_columns = st.none() | st.lists(columns, max_size=4, unique_by=lambda column: column.name).map(tuple)
# What is drawn many times is made once: to make a strategy anew takes longer than to draw from it.
_managers = st.none() | st.just("store/lake") | hostile_text
_booleans = st.booleans()


@st.composite
def views(draw: st.DrawFn, kind: Kind = "table") -> ObjectView:
    """Draw what is compared of one object."""
    properties = draw(_properties)
    return ObjectView(
        location=draw(locations) if kind == "table" else None,
        managed_by=draw(_managers),
        protect=draw(_booleans),
        keys=tuple(sorted(properties)),
        properties=properties,
        columns=draw(_columns) if kind == "table" else None,
    )


_VIEWS: dict[Kind, st.SearchStrategy[ObjectView]] = {"table": views("table"), "namespace": views("namespace")}
_views_or_none = {kind: st.none() | of_kind for kind, of_kind in _VIEWS.items()}
_sources = st.none() | st.builds(Source, file=st.just("lancens.yaml") | hostile_text, line=st.integers(1, 10_000))
_texts = st.sampled_from(("lake/t", "/data/t.lance")) | hostile_text
_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: _texts,
    int: st.integers(0, 10_000),
    bool: st.booleans(),
    tuple[str, ...]: st.lists(_texts, max_size=5).map(tuple),
    Mapping[str, str]: st.dictionaries(_texts, _texts, max_size=3),
}
_BY_NAME = {name: _BY_TYPE[kind] for name, kind in get_type_hints(Params).items()}
_param_names = st.lists(st.sampled_from(sorted(_BY_NAME)), max_size=8, unique=True)
_actions, _codes = st.sampled_from(Action), st.sampled_from(ReasonCode)
_refused = st.sampled_from((Action.DEREGISTER_TABLE, Action.DROP_NAMESPACE, Action.RELOCATE_TABLE))


@st.composite
def _params(draw: st.DrawFn) -> Params:
    """Draw some parameters of the words; all of them would be most of what a plan costs to draw."""
    return cast(Params, {name: draw(_BY_NAME[name]) for name in draw(_param_names)})


_some_params = _params()
_details = st.just("") | hostile_text


def _kind_of(action: Action) -> Kind:
    return "namespace" if action.value.endswith("namespace") else "table"


@st.composite
def changes(draw: st.DrawFn, catalogs: st.SearchStrategy[str] = _catalog_names) -> Change:
    """Draw a change whose views fit its action; nothing is promised about its place among others."""
    action = draw(_actions)
    kind = _kind_of(action)
    creates = action in (Action.CREATE_NAMESPACE, Action.CREATE_TABLE, Action.DECLARE_TABLE, Action.REGISTER_TABLE)
    before = None if creates else draw(_VIEWS[kind])
    after = None if action.removes else draw(_VIEWS[kind])
    return Change(
        catalog=draw(catalogs),
        kind=kind,
        identifier=draw(identifiers),
        action=action,
        before=before,
        after=after,
        fields=field_changes(before, after, "lake/t"),
        code=draw(_codes),
        params=draw(_some_params),
        source=draw(_sources),
    )


@st.composite
def guards(draw: st.DrawFn, catalogs: st.SearchStrategy[str] = _catalog_names) -> Protection:
    """Draw a protected object."""
    would = draw(_refused)
    return Protection(
        catalog=draw(catalogs),
        kind=_kind_of(would),
        identifier=draw(identifiers),
        would=would,
        code=draw(_codes),
        params=draw(_some_params),
        source=draw(_sources),
    )


@st.composite
def blocked_objects(draw: st.DrawFn, catalogs: st.SearchStrategy[str] = _catalog_names) -> Blocked:
    """Draw an object that cannot be planned."""
    kind = _kind_of(draw(_actions))
    return Blocked(
        catalog=draw(catalogs),
        kind=kind,
        identifier=draw(identifiers),
        code=draw(_codes),
        params=draw(_some_params),
        source=draw(_sources),
        before=draw(_views_or_none[kind]),
        detail=draw(_details),
    )


_counts = st.integers(0, 10_000)
_impls = st.just("dir") | hostile_text
_files = st.lists(names, max_size=2).map(tuple)
_given = st.dictionaries(names, names, max_size=2)
_changes = changes()
_lists_of_changes = st.lists(_changes, max_size=2)
_lists_of_blocked = st.lists(blocked_objects(), max_size=2)
_lists_of_guards = st.lists(guards(), max_size=2)
_lists_of_notes = st.lists(
    st.builds(Note, catalog=names, code=st.sampled_from(NoteCode), params=_some_params), max_size=2
)


@st.composite
def plans(draw: st.DrawFn, max_changes: int = 4) -> Plan:
    """Draw a plan that can be shown and saved; its changes depend on changes before them."""
    drawn = draw(st.lists(_changes, max_size=max_changes))
    dependent = [
        change.model_copy(update={"depends_on": (draw(st.integers(0, position - 1)),)})
        if position and draw(_booleans)
        else change
        for position, change in enumerate(drawn)
    ]
    catalogs = [
        CatalogSummary(
            name=name,
            impl=draw(_impls),
            namespaces=draw(_counts),
            tables=draw(_counts),
            removable_tables=draw(_counts),
            desired_objects=draw(_counts),
        )
        for name in sorted({change.catalog for change in drawn if draw(_booleans)})
    ]
    return Plan(
        manifest=ManifestRef(
            name=draw(names),
            digest="ab" * 32,
            files=draw(_files),
            given=draw(_given),
            services={catalog.name: draw(names) for catalog in catalogs},
        ),
        catalogs=tuple(catalogs),
        changes=tuple(dependent),
        blocked=tuple(draw(_lists_of_blocked)),
        waiting=tuple(draw(_lists_of_changes)),
        guards=tuple(draw(_lists_of_guards)),
        notes=tuple(draw(_lists_of_notes)),
        fingerprints=tuple(
            Fingerprint.of(change.catalog, change.kind, change.identifier, change.before, change.managed_keys)
            for change in dependent
        ),
    )
