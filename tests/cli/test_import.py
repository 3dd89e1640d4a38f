"""``lancens import``: planning its manifest gives no changes, in any folder and with any owner of the objects."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import ANY

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.model import ownership
from reconciler.model.desired import Prune
from tests.cli.running import Ran, lancens

DIR = ("--impl", "dir", "--config", "root=./lake")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a directory catalog in which nothing is managed: one table, ``users``."""
    monkeypatch.chdir(tmp_path)
    lance.write_dataset(pa.table({"id": [1]}), tmp_path / "lake/users.lance")
    (tmp_path / "sub").mkdir()
    return tmp_path


def managed(
    folder: Path, name: str, catalog: str, *tables: str, properties: str = "", identity: str | None = None
) -> Path:
    """Let the manifest ``name`` manage ``tables`` of the lake, and return its file."""
    blocks = "".join(f"      {table}: {{{properties}}}\n" for table in tables)
    path = folder / f"{name}.yaml"
    path.write_text(
        f"version: 1\nname: {name}\n{f'id: {identity}' if identity else ''}\n"
        f"catalogs:\n  {catalog}:\n    impl: dir\n    config: {{root: ./lake}}\n"
        f"    tables:\n{blocks}"
    )
    loaded = reconciler.load(path)
    report = reconciler.apply(reconciler.plan(loaded, adopt=True), loaded, journal=folder / "journal")
    assert report.ok
    return path


def lake(folder: Path) -> Backend:
    return registry.connect("dir", {"root": str(folder / "lake")})


def plans_nothing(capsys: pytest.CaptureFixture[str], path: str | Path) -> None:
    planned = lancens(capsys, "plan", path)
    assert planned.code == 0, planned
    assert planned.out.splitlines()[-1].startswith("No changes."), planned.out


def imported(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ran:
    made = lancens(capsys, "import", *arguments)
    assert made.code == 0, made
    return made


# ---- where the text is kept


@pytest.mark.parametrize("out", ["lancens.yaml", "sub/lancens.yaml", "../{name}/sub/lancens.yaml"])
def test_a_relative_root_is_written_as_seen_from_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str], out: str
) -> None:
    out = out.format(name=folder.name)
    imported(capsys, *DIR, "-o", out)

    assert ("root: ../lake" in Path(out).read_text()) == ("sub" in out)
    plans_nothing(capsys, out)


