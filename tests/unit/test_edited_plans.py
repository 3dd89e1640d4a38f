"""Random edits of saved plans: each is refused with nothing written, or gives what the plan itself gives.

Random manifests meet random catalogs, in memory and as directories. Of the plan each makes one thing at a time is
changed, anywhere in its JSON, and most of the edited plans get the digest that fits them.
"""

from __future__ import annotations

import copy
import json
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hypothesis
import lance
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import reconciler
from reconciler.backends.memory import MemoryBackend
from reconciler.manifest import Manifest
from reconciler.model.desired import DesiredCatalog
from reconciler.model.errors import LancensError, SelectionError
from reconciler.model.live import LiveTable, Snapshot
from reconciler.model.names import Identifier
from reconciler.planner.plan import Plan
from tests.plans import resealed
from tests.soak import count, seeded
from tests.states import held_names, mirrors, situations
from tests.unit.applier.world import FakeStorage, Ledger
from tests.unit.planner.building import USERS
from tests.writing import load_text

CATALOGS = ("lake", "prod")
EDITS_A_PLAN = 10

Node = dict[str, Any] | list[Any]


# ---- what is edited --------------------------------------------------------------------------------------------------

KNOWN: tuple[tuple[str, Any], ...] = (
    ("location", "shared-memory://shelf/9"),
    ("requested_location", "shared-memory://shelf/8"),
    ("managed_by", "store/lake"),
    ("protect", True),
    ("kind", "table"),
    ("keys", ["tier"]),
    ("properties", {"tier": "z"}),
    ("columns", [{"name": "x", "type": "int64"}]),
    ("before", {"managed_by": "store/lake"}),
    ("after", {"managed_by": "store/lake", "location": "shared-memory://shelf/1"}),
    ("probe", False),
    ("storage", "nothing"),
    ("storage", "dataset"),
    ("storage", "unknown"),
    ("depends_on", [0]),
    ("occupied", True),
    ("view", {"managed_by": "store/lake"}),
    ("digest", "0" * 64),
    ("managed_keys", ["tier"]),
    ("adopt", True),
    ("take_over", True),
    ("data", True),
    ("recreate_lost", ["lake/**"]),
    ("options", {"recreate_lost": ["lake/**"]}),
    ("mass_removal", True),
    ("select", ["lake/a/**"]),
    ("options", {"take_over": True}),
    ("options", {"adopt": True}),
    ("options", {"select": ["lake/**"]}),
    ("options", {"exclude": ["lake/a/**"]}),
    ("thresholds", {"max_removal_percent": 100, "min_tables": 1000}),
    ("removable_tables", 100_000),
    ("blocked", []),
    ("waiting", []),
    ("remedy", "run away"),
    ("detail", "no answer"),
    ("held_by", "delta, at s3://lake/theirs"),
    ("nonsense", 1),
)
"""Keys that a plan may have, which are put in where they may be missing."""


def nodes(node: Any) -> Iterator[Node]:
    """Everything in a document that holds something."""
    if isinstance(node, dict | list):
        yield node
        for inner in node.values() if isinstance(node, dict) else node:
            yield from nodes(inner)


def texts(node: Any) -> Iterator[str]:
    for one in nodes(node):
        yield from (value for value in (one.values() if isinstance(one, dict) else one) if isinstance(value, str))


def another(value: Any, chance: random.Random, document: Node) -> Any:
    """Something else of the same sort, or, now and then, of none."""
    if chance.random() < 0.05:
        return chance.choice([None, 0, "", [], {}, True, "\ud800"])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice([value + 1, value - 1, 0, value * 10, 10**30])
    if isinstance(value, str):
        return chance.choice([value + "x", value[:-1], "0" * len(value), chance.choice(list(texts(document)))])
    return copy.deepcopy(chance.choice([one for one in nodes(document) if type(one) is type(value)] or [None]))


