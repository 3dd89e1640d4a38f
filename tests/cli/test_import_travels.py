"""``lancens import``: what travels with its folder, what is picked, and what is added to an existing manifest."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import reconciler
from tests.cli.running import Ran, lancens

HAND_WRITTEN = """\
# The lake of the store.   Ask before you touch it!
version: 1
name:   store        # ours

catalogs:
    lake:   # one of many
        impl: dir
        config: {root:   './lake'}   # beside this file

        # tables of ours
        tables:
            users: {properties: {tier: gold}}     # gold!
        # nothing below the tables

safety: {min_tables: 5}   # the end, without a line break"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 60 real datasets in nested namespaces of a directory catalog."""
    place = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        _make()
    return place


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, called ``here``."""
    shutil.copytree(made, tmp_path / "here", copy_function=shutil.copyfile)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def _make() -> None:
    rows = pa.table({"id": pa.array([1, 2]), "score": pa.array([0.5, None], pa.float32())})
    lance.write_dataset(rows, "first.lance")
    blocks = []
    for number in range(60):
        name = f"t{number:02}"
        namespaces = [f"n{number % 3}", f"m{number % 2}", "deep"][: number % 4]
        place = (
            f"lake/{name}.lance" if not namespaces or number % 5 == 0 else f"lake/data/{'_'.join(namespaces)}_{name}"
        )
        shutil.copytree("first.lance", place)
        inner = f"tables: {{{name}: {{location: ./{place}, properties: {{number: {number}}}}}}}"
        for namespace in reversed(namespaces):
            inner = f"namespaces: {{{namespace}: {{{inner}}}}}"
        Path(f"part{number}.yaml").write_text(f"catalogs: {{lake: {{{inner}}}}}\n")
        blocks.append(inner)
    Path("lancens.yaml").write_text(
        "version: 1\nname: store\ninclude: [part*.yaml]\ncatalogs: {lake: {impl: dir, config: {root: ./lake}}}\n"
    )
    loaded = reconciler.load("lancens.yaml")
    assert reconciler.apply(reconciler.plan(loaded), loaded).ok


def imported(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Ran:
    made = lancens(capsys, "import", *arguments)
    assert made.code == 0, made
    return made


def plans_nothing(capsys: pytest.CaptureFixture[str], path: str | Path) -> None:
    planned = lancens(capsys, "plan", path)
    assert (planned.code, planned.out.splitlines()[-1][:11]) == (0, "No changes."), planned


@pytest.mark.parametrize("root", ["./lake", "{here}/lake"])
def test_a_copy_of_the_folder_plans_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    root = root.format(here=folder / "here")
    imported(capsys, "--impl", "dir", "--config", f"root={root}", "--name", "store", "--with-schema", "-o", "made.yaml")
    text = Path("made.yaml").read_text()
    assert str(folder) not in text
    assert ("t00:\n" in text, "t00.lance" in text) == (True, False)  # at its default location
    shutil.copytree("lake", folder / "elsewhere/lake")
    shutil.copy("made.yaml", folder / "elsewhere")
    shutil.rmtree(folder / "here/lake")
    monkeypatch.chdir(folder)

    plans_nothing(capsys, folder / "elsewhere/made.yaml")
    made = reconciler.load(folder / "elsewhere/made.yaml").catalogs["lake"].desired
    assert len(made.tables) == 60
    assert {len(table.schema or ()) for table in made.tables.values()} == {2}


def test_only_what_is_selected_is_written_and_the_rest_is_never_pruned(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    imported(capsys, "lancens.yaml", "--select", "lake/n1/**", "--select", "lake/t00", "-o", "some.yaml")

    some = reconciler.load("some.yaml").catalogs["lake"].desired
    assert {name[0] for name in some.tables} == {"n1", "t00"}
    plans_nothing(capsys, "some.yaml")


def test_a_glob_that_matches_nothing_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = lancens(capsys, "import", "--select", "lake/nothing/**")

    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("--select `lake/nothing/**` matches no ")


def test_unmanaged_objects_can_be_imported_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree("first.lance", "lake/loose.lance")
    imported(capsys, "--unmanaged", "-o", "loose.yaml")

    loose = reconciler.load("loose.yaml")
    assert set(loose.catalogs["lake"].desired.tables) == {("loose",)}
    assert loose.name != "store"  # under that name, all the others would be pruned
    plans_nothing(capsys, "loose.yaml")


# ---- what is not there


def test_a_root_that_is_not_there_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = lancens(capsys, "import", "--impl", "dir", "--config", "root=./lkae", "-o", "made.yaml")

    assert (made.code, Path("made.yaml").exists()) == (1, False)
    assert f"root {folder}/here/lkae does not exist" in made.err


def test_a_root_with_nothing_in_it_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").mkdir()
    made = imported(capsys, "--impl", "dir", "--config", "root=./empty", "-o", "made.yaml")

    assert f"no Lance table under {folder}/here/empty." in made.err
    assert "Wrote made.yaml, manifest `here`: 0 namespaces, 0 tables" in made.err


# ---- appending


def written_by_hand(text: str = HAND_WRITTEN, name: str = "hand.yaml") -> Path:
    path = Path(name)
    path.write_bytes(text.encode())
    return path


def added_lines(before: str, after: str) -> list[str]:
    """Return what is in ``after`` beside the lines of ``before``, all of which are in it, in their order."""
    rest = iter(after.splitlines(keepends=True))
    added = []
    for line in before.splitlines(keepends=True):
        for other in rest:
            if other == line:
                break
            added.append(other)
        else:
            raise AssertionError(f"{line!r} is not there any more")
    return [*added, *rest]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_what_is_appended_leaves_every_line_as_it_was(
    folder: Path, capsys: pytest.CaptureFixture[str], line_end: str
) -> None:
    before = HAND_WRITTEN.replace("\n", line_end)
    shutil.copytree("first.lance", "lake/loose.lance")
    path = written_by_hand(before)
    said = imported(capsys, "--append", path).err

    after = path.read_bytes().decode()
    assert added_lines(before, after)
    assert after.count("\n") == after.count(line_end)
    made = reconciler.load(path).catalogs["lake"].desired
    assert (len(made.tables), made.tables["users",].properties) == (62, {"tier": "gold"})
    assert "hand.yaml: 12 namespaces, 61 tables; " in said
    assert "nothing was written" in imported(capsys, "--append", path).err
    assert path.read_bytes().decode() == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tables: {}   # none yet", "tables:   # none yet\n      t00:\n"),
        ("tables:   # none yet", "tables:   # none yet\n      t00:\n"),
        ("tables: {a: {}, b: {}}  # two", 'tables: {a: {}, b: {}, t00: {properties: {number: "0"}}}  # two'),
        ("prune: never  # nothing", "prune: never  # nothing\n    tables:\n      t00:\n"),
    ],
)
def test_what_is_appended_fits_the_layout(
    folder: Path, capsys: pytest.CaptureFixture[str], before: str, after: str
) -> None:
    head = "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n    "
    path = written_by_hand(f"{head}{before}\n# the end\n")
    imported(capsys, "--append", path, "--select", "lake/t00")

    text = path.read_text()
    assert text.startswith(head + after)
    assert text.endswith("\n# the end\n")


def test_a_catalog_of_its_own_is_appended_with_its_config(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written_by_hand()
    Path("second").mkdir()
    shutil.copytree("first.lance", "second/other.lance")
    service = ("--impl", "dir", "--config", "root=./second")
    imported(capsys, *service, "--catalog", "second", "--append", path)

    made = reconciler.load(path)
    assert set(made.catalogs["second"].desired.tables) == {("other",)}
    assert made.catalogs["second"].resolve_config().properties == {"root": str(folder / "here/second")}
    again = lancens(capsys, "import", *service, "--catalog", "second", "--append", path)
    assert again.code == 1
    assert "a catalog `second` already" in again.err


def test_a_file_that_is_no_part_of_the_manifest_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written_by_hand(name="other.yml")
    refused = lancens(capsys, "import", "part0.yaml", "lancens.yaml", "--append", path)

    assert refused.code == 1
    assert "other.yml is not a file of the manifest" in refused.err


def test_an_included_file_takes_the_blocks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree("first.lance", "lake/loose.lance")
    before = Path("part1.yaml").read_text()
    imported(capsys, "--append", "part1.yaml", "lancens.yaml")

    assert Path("part1.yaml").read_text() == before.removesuffix("}}\n") + ", tables: {loose: {}}}}\n"


# ---- data that no catalog has


def test_data_without_an_entry_gets_a_block(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree("first.lance", "lake/data/2024/clicks.lance")
    shutil.copytree("first.lance", "lake/data/a$b")
    before = sorted(Path("lake").rglob("*"))
    made = imported(capsys, "--from-storage", "--append", "lancens.yaml")

    desired = reconciler.load("lancens.yaml").catalogs["lake"].desired
    assert len(desired.tables) == 61
    assert desired.tables["data", "2024", "clicks"].location == f"{folder}/here/lake/data/2024/clicks.lance"
    assert sorted(Path("lake").rglob("*")) == before
    assert f"{folder}/here/lake/data/a$b is in no catalog" in made.err
    assert "data/2024/clicks  register" in lancens(capsys, "plan").out
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    assert "nothing was written" in imported(capsys, "--from-storage", "--append", "lancens.yaml").err
