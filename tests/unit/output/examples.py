"""Plans to look at: the one of the README's picture, and one of any size."""

from __future__ import annotations

from functools import cache

from reconciler.model.columns import Column
from reconciler.model.desired import Source
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.planner.entries import Action, Blocked, Change, Note, Protection
from reconciler.planner.plan import CatalogSummary, ManifestRef, Plan
from reconciler.planner.views import ObjectView, field_changes

OWNER = "feature-store/lake"
_MANIFEST = ManifestRef(
    name="feature-store",
    digest="5b" * 32,
    files=("lancens.yaml",),
    given={"env": "prod"},
    services={"lake": "s3://lake", "prod": "eu-west-1"},
)


def at(line: int) -> Source:
    return Source(file="lancens.yaml", line=line)


def change(
    catalog: str,
    path: str,
    action: Action,
    before: ObjectView | None,
    after: ObjectView | None,
    reason: str,
    line: int | None = None,
) -> Change:
    return Change(
        catalog=catalog,
        kind="namespace" if action.value.endswith("namespace") else "table",
        identifier=tuple(path.split("/")),
        action=action,
        before=before,
        after=after,
        fields=field_changes(before, after, f"{catalog}/{path}"),
        code=ReasonCode.SAFEGUARD,
        params={"detail": reason},
        source=None if line is None else at(line),
    )


def view(location: str | None = None, /, *columns: Column, **properties: str) -> ObjectView:
    return ObjectView(
        location=location,
        managed_by=OWNER,
        keys=tuple(sorted(properties)),
        properties=properties,
        columns=columns or None,
    )


USERS = (
    Column(name="user_id", type="int64", nullable=False),
    Column(name="embedding", type="fixed_size_list<float32>[768]"),
)


def small_plan() -> Plan:
    """One change of every kind that matters, in two catalogs."""
    dropped = Column(name="score", type="float32")
    return Plan(
        manifest=_MANIFEST,
        catalogs=(
            CatalogSummary(name="lake", impl="dir", namespaces=3, tables=41, removable_tables=41, desired_objects=45),
            CatalogSummary(
                name="prod", impl="glue", namespaces=12, tables=1204, removable_tables=1190, desired_objects=1215
            ),
        ),
        changes=(
            change("lake", "features/eu", Action.CREATE_NAMESPACE, None, view(), "in the manifest", 20),
            change(
                "lake",
                "features/eu/users",
                Action.CREATE_TABLE,
                None,
                view("s3://lake/features/eu/users.lance", *USERS, tier="gold"),
                "in the manifest, no data yet",
                21,
            ),
            change(
                "lake",
                "features/events",
                Action.UPDATE_TABLE,
                view("s3://lake/events.lance", tier="silver", reviewed="no"),
                view("s3://lake/events.lance", tier="gold", contact="ml-platform"),
                "differs from the manifest",
                19,
            ),
            change(
                "lake",
                "features/clicks",
                Action.RELOCATE_TABLE,
                view("s3://lake/old/clicks.lance"),
                view("s3://lake/clicks.lance"),
                "registered elsewhere",
                23,
            ),
            change(
                "lake",
                "features/sessions",
                Action.REGISTER_TABLE,
                None,
                view("s3://lake/sessions.lance"),
                "data found at its location",
                25,
            ),
            change(
                "prod",
                "analytics/scores",
                Action.ALTER_TABLE,
                view("s3://prod/scores.lance", *USERS),
                view("s3://prod/scores.lance", *USERS, dropped),
                "columns to add",
                31,
            ),
            change(
                "prod",
                "analytics/clicks_2023",
                Action.DEREGISTER_TABLE,
                view("s3://prod/clicks_2023.lance"),
                None,
                "owned, no longer in the manifest",
            ),
        ),
        guards=(
            Protection(
                catalog="prod",
                kind="table",
                identifier=("analytics", "orders"),
                would=Action.DEREGISTER_TABLE,
                code=ReasonCode.NO_LONGER_IN_MANIFEST,
            ),
        ),
        notes=(
            Note(
                catalog="prod",
                code=NoteCode.UNMANAGED,
                params={"where": "prod", "count": 7, "owner": "feature-store", "catalog": "prod", "value": "prod/**"},
            ),
        ),
    )