def edit(document: dict[str, Any], chance: random.Random) -> str:
    """Change one thing in a saved plan; return what was done."""
    node = chance.choice(list(nodes(document)))
    if isinstance(node, list):
        at = chance.randrange(len(node)) if node else 0
        deed = chance.choice(["remove", "duplicate", "swap", "add", "change"] if node else ["add"])
        if deed == "remove":
            del node[at]
        elif deed == "duplicate":
            node.insert(chance.randrange(len(node) + 1), copy.deepcopy(node[at]))
        elif deed == "swap":
            other = chance.randrange(len(node))
            node[at], node[other] = node[other], node[at]
        elif deed == "change":
            node[at] = another(node[at], chance, document)
        else:
            node.append(copy.deepcopy(chance.choice([one for found in nodes(document) for one in values(found)])))
        return f"{deed} at {at} of a list"
    deed = chance.choice(["remove", "add", "change", "change", "change"])
    if deed == "add" or not node:
        key, value = chance.choice(KNOWN)
        node[key] = copy.deepcopy(value)
        return f"{key} put in"
    key = chance.choice(list(node))
    if deed == "remove":
        del node[key]
    else:
        node[key] = another(node[key], chance, document)
    return f"{deed} {key}"


def values(node: Node) -> list[Any]:
    return list(node.values()) if isinstance(node, dict) else node


# ---- where it is applied ---------------------------------------------------------------------------------------------


@dataclass
class Bench:
    """A manifest, and catalogs that can be put back to what they were."""

    manifest: Manifest
    journal: Path
    reset: Callable[[], None]
    state: Callable[[], object]

    def outcome(self, text: str, *, allow_mass_removal: bool) -> object:
        """Apply a saved plan to the catalogs as they were; return how all of it ended, or the error."""
        self.reset()
        try:
            report = reconciler.apply(
                Plan.from_json(text),
                self.manifest,
                journal=self.journal,
                parallelism=1,
                allow_mass_removal=allow_mass_removal,
                skip_blocked=True,
            )
        except LancensError as error:
            return error
        ended = [(result.change.address, result.status, result.message) for result in report.results]
        return sorted(ended), self.state()


def check(bench: Bench, saved: str, chance: random.Random, *, allow_mass_removal: bool) -> list[str]:
    """Edit a plan some times; return what became of each edit."""
    expected = bench.outcome(saved, allow_mass_removal=allow_mass_removal)
    bench.reset()
    before = bench.state()
    became = []
    for _ in range(EDITS_A_PLAN):
        document = json.loads(saved)
        deed = edit(document, chance)
        sealed = chance.random() < 0.75
        text = resealed(document) if sealed else json.dumps(document)
        got = bench.outcome(text, allow_mass_removal=allow_mass_removal)
        if isinstance(got, LancensError):
            assert str(got).strip(), deed
            assert bench.state() == before, (deed, got)
            became.append("refused")
        else:
            assert got == expected, (deed, sealed, saved, text)
            became.append("the same")
    return became


def plan_or_none(bench: Bench, **options: Any) -> str:
    bench.reset()
    try:
        made = reconciler.plan(bench.manifest, allow_mass_removal=True, **options)
    except SelectionError:
        assume(False)
    assume(made.concerned)
    return made.to_json()


def manifest_of(folder: Path, config: Callable[[str], str], wanted: dict[str, DesiredCatalog]) -> Manifest:
    lines = [f"  {name}: {{{config(name)}}}" for name in wanted]
    path = folder / "lancens.yaml"
    path.write_text("\n".join(["version: 1", "name: store", "safety: {min_tables: 2}", "catalogs:", *lines]))
    read = reconciler.load(path)
    named = {
        name: replace(read.catalogs[name], desired=replace(one, name=name, owner=f"store/{name}"))
        for name, one in wanted.items()
    }
    return replace(read, catalogs=named)


def with_schemas(wanted: DesiredCatalog, chance: random.Random) -> DesiredCatalog:
    tables = {
        identifier: replace(table, schema=USERS, probe=True)
        if not table.absent and table.location is None and chance.random() < 0.4
        else table
        for identifier, table in wanted.tables.items()
    }
    return replace(wanted, tables=tables)


def selections(chance: random.Random) -> dict[str, Any]:
    select = chance.choice([(), (), ("lake/**",), ("*/a/**", "*/b")])
    return {"select": select, "adopt": chance.random() < 0.3, "take_over": chance.random() < 0.3}


# ---- in memory -------------------------------------------------------------------------------------------------------


