"""Every error is reported in plain words, at its place, together with all others."""

from __future__ import annotations

import pytest

from reconciler import load
from reconciler.model.errors import ManifestError
from tests.unit.manifest.bad_blocks import BAD_BLOCKS
from tests.unit.manifest.bad_manifests import BAD
from tests.unit.manifest.conftest import Write, manifest, refused

EVERY = [*BAD, *BAD_BLOCKS]


@pytest.mark.parametrize(("text", "messages"), [case[1:] for case in EVERY], ids=[case[0] for case in EVERY])
def test_the_message_is_exact(write: Write, text: str, messages: list[str]) -> None:
    with pytest.raises(ManifestError) as caught:
        load(write(lancens=text), variables={"tier": "gold"})

    assert [str(problem) for problem in caught.value.problems] == messages


def test_faults_of_all_files_are_in_one_report(write: Write) -> None:
    path = write(
        lancens=manifest("prune: x").replace("catalogs", "include: [teams/*.yaml]\ncatalogs", 1),
        teams__ads="catalogs: {lake: {namespaces: {ads: {propertys: {}}}}}\n",
        teams__web="catalogs: {lake: {impl: dir, namespaces: {a$: {}}}\n",
    )

    with refused(
        ("lancens.yaml:8:12", "`never`, `owned` or `all`"),
        ("teams/ads.yaml:1:38", "`propertys`", "did you mean `properties`?"),
        ("teams/web.yaml:1:11", "`{` is not closed"),
    ) as caught:
        load(path)
    assert "3 errors in 3 files." in str(caught.value)


def test_one_name_in_two_files_that_differ_in_case(write: Write) -> None:
    path = write(
        lancens=manifest("", "glue", "{region: eu}").replace("catalogs", "include: [teams/*.yaml]\ncatalogs", 1),
        teams__ads="catalogs:\n  lake:\n    namespaces:\n      ads: {}\n",
        teams__web="catalogs:\n  lake:\n    namespaces:\n      Ads: {}\n",
    )

    with refused(("teams/web.yaml:4:7", "`Ads` and teams/ads.yaml:4:7 `ads`", "glue folds case")):
        load(path)


def test_a_leaf_said_in_two_files_names_both(write: Write) -> None:
    path = write(
        lancens=manifest("prune: all").replace("catalogs", "include: [more.yaml]\ncatalogs", 1),
        more="catalogs: {lake: {prune: never}}\n",
    )

    with refused(("more.yaml:1:19", "`catalogs/lake/prune` is a duplicate", "lancens.yaml:8:5")):
        load(path)


def test_the_report_of_a_manifest_that_is_wrong_everywhere_is_bounded(write: Write) -> None:
    tables = "".join(f"  t{number}: {{propertys: {{}}}}\n" for number in range(1500))

    with pytest.raises(ManifestError) as caught:
        load(write(lancens=manifest("tables:\n" + tables)))

    assert len(caught.value.problems) == 1001
    assert str(caught.value.problems[-1]) == "lancens.yaml: more errors are not shown"
