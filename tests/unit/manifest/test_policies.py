"""`policies`: what they say, over several files, and every way to get them wrong."""

from __future__ import annotations

import pytest

from reconciler import load
from reconciler.model.desired import Expectations
from reconciler.model.errors import ManifestError
from reconciler.model.maintenance import Maintain, WantedCompaction
from reconciler.model.policies import Policies
from tests.unit.manifest.conftest import Load, Write, manifest


def policies(*entries: str) -> str:
    return manifest(f"policies: [{', '.join(entries)}]")


ALL, ADS = "{match: '**', properties: {owner: all, tier: 1}}", "{match: ads/**, properties: {owner: ads}}"


def test_a_policy_has_a_pattern_properties_and_expectations(load_text: Load) -> None:
    loaded = load_text(policies(ALL, "{match: ads/**, expect: {max_versions: 5, indices: [id]}}"))
    everything, ads = loaded.catalogs["lake"].desired.policies
    assert (everything.pattern, everything.properties) == ("**", {"owner": "all", "tier": "1"})
    assert (str(ads.source), ads.expect) == ("lancens.yaml:7", {"max_versions": 5, "indices": ("id",)})
    found = Policies((everything, ads)).of(("ads", "clicks"))
    assert found is not None
    assert found.block.expect == Expectations(indices=("id",), max_versions=5)
    assert Policies((ads,)).of(("web", "hits")) is None


@pytest.mark.parametrize("none", ["{}", "null"])
def test_a_later_policy_can_ask_for_no_index(load_text: Load, none: str) -> None:
    first = "{match: '**', maintain: {compact: {}, indices: {id: {type: BTREE}}}}"
    loaded = load_text(policies(first, f"{{match: ads/**, maintain: {{indices: {none}}}}}"))
    web, ads = (Policies(loaded.catalogs["lake"].desired.policies).of(name) for name in (("web", "t"), ("ads", "t")))
    assert web is not None
    assert web.block.expect.indices == ("id",)
    assert ads is not None
    assert (ads.block.maintain, ads.block.expect.indices) == (Maintain(compact=WantedCompaction()), ())


def test_the_policies_of_all_files_are_one_list_and_their_order_counts(write: Write) -> None:
    second = f"catalogs:\n  lake:\n    policies: [{ADS}]\n"
    path = write(lancens="include: [second.yaml]\n" + policies(ALL), second=second)
    patterns = [policy.pattern for policy in load(path).catalogs["lake"].desired.policies]
    assert patterns == ["**", "ads/**"]
    digests = {load(write(lancens=text)).digest for text in (policies(ALL, ADS), policies(ADS, ALL), policies())}
    assert len(digests) == 3


def test_a_catalog_that_folds_case_folds_the_pattern(load_text: Load) -> None:
    loaded = load_text(manifest("policies: [{match: Ads/*, properties: {owner: Ads}}]", "glue", "{region: eu}"))
    (policy,) = loaded.catalogs["lake"].desired.policies
    assert policy.match.contains(("ads", "clicks"))
    assert policy.properties == {"owner": "Ads"}


def test_a_value_of_the_environment_stays_secret(load_text: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM", "ads")
    loaded = load_text(policies("{match: '**', properties: {owner: '${env:TEAM}', tier: gold}}", ADS))
    first, _ = both = loaded.catalogs["lake"].desired.policies
    assert first.secret_keys == {"owner"}
    web, ads = (Policies(both).of(name) for name in (("web", "t"), ("ads", "t")))
    assert web is not None
    assert web.block.secret_keys == {"owner"}
    assert ads is not None
    assert not ads.block.secret_keys


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ("policies: {match: '**'}", "7:15: `policies` in catalog lake is not a list"),
        ("policies: [ads]", "7:16: policy 1 of catalog lake is `ads`, expected a block of keys"),
        ("policies: [{properties: {a: b}}]", "7:16: policy 1 of catalog lake has no `match`"),
        ("policies: [{match: }]", "7:24: `match` in policy 1 of catalog lake: `` has an empty name"),
        ("policies: [{match: [ads]}]", "7:24: `match` in policy 1 of catalog lake is a list, expected text"),
        ("policies: [{match: ads//x}]", "7:24: `match` in policy 1 of catalog lake: `ads//x` has an empty name"),
        ("policies: [{match: '**', owner: a}]", "7:30: unknown key `owner` in policy 1 of catalog lake"),
        (
            "policies: [{match: '**'}, {match: '*', properties: {lancens.keys: a}}]",
            "7:57: property `lancens.keys` in policy 2 of catalog lake is reserved",
        ),
        (
            "policies: [{match: '**', expect: {max_version: 1}}]",
            "7:39: unknown key `max_version` in `expect` of policy 1 of catalog lake; did you mean `max_versions`?",
        ),
        ("policies: [{match: '${env:HOME}'}]", "7:24: `match` is `${env:HOME}`: values of the environment"),
    ],
)
def test_what_is_wrong_in_a_policy_is_named_with_its_place(load_text: Load, entries: str, said: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load_text(manifest(entries))
    (problem,) = caught.value.problems
    assert f"{problem.line}:{problem.column}: {problem.message}".startswith(said)