def large_plan(changes: int, *, unequal: bool = False) -> Plan:
    """Return a plan of many changes of several kinds, spread over three catalogs and ten namespaces in each."""
    made = []
    why = "{}" if unequal else ""
    waits = "in the manifest, no data yet"
    for number in range(changes):
        catalog = ("lake", "prod", "archive")[number % 3]
        path = f"team_{number % 10}/table_{number:06}"
        place = f"s3://{catalog}/{path}.lance"
        match number % 5:
            case 0 | 1:
                made.append(
                    change(
                        catalog,
                        path,
                        Action.DECLARE_TABLE,
                        None,
                        view(place),
                        waits + why.format(number),
                        number,
                    )
                )
            case 2:
                made.append(
                    change(
                        catalog,
                        path,
                        Action.UPDATE_TABLE,
                        view(place, tier="silver"),
                        view(place, tier="gold", batch=str(number % 7)),
                        "differs from the manifest" + why.format(number),
                        number,
                    )
                )
            case 3:
                reason = waits + why.format(number)
                made.append(change(catalog, path, Action.CREATE_TABLE, None, view(place, *USERS), reason, number))
            case _:
                reason = "owned, no longer in the manifest" + why.format(number)
                made.append(change(catalog, path, Action.DEREGISTER_TABLE, view(place), None, reason))
    return small_plan().model_copy(update={"changes": tuple(made)})


@cache
def schema_edit() -> Plan:
    """One column more in 306 tables of three catalogs, and twelve tables that cannot get it for one reason."""
    added = Column(name="y", type="int64")
    catalogs = ("hms", "lake", "prod")
    paths = [f"team_{number % 6}/table_{number:03}" for number in range(102)]
    made = [
        change(
            catalog,
            path,
            Action.ALTER_TABLE,
            view(f"s3://{catalog}/{path}.lance", *USERS),
            view(f"s3://{catalog}/{path}.lance", *USERS, added),
            "",
            number,
        ).model_copy(update={"code": ReasonCode.COLUMNS, "params": {"added": ("y",)}})
        for catalog in catalogs
        for number, path in enumerate(paths)
    ]
    held = [
        Blocked(
            catalog="prod",
            kind="table",
            identifier=("ads", name),
            code=ReasonCode.STORAGE_DENIED,
            params={"location": f"s3://prod/ads/{name}.lance", "detail": f"s3://prod/ads/{name}.lance: 403"},
            location=f"s3://prod/ads/{name}.lance",
            source=at(400),
        )
        for name in (f"bids_{number:02}" for number in range(12))
    ]
    summaries = tuple(
        CatalogSummary(name=name, impl="memory", namespaces=6, tables=102, removable_tables=102, desired_objects=108)
        for name in catalogs
    )
    return Plan(manifest=_MANIFEST, catalogs=summaries, changes=tuple(made), blocked=tuple(held))


def removals(number: int) -> Plan:
    """Return a plan that removes tables of five namespaces."""
    gone = [
        change("lake", f"ns_{one % 5}/t{one:03}", Action.DEREGISTER_TABLE, view(f"s3://lake/{one}"), None, "gone")
        for one in range(number)
    ]
    return small_plan().model_copy(update={"changes": tuple(gone), "guards": (), "notes": ()})


LONG = "s3://a-bucket-with-a-long-name/features/eu/customers/orders.lance"


def held(name: str, location: str = LONG) -> Blocked:
    """Return a table whose data needs two calls."""
    calls = (
        f'ds = lance.dataset("{location}")',
        'ds.alter_columns({"path": "amount", "data_type": pa.int64()})',
        'ds.drop_columns(["x"])',
    )
    return Blocked(
        catalog="lake",
        kind="table",
        identifier=("features", name),
        code=ReasonCode.OTHER_COLUMNS,
        params={
            "location": location,
            "differences": ("`amount` is int32, the block says int64",),
            "lines": ("{name: amount, type: int32}",),
            "code": "; ".join(calls),
            "rewritten": ("amount",),
        },
        location=location,
    )