def test_a_manifest_elsewhere_is_imported_to_the_current_folder(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = managed(folder, "store", "lake", "users")
    monkeypatch.chdir(folder / "sub")
    Path("lancens.yaml").write_text(imported(capsys, str(path)).out)
    imported(capsys, str(path), "-o", "../again.yaml")

    plans_nothing(capsys, "lancens.yaml")
    plans_nothing(capsys, "../again.yaml")


def test_a_folder_that_is_not_there_is_said_before_anything_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = lancens(capsys, "import", "--impl", "dir", "--config", "root=/not/there", "-o", "missing/lancens.yaml")

    assert made.code == 1
    assert "no folder missing" in made.err


# ---- secrets


def test_a_secret_that_a_manifest_set_stays(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = managed(folder, "store", "lake", "users", properties="properties: {api_token: hunter2, tier: gold}")
    imported(capsys, str(path), "-o", "made.yaml")

    text = Path("made.yaml").read_text()
    assert "hunter2" not in text
    assert 'api_token: "${env:LANCENS_LAKE_USERS_API_TOKEN}"' in text
    assert "LANCENS_LAKE_USERS_API_TOKEN" in lancens(capsys, "plan", "made.yaml").err
    monkeypatch.setenv("LANCENS_LAKE_USERS_API_TOKEN", "hunter2")
    plans_nothing(capsys, "made.yaml")


def test_what_policies_set_is_imported_with_its_secrets_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = "{match: '**', properties: {tier: gold, api_token: hunter2}}"
    Path("store.yaml").write_text(
        "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n"
        f"    policies: [{policy}]\n"
    )
    assert lancens(capsys, "apply", "store.yaml", "--auto-approve").code == 0
    imported(capsys, *DIR, "-o", "made.yaml")

    text = Path("made.yaml").read_text()
    assert "tier: gold" in text
    assert "hunter2" not in text
    variable = text.partition("${env:")[2].partition("}")[0]
    monkeypatch.setenv(variable, "hunter2")
    plans_nothing(capsys, "made.yaml")


# ---- who manages it


def test_what_another_manifest_manages_is_left_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = managed(folder, "store", "lake", "users")
    managed(folder, "ads", "main", "clicks")
    imported(capsys, str(store), "-o", "made.yaml")

    assert "ads/main manages it: clicks\n" in Path("made.yaml").read_text()
    plans_nothing(capsys, "made.yaml")


def test_namespaces_of_another_manifest_are_paths(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = managed(folder, "store", "lake", "users")
    catalog = lake(folder)
    others = {ownership.MANAGED_BY: "ads/main", ownership.KEYS: '["tier"]', "tier": "gold"}
    catalog.insert_namespace(("shared",), others)
    catalog.insert_namespace(("theirs",), others)
    catalog.insert_table(("shared", "loose"), str(folder / "lake/shared_loose.lance"), {})
    imported(capsys, str(store), "-o", "made.yaml")

    desired = reconciler.load("made.yaml").catalogs["lake"].desired
    assert {one.id: one.is_claimed for one in desired.namespaces.values()} == {("shared",): False}
    assert set(desired.tables) == {("users",), ("shared", "loose")}
    plans_nothing(capsys, "made.yaml")


def test_a_lost_manifest_is_written_again_by_its_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    managed(folder, "ads", "lake", "a")
    managed(folder, "store", "lake", "users", "orders", identity="1f2e")
    made = imported(capsys, *DIR, "--name", "store", "-o", "made.yaml")

    assert "Wrote made.yaml, manifest `store`: " in made.err
    loaded = reconciler.load("made.yaml")
    assert (loaded.name, loaded.identity) == ("store", "1f2e")
    assert set(loaded.catalogs["lake"].desired.tables) == {("users",), ("orders",)}
    plans_nothing(capsys, "made.yaml")


def test_a_new_manifest_is_named_after_its_folder_and_takes_nothing_of_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    managed(folder, "ads", "lake", "a")
    managed(folder, "sub", "main", "b", identity="1f2e")
    made = imported(capsys, *DIR, "-o", "sub/made.yaml")

    assert "Wrote sub/made.yaml, manifest `sub-2`: " in made.err
    assert "1 object left out: ads manages it. If its manifest is lost, `--name ads` writes it again." in made.err
    loaded = reconciler.load("sub/made.yaml")
    assert loaded.identity not in (None, "1f2e")
    assert set(loaded.catalogs["main"].desired.tables) == {("users",)}
    plans_nothing(capsys, "sub/made.yaml")


@pytest.mark.parametrize("folders", [("team-a", "team-b"), ("a/data", "b/data")], ids=["two names", "one name"])
def test_two_teams_that_import_parts_of_one_catalog_leave_each_other_alone(
    folder: Path, capsys: pytest.CaptureFixture[str], folders: tuple[str, str]
) -> None:
    catalog = lake(folder)
    for name in ("ads", "ml"):
        catalog.insert_namespace((name,), {})
        lance.write_dataset(pa.table({"id": [1]}), folder / f"lake/{name}.lance")
        catalog.insert_table((name, "t"), str(folder / f"lake/{name}.lance"), {})
    files = [Path(where, "lancens.yaml") for where in folders]
    for path, name in zip(files, ("ads", "ml"), strict=True):
        path.parent.mkdir(parents=True)
        imported(capsys, *DIR, "--select", f"main/{name}/**", "-o", str(path))
        assert f'scope: ["{name}/**"]' in path.read_text()
    for path in files:
        assert lancens(capsys, "apply", path, "--adopt", "--auto-approve").code == 0
    for path in files:
        plans_nothing(capsys, path)
        whole = path.with_name("whole.yaml")  # one that would prune all that carries its mark
        whole.write_text("".join(line for line in path.open() if "scope:" not in line))
        planned = lancens(capsys, "plan", whole)
        assert "deregister " not in planned.out, planned.out
        assert ("manifest of the same name" in planned.out) == (folders[0] == "a/data")


def test_the_catalogs_name_chooses_among_its_managers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    managed(folder, "ads", "main", "a")
    managed(folder, "store", "lake", "users", "orders")
    managed(folder, "ads", "lake", "b", "c")
    imported(capsys, *DIR, "--name", "ads", "--catalog", "main", "-o", "made.yaml")

    made = reconciler.load("made.yaml").catalogs["main"].desired
    assert (made.owner.rpartition("/")[0], set(made.tables)) == ("ads/main", {("a",)})
    plans_nothing(capsys, "made.yaml")


def test_a_name_under_which_everything_would_conflict_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    managed(folder, "store", "lake", "users")
    refused = lancens(capsys, "import", *DIR, "--name", "store", "--catalog", "foo")

    assert (refused.code, refused.out) == (1, "")
    assert "store/lake manages it" in refused.err
    assert "`--catalog lake`" in refused.err


def test_a_catalog_that_a_manifest_marked_is_appended_to_it_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    managed(folder, "store", "lake", "users", identity="1f2e")
    Path("lancens.yaml").write_text("version: 1\nname: store\nid: 1f2e\ncatalogs: {}\n")
    imported(capsys, *DIR, "--catalog", "lake", "--append", "lancens.yaml")

    assert set(reconciler.load("lancens.yaml").catalogs["lake"].desired.tables) == {("users",)}
    plans_nothing(capsys, "lancens.yaml")


@pytest.mark.parametrize("mark", ["nobody", "a/b/c", "/lake", "store/", "${x}/lake"])
def test_a_mark_that_no_manifest_can_have_names_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], mark: str
) -> None:
    lake(folder).insert_namespace(("odd",), {ownership.MANAGED_BY: mark})
    imported(capsys, *DIR, "--catalog", "foo", "-o", "made.yaml")

    made = reconciler.load("made.yaml").catalogs["foo"].desired
    assert (made.owner, set(made.tables), set(made.namespaces)) == (ANY, {("users",)}, set())
    plans_nothing(capsys, "made.yaml")


def test_an_unmanaged_catalog_takes_the_name_given(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported(capsys, *DIR, "--catalog", "prod", "-o", "made.yaml")

    assert list(reconciler.load("made.yaml").catalogs) == ["prod"]
    plans_nothing(capsys, "made.yaml")


def test_what_an_active_mirror_wants_is_not_appended(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "lancens.yaml"
    mirror = "mirror: {from: lake, into: [copy]}"
    path.write_text(
        "version: 1\nname: store\ncatalogs:\n  lake: {impl: dir, config: {root: ./lake}, tables: {users: {}}}\n"
        f"  above:\n    impl: dir\n    config: {{root: .}}\n    {mirror}\n"
    )
    assert lancens(capsys, "apply", path, "--auto-approve").code == 0
    imported(capsys, "--append", str(path), "--select", "above/**")
    assert "copy" not in path.read_text().replace(mirror, "")

    above = registry.connect("dir", {"root": str(folder)})
    above.insert_namespace(("own",), {})
    above.insert_table(("own", "t"), str(folder / "lake/users.lance"), {})
    above.insert_table(("copy", "extra"), str(folder / "lake/users.lance"), {})
    imported(capsys, "--append", str(path))
    tables = reconciler.load(path).catalogs["above"].desired.tables
    assert {name for name in tables if len(name) > 1} == {("own", "t"), ("copy", "extra")}

    path.write_text(path.read_text().replace(mirror, "prune: owned"))
    imported(capsys, "--append", str(path))
    assert ("copy", "users") in reconciler.load(path).catalogs["above"].desired.tables, "nothing wants it any more"


def test_a_catalog_that_a_mirror_follows_is_imported_as_policies(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = lake(folder)
    source.insert_namespace(("a",), {})
    for name in ("t", "gone", "plain"):
        place = folder / f"lake/data/{name}.lance"
        lance.write_dataset(pa.table({"id": [1]}), place)
        source.insert_table(("a", name), str(place), {} if name == "plain" else {"team": "ml", "token": "s3cret"})
    made = ("--catalog", "lake", "--select", "lake/a/**", "--policies", "-o", "lancens.yaml")
    imported(capsys, *DIR, *made)
    desired = reconciler.load("lancens.yaml").catalogs["lake"].desired
    assert (desired.tables, desired.namespaces, desired.prune) == ({}, {}, Prune.NEVER)
    assert [(one.pattern, one.properties) for one in desired.policies] == [
        ("a/gone", {"team": "ml"}),
        ("a/t", {"team": "ml"}),
    ]
    plans_nothing(capsys, "lancens.yaml")
    with Path("lancens.yaml").open("a") as file:
        file.write('  above:\n    impl: dir\n    config: {root: .}\n    mirror: {from: lake, select: ["a/**"]}\n')
    assert lancens(capsys, "plan", "-o", "plan.json").code == 0
    assert lancens(capsys, "apply", "plan.json", "--auto-approve").code == 0
    above = registry.connect("dir", {"root": str(folder)})
    there = above.scan().tables
    assert {name[-1]: one.properties.get("team") for name, one in there.items() if name[0] == "a"} == {
        "t": "ml",
        "gone": "ml",
        "plain": None,
    }
    assert not any(ownership.owner_of(one.properties) for one in source.scan().tables.values()), "nothing is marked"
    source.remove_table(("a", "gone"))
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    assert ("a", "gone") not in above.scan().tables
    assert ("a", "gone") not in source.scan().tables
    for needless in ("--with-schema", "--from-storage"):
        assert lancens(capsys, "import", *DIR, "--policies", needless).code == 1


def test_data_below_directories_is_named_and_found_at_any_depth(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = "/".join("abcdefghijkl")
    for place in ("team/prod/clicks.lance", f"{deep}.lance"):
        lance.write_dataset(pa.table({"id": [1]}), folder / "lake" / place)
    note = f"data below the root that has no entry is left out; --from-storage adds it: {deep}.lance, team/prod/"
    left_out = lancens(capsys, "import", *DIR)
    assert f"# {note}" in left_out.out
    assert note in left_out.err
    part = "version: 1\nname: shop\ncatalogs: {lake: {impl: dir, scope: [team/**], config: {root: ./lake}}}\n"
    Path("part.yaml").write_text(part)
    part = lancens(capsys, "import", "part.yaml", "--from-storage").out
    assert ("clicks:" in part, "users:" in part, "left out" in part) == (True, False, False)
    lancens(capsys, "import", *DIR, "--from-storage", "-o", "all.yaml")
    assert "2 to register" in lancens(capsys, "plan", "all.yaml").out
    assert lancens(capsys, "apply", "all.yaml", "--auto-approve").code == 0
    assert lancens(capsys, "drift", "all.yaml").code == 0
    assert "no entry" not in lancens(capsys, "import", *DIR).err
