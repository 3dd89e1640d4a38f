"""What a manifest means."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler import load
from reconciler.model.columns import Column
from reconciler.model.desired import DesiredNamespace, DesiredTable, Evolve, Prune, Source, Thresholds
from reconciler.model.errors import ManifestError
from tests.unit.manifest.conftest import Load, Write, manifest, refused

FULL = """\
version: 1
name: feature-store
safety: {max_removal_percent: 5, min_tables: 100}
catalogs:
  lake:
    impl: dir
    config: {root: ./lake}
    prune: all
    scope: ["features/**", scratch]
    namespaces:
      features:
        properties: {owner: ml-platform}
        protect: true
        tables:
          users:
            location: ./lake/users.lance
            evolve: additive
            probe: false
            protect: false
            schema:
              - {name: user_id, type: int64, nullable: false}
              - {name: embedding, type: "fixed_size_list<float>[768]", metadata: {b: x, a: y}}
          old: {absent: true}
        namespaces: {eu: {tables: {users: {}}}}
    tables: {scratch: }
"""


def test_every_key_reaches_the_desired_state(write: Write) -> None:
    path = write(lancens=FULL)

    loaded = load(path)

    assert (loaded.name, loaded.files, loaded.folder) == ("feature-store", ("lancens.yaml",), str(path.parent))
    assert loaded.thresholds == Thresholds(5, 100)
    desired = loaded.catalogs["lake"].desired
    assert (desired.name, desired.owner, desired.prune) == ("lake", "feature-store/lake", Prune.ALL)
    assert desired.source == Source("lancens.yaml", 5, 3)
    assert desired.scope.patterns == ("features/**", "scratch")
    features, eu = ("features",), ("features", "eu")
    assert desired.namespaces == {
        features: DesiredNamespace(
            features, Source("lancens.yaml", 11, 7), {"owner": "ml-platform"}, is_claimed=True, protect=True
        ),
        eu: DesiredNamespace(eu, Source("lancens.yaml", 24, 22)),
    }
    users = DesiredTable(
        ("features", "users"),
        Source("lancens.yaml", 15, 11),
        location=f"{path.parent}/lake/users.lance",
        schema=(
            Column("user_id", "int64", nullable=False),
            Column("embedding", "fixed_size_list<float32>[768]", metadata={"a": "y", "b": "x"}),
        ),
        evolve=Evolve.ADDITIVE,
        probe=False,
        protect=False,
    )
    assert desired.tables == {
        ("features", "users"): users,
        ("features", "old"): DesiredTable(("features", "old"), Source("lancens.yaml", 23, 11), absent=True),
        ("features", "eu", "users"): DesiredTable(("features", "eu", "users"), Source("lancens.yaml", 24, 36)),
        ("scratch",): DesiredTable(("scratch",), Source("lancens.yaml", 25, 14)),
    }


def test_scalars_keep_their_text(load_text: Load) -> None:
    loaded = load_text(
        manifest(
            "tables:\n  no:\n    properties: {a: yes, b: 0123, c: 2024-01-01, d: 1e3, e: ~, f: , 1: null}\n  0x1: {}\n"
        )
    )

    tables = loaded.catalogs["lake"].desired.tables
    assert list(tables) == [("no",), ("0x1",)]
    assert tables["no",].properties == {
        "a": "yes",
        "b": "0123",
        "c": "2024-01-01",
        "d": "1e3",
        "e": "~",
        "f": "",
        "1": "null",
    }


@pytest.mark.parametrize("nothing", ["", "{}", "~", "null"])
def test_nothing_is_an_empty_block(load_text: Load, nothing: str) -> None:
    loaded = load_text(
        manifest(f"tables: {nothing}\nnamespaces:\n  a: {nothing}\n  b:\n    tables:\n      t: {nothing}\n")
    )

    desired = loaded.catalogs["lake"].desired
    assert not desired.namespaces["a",].is_claimed
    assert list(desired.tables) == [("b", "t")]


@pytest.mark.parametrize("claim", ["properties: {}", "absent: false", "protect: false", "properties: {a: b}"])
def test_properties_absent_and_protect_claim_a_namespace(load_text: Load, claim: str) -> None:
    loaded = load_text(manifest(f"namespaces: {{a: {{{claim}}}}}"))

    assert loaded.catalogs["lake"].desired.namespaces["a",].is_claimed


def test_names_fold_where_the_catalog_folds(load_text: Load) -> None:
    below = 'scope: ["Sales/**"]\nnamespaces: {SALES: {kind: database, tables: {Orders: {}}}}'

    desired = load_text(manifest(below, "glue", "{region: eu}")).catalogs["lake"].desired

    assert list(desired.tables) == [("sales", "orders")]
    assert desired.namespaces["sales",].kind == "database"


def test_protect_false_may_stand_beside_absent(load_text: Load) -> None:
    desired = load_text(manifest("tables: {t: {absent: true, protect: false}}")).catalogs["lake"].desired

    assert (desired.tables["t",].absent, desired.tables["t",].protect) == (True, False)


# ---- placeholders


def test_placeholders_work_in_every_value(load_text: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCENS_OWNER", "ml ${var:x}")
    (tmp_path / "tier.txt").write_text("gold\n")
    loaded = load_text(
        manifest(
            'prune: "${var:prune}"\n'
            "tables:\n  t:\n"
            '    location: "s3://${var:bucket}/t"\n'
            '    protect: "${var:missing:-true}"\n'
            "    properties:\n"
            '      owner: "by ${env:LANCENS_OWNER}!"\n'
            '      tier: "${file:tier.txt}"\n'
            '      literal: "$${env:X} $ $$ ${var:none:-}"\n'
            '    schema: [{name: v, type: "fixed_size_list<float32>[${var:size}]"}]\n'
        ),
        prune="never",
        bucket="b",
        size="4",
    )

    desired = loaded.catalogs["lake"].desired
    table = desired.tables["t",]
    assert desired.prune is Prune.NEVER
    assert (table.location, table.protect) == ("s3://b/t", True)
    assert table.properties == {"owner": "by ml ${var:x}!", "tier": "gold", "literal": "${env:X} $ $$ "}
    assert table.schema == (Column("v", "fixed_size_list<float32>[4]"),)


def test_a_placeholder_that_stands_for_a_bad_value_is_an_error(load_text: Load) -> None:
    with refused(("lancens.yaml:7:43", "type `strng`: ", "did you mean `string`?")):
        load_text(manifest('tables: {t: {schema: [{name: a, type: "${var:type}"}]}}'), type="strng")


def test_keys_are_never_placeholders(load_text: Load) -> None:
    tables = load_text(manifest('namespaces: {a: {properties: {"${var:x}": y}}}')).catalogs["lake"].desired.namespaces

    assert tables["a",].properties == {"${var:x}": "y"}


# ---- several files


def test_includes_merge_deeply(write: Write) -> None:
    path = write(
        lancens=manifest("namespaces: {a: {tables: {one: {}}}}").replace(
            "catalogs", 'include: ["*/*.yaml"]\ncatalogs', 1
        ),
        teams__ads="version: 1\nname: shop\ninclude: [../deep/more.yaml]\n"
        "catalogs: {lake: {namespaces: {a: {tables: {two: }}}}}",
        teams__web="catalogs: {lake: {namespaces: {a: {properties: {k: v}, tables: {three: {}}}}}}",
        deep__more="catalogs: {lake: {namespaces: {a: {tables: {four: {location: ./x}}}}}}",
        deep__empty="",
    )

    loaded = load(path)

    desired = loaded.catalogs["lake"].desired
    assert {identifier[-1] for identifier in desired.tables} == {"one", "two", "three", "four"}
    assert desired.namespaces["a",].is_claimed
    assert desired.tables["a", "four"].location == f"{path.parent}/deep/x"
    assert desired.tables["a", "four"].source == Source("deep/more.yaml", 1, 45)
    assert loaded.files == ("lancens.yaml", "deep/empty.yaml", "deep/more.yaml", "teams/ads.yaml", "teams/web.yaml")


def test_files_folders_and_the_files_of_a_saved_plan_give_one_manifest(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(
        lancens=manifest("").replace("catalogs", "include: [zz.yaml]\ncatalogs", 1),
        more="catalogs: {lake: {tables: {a: {}}}}",
        zz="catalogs: {lake: {tables: {b: {}}}}",
    )
    by_files = load(path, tmp_path / "more.yaml")
    by_folder = load(tmp_path)
    monkeypatch.chdir(tmp_path)
    again = load(*by_folder.files)

    assert by_files.digest == by_folder.digest == again.digest
    assert sorted(by_files.files) == sorted(by_folder.files) == ["lancens.yaml", "more.yaml", "zz.yaml"]
    assert again.folder == by_folder.folder == str(tmp_path)
    assert set(again.catalogs["lake"].desired.tables) == {("a",), ("b",)}


def test_a_pattern_that_matches_its_own_file_includes_the_others(write: Write) -> None:
    path = write(
        lancens=manifest("").replace("catalogs", 'include: ["*.yaml"]\ncatalogs', 1),
        other='include: ["*.yaml"]\ncatalogs: {lake: {tables: {a: {}}}}',
    )

    assert load(path).files == ("lancens.yaml", "other.yaml")


def test_a_cycle_of_includes_is_named(write: Write) -> None:
    path = write(
        lancens=manifest("").replace("catalogs", "include: [a.yaml]\ncatalogs", 1),
        a="include: [b.yaml]\n",
        b="include: [a.yaml]\n",
    )

    with refused(("b.yaml:1:11", "dependency cycle: a.yaml -> b.yaml -> a.yaml")):
        load(path)


def test_loading_imports_no_heavy_package(write: Write) -> None:
    path = write(lancens=manifest("tables: {t: {schema: [{name: a, type: int8}]}}", "dir", "{root: ./lake}"))
    code = (
        "import sys, reconciler; reconciler.load(sys.argv[1]);"
        "heavy = {'lance', 'boto3', 'pyspark', 'pyarrow', 'deepdiff', 'thrift'}; print(heavy & set(sys.modules))"
    )

    done = subprocess.run([sys.executable, "-c", code, os.fspath(path)], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


def test_a_load_leaves_the_garbage_collector_as_it_was(write: Write) -> None:
    good, bad = write(lancens=manifest("")), write(bad="[]")

    load(good)
    with pytest.raises(ManifestError):
        load(bad)

    assert gc.isenabled()


def test_the_example_of_the_documentation_loads(load_text: Load) -> None:
    text = (Path(__file__).parents[3] / "docs/manifest.md").read_text(encoding="utf-8")

    loaded = load_text(text.split("```yaml\n")[1].split("```")[0])

    assert set(loaded.catalogs["lake"].desired.tables) == {("features", "users"), ("features", "events")}


TWO_CATALOGS = """\
version: 1
name: feature-store                  # who owns what it makes
include: [teams/*.yaml]              # optional, deep-merged
catalogs:
  lake:
    impl: dir
    config: {root: ./lake}
    prune: owned
    namespaces:
      features:
        properties: {owner: ml-platform}
        tables:
          users:
            schema:
              - {name: user_id, type: int64, nullable: false}
              - {name: embedding, type: "fixed_size_list<float32>[768]"}
          events: {properties: {tier: gold}}
        namespaces: {eu: {tables: {users: {}}}}
    tables: {scratch: {}}
  prod:
    impl: glue
    config: {region: eu-west-1, assume_role_arn: "${env:ROLE_ARN}"}
    scope: ["analytics/**"]
    namespaces: {analytics: {tables: {clicks: {location: "s3://prod/clicks.lance"}, old: {absent: true}}}}
"""


def test_two_catalogs_and_an_include_load_together(write: Write) -> None:
    loaded = load(
        write(lancens=TWO_CATALOGS, teams__ads="catalogs: {lake: {namespaces: {ads: {tables: {clicks: {}}}}}}")
    )

    assert set(loaded.catalogs["prod"].desired.tables) == {("analytics", "clicks"), ("analytics", "old")}
    assert set(loaded.catalogs["lake"].desired.tables) == {
        ("features", "users"),
        ("features", "events"),
        ("features", "eu", "users"),
        ("ads", "clicks"),
        ("scratch",),
    }