def fill(backend: MemoryBackend, state: Snapshot, foreign: Sequence[Identifier]) -> None:
    """Make a catalog hold exactly this."""
    for name in foreign:
        backend.remove_foreign(name)
    there = backend.scan()
    for table in there.tables:
        backend.remove_table(table)
    for namespace in sorted(there.namespaces, key=len, reverse=True):
        backend.remove_namespace(namespace)
    for one in sorted(state.namespaces.values(), key=lambda one: len(one.id)):
        backend.insert_namespace(one.id, one.properties)
    for entry in state.tables.values():
        backend.insert_table(entry.id, entry.location, entry.properties)
    for name in foreign:
        backend.add_foreign(name)


def in_memory(
    folder: Path,
    wanted: dict[str, DesiredCatalog],
    live: dict[str, Snapshot],
    foreign: dict[str, list[Identifier]],
    store: FakeStorage,
) -> Bench:
    run = uuid.uuid4().hex
    manifest = manifest_of(folder, lambda name: f"impl: memory, config: {{name: {run}-{name}}}", wanted)
    backends = {name: MemoryBackend(name=f"{run}-{name}") for name in wanted}
    before = dict(store.datasets)

    def reset() -> None:
        store.datasets = dict(before)
        store.used.clear()
        for name, backend in backends.items():
            fill(backend, live[name], foreign[name])

    def state() -> object:
        return [backend.scan() for backend in backends.values()], dict(store.datasets)

    return Bench(manifest, folder / "journal", reset, state)


def perhaps_mirrored(
    found: tuple[DesiredCatalog, Snapshot],
) -> st.SearchStrategy[tuple[DesiredCatalog, Snapshot]]:
    """Return what is wanted and what is there, with a mirror of the first catalog or without."""
    return st.just(found) | mirrors(*found, of=CATALOGS[0])


