"""`plan --engine spark`: the plan of the local engine, byte for byte."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from reconciler import apply, load, plan
from reconciler.backends.dir import DirBackend
from reconciler.manifest import Manifest
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Column
from reconciler.model.desired import DesiredCatalog, Evolve, ExtraColumns
from reconciler.model.errors import LancensError
from reconciler.model.live import OddEntry, Snapshot
from reconciler.model.names import EVERYTHING, Identifier
from reconciler.model.ownership import DATA
from reconciler.operations.connections import CatalogSpec
from reconciler.pipeline import engine
from reconciler.pipeline.engine import plan_on_spark
from reconciler.pipeline.units import Listing, list_catalogs
from reconciler.storage import create_empty
from tests.cli.running import lancens
from tests.pipeline.plugins.frozen_backend import freeze
from tests.pipeline.troubled import SECRET, Troubled
from tests.soak import count
from tests.states import held_names, mirrors, safeguards, situations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOGS = 12
"""So many random catalogs are in each manifest: starting a job costs more than comparing a hundred tables."""

FOLLOWED = "c00"
"""The catalog that some of the others mirror."""

THERE, NOTHING = "{data}/there.lance", "{data}/nothing.lance"
"""Where a table is looked for that has a schema: at a real dataset, and where nothing is written yet."""

COLUMNS = (Column("id", "int64", nullable=False), Column("name", "string"))
schemas = st.sampled_from(
    [
        COLUMNS,
        COLUMNS[:1],
        (*COLUMNS, Column("age", "int32")),
        (replace(COLUMNS[0], nullable=True), COLUMNS[1]),
        (COLUMNS[0], Column("name", "int64")),
    ]
)
"""The columns of the data, fewer, more, less strict ones, and others."""


@dataclass(frozen=True)
class Options:
    """The options of both engines."""

    select: Sequence[str] = ()
    exclude: Sequence[str] = ()
    adopt: bool = False
    take_over: bool = False
    recreate_lost: Sequence[str] = ()


@dataclass(frozen=True)
class State:
    """One catalog: what is desired, and what is there."""

    desired: DesiredCatalog
    live: Snapshot
    capabilities: Capabilities
    foreign: Sequence[Identifier]


@st.composite
def states(draw: st.DrawFn) -> State:
    desired, live = draw(situations())
    if draw(st.booleans()):
        desired, live = draw(mirrors(desired, live, of=FOLLOWED))
    with_schema = draw(st.booleans())
    tables = {
        identifier: replace(
            table,
            schema=draw(schemas),
            evolve=draw(st.sampled_from(Evolve)),
            extra_columns=draw(st.sampled_from(ExtraColumns)),
            probe=True,
            location=draw(st.sampled_from([THERE, NOTHING])),
        )
        if with_schema and not table.absent and draw(st.booleans())
        else table
        for identifier, table in desired.tables.items()
    }
    registered = {
        identifier: replace(table, location=NOTHING, properties={**table.properties, DATA: "true"})
        if draw(st.integers(0, 9)) == 0
        else table
        for identifier, table in live.tables.items()
    }
    notes = draw(st.lists(st.sampled_from(["`a$b` cannot be shown", "`c` is read-only"]), unique=True))
    abilities = draw(
        st.builds(
            Capabilities,
            one_name_space=st.booleans(),
            table_markers=st.booleans(),
            alter_table=st.booleans(),
            rename_within=st.sampled_from([None, 0, 1]),
            safeguard=safeguards,
        )
    )
    foreign = [(*one, "view") for one in live.namespaces if draw(st.integers(0, 3)) == 0]
    foreign += draw(held_names(desired, live))
    free = draw(held_names(desired, live)) + [(*one, "odd") for one in live.namespaces if draw(st.integers(0, 3)) == 0]
    odd = {
        identifier: OddEntry("odd", draw(st.sampled_from([desired.owner, "other/lake", None])))
        for identifier in free
        if identifier not in foreign
    }
    live = replace(live, tables=registered, notes=tuple(notes), odd=odd)
    return State(replace(desired, tables=tables), live, abilities, foreign)


def manifest_of(folder: Path, states: Sequence[State]) -> Manifest:
    """Write the states to files and return the manifest that names them."""
    names = [f"c{number:02}" for number in range(len(states))]
    for name, state in zip(names, states, strict=True):
        tables = {
            identifier: replace(table, location=table.location.format(data=folder))
            for identifier, table in state.live.tables.items()
        }
        freeze(folder / f"{name}.pickle", replace(state.live, tables=tables), state.capabilities, state.foreign)
    lines = [
        f"  {name}: {{impl: frozen, config: {{state: {folder}/{name}.pickle, root: {folder}/new}}}}" for name in names
    ]
    path = folder / "lancens.yaml"
    path.write_text("\n".join(["version: 1", "name: store", "safety: {max_removal_percent: 100}", "catalogs:", *lines]))
    read = load(path)
    desired = {
        name: replace(
            read.catalogs[name],
            desired=replace(
                state.desired,
                name=name,
                mirror=None if name == FOLLOWED else state.desired.mirror,
                tables={
                    identifier: replace(table, location=table.location and table.location.format(data=folder))
                    for identifier, table in state.desired.tables.items()
                },
            ),
        )
        for name, state in zip(names, states, strict=True)
    }
    return replace(read, catalogs=desired)


def local_plan(manifest: Manifest, options: Options) -> str:
    try:
        return plan(manifest, **asdict(options)).to_json()
    except LancensError as error:
        return f"{type(error).__name__}: {error}"


def spark_plan(spark: SparkSession, manifest: Manifest, options: Options) -> str:
    try:
        return plan_on_spark(spark, manifest, **asdict(options)).to_json()
    except LancensError as error:
        return f"{type(error).__name__}: {error}"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engine")
    create_empty(str(folder / "there.lance"), COLUMNS, {})
    return folder


def in_small_parts(specs: Collection[CatalogSpec]) -> list[Listing]:
    """Have every table read by its name."""
    return list_catalogs(specs, split=1)


def unlisted(specs: Collection[CatalogSpec]) -> list[Listing]:
    """Return the root of each catalog: every namespace is one that was not listed when the work was handed out."""
    return [Listing(spec, EVERYTHING, {(): ()}) for spec in specs]


unhurried = settings(
    deadline=None,
    max_examples=count(2, 60),
    phases=[Phase.explicit, Phase.generate],  # a smaller example costs another run on Spark each
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.soak
@unhurried
@given(
    st.lists(states(), min_size=CATALOGS, max_size=CATALOGS),
    st.builds(
        Options,
        select=st.lists(st.sampled_from(["c0*/**", "*/a", "**/b", "c*/a/**"]), max_size=2),
        exclude=st.lists(st.sampled_from(["c0*/**/b", "*/a/**", "c1*/**"]), max_size=1),
        adopt=st.booleans(),
        take_over=st.booleans(),
        recreate_lost=st.sampled_from([(), ("c*/**",)]),
    ),
    st.sampled_from([list_catalogs, in_small_parts, unlisted]),
)
def test_the_plan_is_that_of_the_local_engine(
    spark: SparkSession, data: Path, drawn: list[State], options: Options, units: Callable[..., list[Listing]]
) -> None:
    whole = manifest_of(data, drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "list_catalogs", units)
        assert spark_plan(spark, whole, options) == local_plan(whole, options)


def fleet(folder: Path) -> Path:
    """Write a manifest of several files, each of which is about namespaces of its own, and a lake that differs."""
    backend = DirBackend(root=str(folder / "lake"))
    mark = {"lancens.managed-by": "store/lake"}
    for namespace in ("a", "b", "c", "gone"):
        backend.insert_namespace((namespace,), {"team": namespace, **mark, "lancens.keys": '["team"]'})
        for number in range(3):
            name = (namespace, f"t{number}")
            backend.insert_table(name, backend.default_location(name), mark)
    taken = backend.load_table(("b", "t2")).location
    (folder / "teams").mkdir()
    (folder / "lancens.yaml").write_text(
        "version: 1\nname: store\ninclude: [teams/*.yaml]\nschemas: {ids: [{name: id, type: int64}]}\n"
        "safety: {max_removal_percent: 100}\n"
        "defaults: {tables: {properties: {tier: gold}}}\n"
        "catalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n    namespaces: {own: {tables: {t: {}}}}\n"
    )
    head = "catalogs:\n  lake:\n    namespaces:\n"
    (folder / "teams/a.yaml").write_text(
        f"# of one team\nname: store\n{head}      a:  # properties\n        properties: {{team: other}}\n"
        "        tables:\n"
        "          t0: {properties: {tier: {unset: true}}}\n          t1: {}\n          t9: {schema: ids}\n"
        "          t2: {absent: true}\n          never: {absent: true}\n"
        "        namespaces:\n          deep: {tables: {t: {}}}\n"
    )
    (folder / "teams/b.yaml").write_text(
        f"{head}      b:\n        tables:\n          t0: {{}}\n          t1: {{}}\n"
        f"          t2: {{properties: {{tier: {{unset: true}}}}}}\n          t9: {{schema: ids, location: '{taken}'}}\n"
        "      new:\n        tables:\n          near: {location: ../lake/near, schema: ids}\n          far: {}\n"
    )
    (folder / "teams/c.yaml").write_text(
        f"{head}      c: {{tables: {{t0: {{}}, t1: {{}}, t2: {{}}}}}}\n      shared: {{}}\n"
    )
    (folder / "teams/d.yaml").write_text(f"{head}      shared: {{tables: {{t: {{}}}}}}\n")
    return folder / "lancens.yaml"


@pytest.mark.parametrize("listing", [list_catalogs, in_small_parts, unlisted])
def test_a_manifest_of_several_files_makes_the_plan_of_the_local_engine(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listing: Callable[..., list[Listing]]
) -> None:
    path = fleet(tmp_path)
    monkeypatch.setattr(engine, "list_catalogs", listing)
    made = plan(load(path))
    assert {change.action.value for change in made.changes} == {
        *("update-namespace", "update-table", "deregister-table", "create-namespace", "declare-table", "create-table"),
        "drop-namespace",
    }
    assert [one.address for one in made.blocked] == ["lake/b/t9"]
    assert plan_on_spark(spark, load(path)).to_json() == made.to_json()


def test_a_plan_of_several_files_with_a_mirror_is_applied(spark: SparkSession, tmp_path: Path) -> None:
    path = fleet(tmp_path)
    path.write_text(
        f"{path.read_text()}  home: {{impl: dir, config: {{root: ./home}}, tables: {{t: {{schema: ids}}}}}}\n"
        "  copy: {impl: dir, config: {root: .}, mirror: {from: home, into: [kept]}}\n"
    )
    made = plan_on_spark(spark, load(path))
    assert made.to_json() == plan(load(path)).to_json()
    assert "copy/kept/t" in [change.address for change in made.changes]
    assert apply(made, load(path), journal=tmp_path / "journal", skip_blocked=True).ok


def test_a_plan_of_clones_is_the_local_one(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "lancens.yaml"
    prod = "  prod: {impl: dir, config: {root: ./prod}, tables: {a: {schema: ids}, b: {schema: ids}}}\n"
    head = "version: 1\nname: store\nschemas: {ids: [{name: id, type: int64}]}\ncatalogs:\n"
    path.write_text(head + prod)
    assert apply(plan(load(path)), load(path), journal=tmp_path / "journal").ok
    more = "schema: [{name: id, type: int64}, {name: n, type: string}], evolve: additive, tags: {own: 1}"
    own = f"namespaces: {{pr: {{tables: {{a: {{{more}, properties: {{tier: own}}}}}}}}}}"
    copy = f"impl: dir, config: {{root: ./copy}}, clone: {{from: prod, into: [pr]}}, {own}"
    path.write_text(f"{head}{prod}  copy: {{{copy}}}\n")
    made = plan_on_spark(spark, load(path))
    assert made.to_json() == plan(load(path)).to_json()
    assert [change.address for change in made.changes if change.clone] == ["copy/pr/a", "copy/pr/b"]
    assert apply(made, load(path), journal=tmp_path / "journal").ok
    assert plan_on_spark(spark, load(path)).is_empty


def test_a_plan_that_follows_a_tag_is_the_local_one(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "lancens.yaml"
    prod = (
        "  prod: {impl: dir, config: {root: ./prod}, tables: {a: {schema: ids, tags: {live: 1}}, b: {schema: ids}}}\n"
    )
    head = "version: 1\nname: store\nschemas: {ids: [{name: id, type: int64}]}\ncatalogs:\n"
    path.write_text(head + prod)
    assert apply(plan(load(path)), load(path), journal=tmp_path / "journal").ok
    clone = "clone: {from: prod, select: [a], into: [pr], at: {tag: live}, follow: true, pin: true}"
    path.write_text(f"{head}{prod}  copy: {{impl: dir, config: {{root: ./copy}}, {clone}}}\n")
    assert apply(plan(load(path)), load(path), journal=tmp_path / "journal").ok
    lance.write_dataset(pa.table({"id": [1]}), str(tmp_path / "prod" / "a.lance"), mode="append")
    lance.dataset(str(tmp_path / "prod" / "a.lance")).tags.update("live", 2)
    path.write_text(path.read_text().replace("live: 1", "live: 2"))
    made = plan_on_spark(spark, load(path))
    assert made.to_json() == plan(load(path)).to_json()
    assert [(str(change.action), change.address) for change in made.changes] == [("relocate-table", "copy/pr/a")]
    assert apply(made, load(path), journal=tmp_path / "journal").ok
    assert plan_on_spark(spark, load(path)).is_empty


def test_a_namespace_that_cannot_be_read_is_an_error_without_secrets(
    spark: SparkSession, spark_log: Path, tmp_path: Path
) -> None:
    manifest = Troubled(tmp_path, times=100).make().manifest()
    assert spark_plan(spark, manifest, Options()) == "CatalogError: lake (troubled): no answer to (redacted)"
    assert SECRET not in spark_log.read_text()


def test_what_is_not_selected_needs_no_configuration(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "lancens.yaml"
    path.write_text(
        "version: 1\nname: store\ncatalogs:\n  lake: {impl: dir, config: {root: ./lake}, tables: {x: {}}}\n"
        '  far: {impl: dir, config: {root: "${env:LANCENS_NOT_SET}"}}\n'
    )
    options = Options(select=["lake/**"])
    assert spark_plan(spark, load(path), options) == local_plan(load(path), options)
    assert '"declare-table"' in local_plan(load(path), options)


def test_a_catalog_in_the_memory_of_one_process_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "lancens.yaml"
    path.write_text("version: 1\nname: store\ncatalogs: {lake: {impl: memory, config: {name: shelf}}}\n")
    assert "in the memory of one process" in spark_plan(spark, load(path), Options())


def test_the_command_prints_the_same(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    quickstart = Path(__file__).parents[2] / "examples" / "quickstart"
    shutil.copytree(quickstart, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("lake"))
    local = lancens(capsys, "plan", "--full", "-o", "local.json")
    on_spark = lancens(capsys, "plan", "--full", "-o", "spark.json", "--engine", "spark")
    assert (on_spark.code, on_spark.out) == (0, local.out)
    assert (tmp_path / "spark.json").read_bytes() == (tmp_path / "local.json").read_bytes()
    stages = [line.split("  ")[0] for line in on_spark.err.splitlines()]
    assert stages[0] == "Reading lake: 0 tables, 0 changes"


def test_where_spark_runs_is_no_option_of_the_local_engine(capsys: pytest.CaptureFixture[str]) -> None:
    refused = lancens(capsys, "plan", "--master", "local[2]")
    assert (refused.code, refused.out) == (1, "")
    assert "are for --engine spark" in refused.err
