"""``defaults``: at each level, the nearest one wins, and an error in them is reported once."""

from __future__ import annotations

import pytest

from reconciler.model.desired import DesiredCatalog, Evolve, Expectations, ExtraColumns
from reconciler.model.errors import ManifestError
from tests.unit.manifest.conftest import Load

ALL = """\
version: 1
name: shop
defaults:
  tables: {properties: {owner: platform, tier: silver}, evolve: additive}
  namespaces: {properties: {owner: platform}, protect: true}
catalogs:
  lake:
    impl: memory
    defaults:
      tables: {properties: {tier: gold}, extra_columns: conflict}
    tables:
      bare:
      own: {properties: {tier: bronze, extra: "1"}, evolve: never}
      without: {properties: {owner: {unset: true}, tier: {unset: true}}}
      gone: {absent: true}
    namespaces:
      path:
        tables: {in_path: {}}
      claimed:
        properties: {about: money}
        defaults:
          tables: {properties: {owner: {unset: true}, team: money}, protect: true, probe: false}
        namespaces:
          deep: {properties: {owner: {unset: true}}, protect: false, tables: {below: {protect: false}}}
  other: {impl: memory, config: {name: other}, tables: {bare: {}}}
"""


def lake(load_text: Load, text: str = ALL) -> DesiredCatalog:
    return load_text(text).catalogs["lake"].desired


def test_the_nearest_one_wins_and_properties_merge_by_key(load_text: Load) -> None:
    tables = lake(load_text).tables

    assert {"/".join(key): dict(one.properties) for key, one in tables.items()} == {
        "bare": {"owner": "platform", "tier": "gold"},
        "own": {"owner": "platform", "tier": "bronze", "extra": "1"},
        "without": {},
        "gone": {},
        "path/in_path": {"owner": "platform", "tier": "gold"},
        "claimed/deep/below": {"tier": "gold", "team": "money"},
    }
    assert {"/".join(key) for key, one in tables.items() if one.evolve is Evolve.ADDITIVE} == {
        "bare", "without", "path/in_path", "claimed/deep/below"
    }  # fmt: skip
    assert tables["bare",].extra_columns is ExtraColumns.CONFLICT
    below = tables["claimed", "deep", "below"]
    assert (below.protect, below.probe, tables["bare",].protect) == (False, False, None)
    assert dict(load_text(ALL).catalogs["other"].desired.tables["bare",].properties) == {
        "owner": "platform",
        "tier": "silver",
    }


EXPECTING = """\
version: 1
name: shop
defaults: {tables: {expect: {max_fragments: 1000, max_age_days: 7}}}
catalogs:
  lake:
    impl: memory
    config: {name: lake}
    tables:
      far: {}
      own: {expect: {indices: [embedding, "id"], max_versions: "${var:most:-50}"}}
      none: {expect: {}}
      gone: {absent: true}
    namespaces:
      near: {defaults: {tables: {expect: {max_age_days: 1}}}, tables: {t: {}}}
"""


def test_the_nearest_expectations_are_those_that_count(load_text: Load) -> None:
    tables = lake(load_text, EXPECTING).tables

    assert {"/".join(key): one.expect for key, one in tables.items()} == {
        "far": Expectations(max_fragments=1000, max_age_days=7),
        "own": Expectations(indices=("embedding", "id"), max_versions=50),
        "none": Expectations(),
        "gone": Expectations(),
        "near/t": Expectations(max_age_days=1),
    }


def test_a_namespace_that_claims_nothing_stays_a_path(load_text: Load) -> None:
    namespaces = lake(load_text).namespaces

    assert {"/".join(key): (one.is_claimed, dict(one.properties), one.protect) for key, one in namespaces.items()} == {
        "path": (False, {}, None),
        "claimed": (True, {"about": "money", "owner": "platform"}, True),
        "claimed/deep": (True, {}, False),
    }


def test_what_is_said_by_defaults_is_what_is_said_in_every_block(load_text: Load) -> None:
    said = "version: 1\nname: shop\ncatalogs: {lake: {impl: memory, tables: {a: {properties: {k: v}}}}}\n"
    by_default = (
        "version: 1\nname: shop\ndefaults: {tables: {properties: {k: v}}}\n"
        "catalogs: {lake: {impl: memory, tables: {a: {}}}}\n"
    )
    assert load_text(said).digest == load_text(by_default).digest


@pytest.mark.parametrize(
    ("defaults", "message"),
    [
        ("{tables: {locations: x}}", "unknown key `locations` in the defaults of the manifest for tables; expected"),
        ("{tabels: {}}", "unknown key `tabels` in the defaults of the manifest; did you mean `tables`?"),
        ("{tables: {properties: {EXTERNAL: x}}}", "property `EXTERNAL` in the defaults of the manifest for tables is"),
        (
            "{tables: {properties: {a: {unset: no}}}}",
            "property `a` in the defaults of the manifest for tables",
        ),
        (
            "{tables: {evolve: maybe}}",
            "`evolve` in the defaults of the manifest for tables is `maybe`",
        ),
        ("[a]", "the defaults of the manifest is a list, expected a block of keys"),
        ("{namespaces: {properties: {a: '${env:NO_SUCH_THING}'}}}", "environment variable `NO_SUCH_THING` is not set"),
    ],
)
def test_an_error_is_reported_once_and_where_it_is_written(load_text: Load, defaults: str, message: str) -> None:
    tables = ", ".join(f"t{number}: {{}}" for number in range(20))
    text = (
        f"version: 1\nname: shop\ndefaults: {defaults}\n"
        f"catalogs: {{lake: {{impl: memory, tables: {{{tables}}}, namespaces: {{n: {{properties: {{}}}}}}}}}}\n"
    )
    with pytest.raises(ManifestError) as raised:
        load_text(text)

    [problem] = raised.value.problems
    assert (problem.line, problem.message.startswith(message)) == (3, True), problem


def test_what_is_unset_has_to_say_so(load_text: Load) -> None:
    text = "version: 1\nname: shop\ncatalogs: {lake: {impl: memory, tables: {a: {properties: {k: {remove: true}}}}}}\n"
    with pytest.raises(ManifestError, match="3:62: property `k` in table lake/a"):
        load_text(text)