chances = st.integers(0, 2**32).map(random.Random)
quick = settings(
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@pytest.mark.soak
def test_an_edited_plan_is_refused_or_does_what_the_plan_does(tmp_path: Path) -> None:
    seed = seeded("edited plans, in memory").randrange(2**32)
    became: list[str] = []

    @hypothesis.seed(seed)
    @settings(quick, max_examples=count(6, 60))
    @given(st.tuples(situations(), situations().flatmap(perhaps_mirrored)), chances, st.data())
    def edited(found: tuple[tuple[DesiredCatalog, Snapshot], ...], chance: random.Random, data: st.DataObject) -> None:
        wanted, live = zip(*found, strict=True)
        held = {name: data.draw(held_names(*one)) for name, one in zip(CATALOGS, found, strict=True)}
        store = FakeStorage(Ledger())
        with store.installed():
            blocks = {name: with_schemas(one, chance) for name, one in zip(CATALOGS, wanted, strict=True)}
            bench = in_memory(tmp_path, blocks, dict(zip(CATALOGS, live, strict=True)), held, store)
            saved = plan_or_none(bench, **selections(chance))
            became.extend(check(bench, saved, chance, allow_mass_removal=chance.random() < 0.5))

    edited()
    print({one: became.count(one) for one in sorted(set(became))})
    assert len(became) >= count(50, 500)


def test_a_namespace_that_stays_for_a_waiting_table_alone_is_no_edit(tmp_path: Path) -> None:
    def plan_of(namespaces: str) -> tuple[Plan, Manifest]:
        catalog = f"{{impl: dir, config: {{root: ./lake}}, namespaces: {namespaces}}}"
        (tmp_path / "lancens.yaml").write_text(f"version: 1\nname: store\ncatalogs: {{lake: {catalog}}}\n")
        manifest = reconciler.load(tmp_path / "lancens.yaml")
        return reconciler.plan(manifest, allow_mass_removal=True), manifest

    place, data = "location: ./lake/own/z", "schema: [{name: a, type: int64}]"
    plan, manifest = plan_of(f"{{b: {{namespaces: {{c: {{namespaces: {{a: {{tables: {{b: {{{place}}}}}}}}}}}}}}}}}")
    assert reconciler.apply(plan, manifest, journal=tmp_path / "journals").ok
    plan, manifest = plan_of(f"{{a: {{tables: {{a: {{{place}, {data}}}}}}}, b: {{tables: {{c: {{{place}}}}}}}}}")
    assert [one.address for one in plan.waiting] == ["lake/b/c", "lake/b/c/a/b"]
    saved, journals = Plan.from_json(plan.to_json()), tmp_path / "journals"
    assert reconciler.apply(saved, manifest, journal=journals, allow_mass_removal=True, skip_blocked=True).ok


def test_a_secret_of_a_column_that_is_renamed_is_no_edit(tmp_path: Path) -> None:
    """Its stand-in is that of the data's column, which has the old name."""

    def manifest_of(columns: str) -> Manifest:
        config = f"{{name: {tmp_path.name}, root: {tmp_path}}}"
        return load_text(
            tmp_path,
            f"version: 1\nname: s\ncatalogs: {{lake: {{impl: memory, config: {config}, "
            f"tables: {{t: {{evolve: additive, schema: [{columns}]}}}}}}}}",
        )

    column = "type: int64, metadata: {api_token: sk-abcdefghijkl}"
    made = manifest_of(f"{{name: a, {column}}}, {{name: b, {column}}}")
    assert reconciler.apply(reconciler.plan(made), made, journal=tmp_path / "journal").ok
    renamed = manifest_of(f"{{name: b, renamed_from: a, {column}}}, {{name: c, renamed_from: b, {column}}}")
    saved = Plan.from_json(reconciler.plan(renamed).to_json())
    assert reconciler.apply(saved, renamed, journal=tmp_path / "journal").ok
    assert reconciler.plan(renamed).is_empty


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_table_that_moves_with_its_namespace_keeps_secrets_and_tags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_saved: bool
) -> None:
    """It has no block any more, so a saved plan knows its secrets only as stand-ins."""
    monkeypatch.setenv("PLAIN", "from outside")
    table = (
        "t: {properties: {api_token: abc-def, note: '${env:PLAIN}'}, schema: [{name: a, type: int64}], tags: {x: 1}}"
    )
    name = f"{tmp_path}-{is_saved}"

    def applied(catalog: str) -> LiveTable:
        config = f"{{name: '{name}', root: {tmp_path}}}"
        text = f"version: 1\nname: s\ncatalogs: {{lake: {{impl: memory, config: {config}, prune: never, {catalog}}}}}"
        manifest = load_text(tmp_path, text)
        plan = reconciler.plan(manifest)
        plan = Plan.from_json(plan.to_json()) if is_saved else plan
        assert reconciler.apply(plan, manifest, journal=tmp_path / "journal").ok
        assert reconciler.plan(manifest).is_empty
        [found] = MemoryBackend(name=name).scan().tables.values()
        return found

    before = applied(f"namespaces: {{a: {{tables: {{{table}}}}}}}")
    after = applied("namespaces: {b: {properties: {}}}, moved: [{from: a, to: b}]")
    assert after == replace(before, id=("b", "t"))
    assert before.properties.keys() >= {"api_token", "lancens.tags"}
    assert [*lance.dataset(after.location).tags.list()] == ["x"]


def test_a_secret_of_a_column_that_blocks_its_table_is_no_edit(tmp_path: Path) -> None:
    def manifest_of(secret: str, more: str = "") -> Manifest:
        config = f"{{name: {tmp_path.name}-blocked, root: {tmp_path}}}"
        column = f"{{name: a, type: int64, metadata: {{api_token: {secret}}}}}"
        tables = f"{{t: {{schema: [{column}]}}{more}}}"
        text = f"version: 1\nname: s\ncatalogs: {{lake: {{impl: memory, config: {config}, tables: {tables}}}}}"
        return load_text(tmp_path, text)

    made = manifest_of("sk-abcdefghijkl")
    assert reconciler.apply(reconciler.plan(made), made, journal=tmp_path / "journal").ok
    other = manifest_of("sk-mnopqrstuvwx", ", u: {}")
    saved = Plan.from_json(reconciler.plan(other).to_json())
    assert [one.address for one in saved.blocked] == ["lake/t"]
    assert reconciler.apply(saved, other, journal=tmp_path / "journal", skip_blocked=True).ok
