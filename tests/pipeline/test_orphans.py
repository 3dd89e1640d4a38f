"""The search for datasets that nobody registered, on this machine and by URI.

Both engines share the listing of a directory; what joins, counts and ends the levels runs on each.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

from reconciler.auditor import orphans
from reconciler.auditor.catalog_info import CatalogInfo, Search, SearchedRoot, searchable_roots
from reconciler.auditor.orphans import DATASETS, DatasetNamer, OrphanSearchResult, find_orphans
from reconciler.model import locations
from reconciler.model.names import EVERYTHING
from reconciler.operations.connections import CatalogSpec
from reconciler.pipeline.frames import frame_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.pipeline.frames import Frame

ODD_NAMES = ("plain", "a b", "100%", "k%20z", "q?x", "h#y", "ü", "a:b")


def info(name: str, *roots: str) -> CatalogInfo:
    return CatalogInfo(CatalogSpec(name, "dir", {}, (), EVERYTHING), f"store/{name}", {}, roots)


def dataset(place: Path) -> None:
    lance.write_dataset(pa.table({"id": [1]}), str(place))


def search(
    engine: SparkSession | None,
    catalogs: list[CatalogInfo],
    claims: dict[str, bool] | None = None,
    closed: tuple[str, ...] = (),
) -> OrphanSearchResult:
    roots = [SearchedRoot(catalog.name, root) for catalog in catalogs for root in catalog.roots]
    claimed = pa.array(map(locations.normalise, claims or {}), pa.string())
    frame = frame_of(engine, pa.table({"data_place": claimed, "closed": pa.array((claims or {}).values(), pa.bool_())}))
    return find_orphans(engine, Search(roots, closed), {one.name: one for one in catalogs}, frame)


def places(found: OrphanSearchResult) -> list[str]:
    rows = [] if found.datasets is None else found.datasets.rows()
    assert len(rows) == found.number
    return sorted(row["location"] for row in rows)


def paths(found: OrphanSearchResult, root: Path) -> list[str]:
    return [str(Path(locations.normalise(place)).relative_to(root)) for place in places(found)]


def named(datasets: Frame, catalogs: dict[str, CatalogInfo], search: Search) -> list[dict[str, Any]]:
    return datasets.map(DatasetNamer.of(catalogs, search), DATASETS).rows()


def datasets_at(*found: SearchedRoot) -> Frame:
    return frame_of(None, pa.table([*zip(*found, strict=True)], names=["catalog", "location"]))


def test_what_is_claimed_is_no_orphan_and_what_is_closed_is_not_gone_into(
    engine: SparkSession | None, tmp_path: Path
) -> None:
    for name in ("a", "b/c", "b/mine", "csv/inner", "closed/inner", "table", "table/inner", "_tmp/x", ".trash/x"):
        dataset(tmp_path / name)
    claims = {
        f"{tmp_path}/b/mine/": False,
        f"file:{tmp_path}/csv": True,
        f"{tmp_path}/table": True,
        f"{tmp_path}": True,
    }
    found = search(engine, [info("lake", str(tmp_path))], claims, closed=(f"file://{tmp_path}/closed/",))
    assert paths(found, tmp_path) == ["a", "b/c"]
    assert (found.failures, found.is_cut_short) == ([], False)


@pytest.mark.parametrize("scheme", ["", "file://", "file-object-store://"])
def test_any_name_is_found_and_can_be_opened(tmp_path: Path, scheme: str) -> None:
    for name in ODD_NAMES:
        if scheme != "file-object-store://" or ":" not in name:
            dataset(tmp_path / "deep" / name)
    catalog = info("lake", f"{scheme}{tmp_path}")
    found = search(None, [catalog])
    assert found.datasets is not None
    rows = named(found.datasets, {"lake": catalog}, Search())
    expected = sorted(path.name for path in (tmp_path / "deep").iterdir())
    assert sorted(row["id"][-1] for row in rows) == expected
    assert {tuple(row["id"][:-1]) for row in rows} == {("deep",)}
    for place in places(found):
        assert lance.dataset(place).count_rows() == 1


def test_a_dataset_is_called_by_its_path_below_the_innermost_root(tmp_path: Path) -> None:
    outer, inner = info("outer", str(tmp_path / "lake")), info("inner", f"file:{tmp_path}/lake/inner/")
    both = {"outer": outer, "inner": inner}
    lost = [SearchedRoot("outer", str(tmp_path / "lake" / name)) for name in ("a/b", "inner/c", "inner", "")]
    rows = named(datasets_at(*lost), both, Search())
    assert sorted((row["catalog"], *row["id"]) for row in rows) == [
        ("inner", "c"),
        ("inner", "inner"),
        ("outer", "a", "b"),
        ("outer", "lake"),
    ]


def test_a_dataset_in_the_directory_of_a_namespace_is_called_by_that_namespace(tmp_path: Path) -> None:
    prod, homes = info("prod", str(tmp_path / "root")), {name: str(tmp_path / f"{name}.db") for name in ("crm", "web")}
    found = searchable_roots([prod], {}, {"prod": {(name,): place for name, place in homes.items()}})
    lost = [SearchedRoot("prod", f"{place}/lost") for place in (*homes.values(), tmp_path / "root")]
    rows = named(datasets_at(*lost), {"prod": prod}, found)
    assert [row["id"] for row in rows] == [["crm", "lost"], ["web", "lost"], ["lost"]]


def test_links_are_not_followed(tmp_path: Path) -> None:
    dataset(tmp_path / "lake/a")
    (tmp_path / "lake/loop").symlink_to(tmp_path / "lake")
    assert paths(search(None, [info("lake", str(tmp_path / "lake"))]), tmp_path / "lake") == ["a"]


def test_a_table_whose_entry_leads_there_another_way_is_no_orphan(tmp_path: Path) -> None:
    dataset(tmp_path / "lake/a")
    dataset(tmp_path / "lake/b")
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    claims = {f"{tmp_path}/lake/x/../a": False}
    assert paths(search(None, [info("lake", f"{tmp_path}/link")], claims), tmp_path / "link") == ["b"]


def test_the_search_ends_and_says_when_it_went_no_deeper(
    engine: SparkSession | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "DEEPEST", 2)
    dataset(tmp_path / "1/2")
    within = search(engine, [info("lake", str(tmp_path))])
    assert (paths(within, tmp_path), within.is_cut_short) == (["1/2"], False)
    dataset(tmp_path / "1/b/3")
    beyond = search(engine, [info("lake", str(tmp_path))])
    assert (paths(beyond, tmp_path), beyond.is_cut_short) == (["1/2"], True)


def test_a_root_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    found = search(None, [info("lake", str(tmp_path / "nowhere")), info("none")])
    assert (found.datasets, found.failures) == (None, [])


def test_no_directory_comes_to_the_driver(
    engine: SparkSession | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(400):
        (tmp_path / f"{number}" / "inner").mkdir(parents=True)
    dataset(tmp_path / "0/inner")
    kind = type(frame_of(engine, pa.table({"number": [1]})))
    rows, came = kind.rows, []

    def counted(frame: Frame) -> list[dict[str, Any]]:
        came.append(rows(frame))
        return came[-1]

    monkeypatch.setattr(kind, "rows", counted)
    found = search(engine, [info("lake", str(tmp_path))], {f"{tmp_path}/{number}": True for number in range(100, 400)})
    assert found.number == 1
    assert max(map(len, came)) <= 8


def test_deep_datasets_do_not_lengthen_plans(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lengths = []
    for depth in (2, 7):
        root = tmp_path / str(depth)
        dataset(root / "/".join("d" * depth))
        found = search(spark, [info("lake", str(root))])
        assert found.datasets is not None
        capsys.readouterr()
        found.datasets.content.explain(extended=True)
        lengths.append(len(capsys.readouterr().out))
        assert lengths[-1] < 2 * lengths[0]
