"""Files of a manifest that are read elsewhere: together with the others they say what the whole manifest says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.errors import ManifestError
from reconciler.manifest import Manifest, ManifestInParts, load, load_in_parts

MAIN = """\
version: 1
name: store
include: [teams/*.yaml]
schemas: {ids: [{name: id, type: int64}]}
catalogs:
  lake: {impl: dir, config: {root: ./lake}, defaults: {tables: {properties: {tier: gold}}}}
  hive: {impl: hive2, config: {uri: "thrift://127.0.0.1:9083"}}
"""
HEAD = "catalogs:\n  lake:\n    namespaces:\n"


def written(folder: Path, main: str, *files: str) -> Path:
    """Write a manifest of ``main`` and ``files``, which it includes."""
    (folder / "teams").mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(files):
        (folder / f"teams/{number}.yaml").write_text(text)
    (folder / "lancens.yaml").write_text(main)
    return folder / "lancens.yaml"


def apart(parts: Manifest | ManifestInParts) -> list[str]:
    """Return the names of the files that are read elsewhere."""
    return [Path(file.file.name).stem for file in parts.files] if isinstance(parts, ManifestInParts) else []


names = st.sampled_from(["a", "b", "B", "c", "deep.er", "x-1", "no", "0123"])
tables = st.sampled_from(
    ["{}", "", "{properties: {k: v}}", "{location: ../lake/x}", "{schema: ids}", "{absent: true}", "{protect: true}"]
)


@st.composite
def team_files(draw: st.DrawFn) -> str:
    """Draw a file that is about a few namespaces, in one layout or another."""
    lines = draw(st.sampled_from(["", "# a comment\n", "version: 1\n", "name: store\n\n"]))
    step = " " * draw(st.integers(1, 4))
    lines += f"catalogs:\n{step}{draw(st.sampled_from(['lake', 'hive']))}:\n{step * 2}namespaces:\n"
    for name in draw(st.lists(names, min_size=1, max_size=3, unique=True)):
        quoted = draw(st.sampled_from([name, name, name, f"'{name}'"]))
        if draw(st.booleans()):
            lines += f"{step * 3}{quoted}: {{tables: {{t: {draw(tables)}}}}}\n"
            continue
        lines += f"{step * 3}{quoted}:  # a note\n\n{step * 4}tables:\n"
        for table in draw(st.lists(names, min_size=1, max_size=3, unique=True)):
            lines += f"{step * 5}{table}: {draw(tables)}\n"
        if draw(st.booleans()):
            lines += f"{step * 4}namespaces: {{below: {{tables: {{t: {{}}}}}}}}\n"
    return lines


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.lists(team_files(), min_size=1, max_size=4))
def test_what_is_read_apart_is_what_is_read_together(
    tmp_path_factory: pytest.TempPathFactory, files: list[str]
) -> None:
    path = written(tmp_path_factory.mktemp("fleet"), MAIN, *files)
    try:
        parts = load_in_parts(path)
        made = parts.together() if isinstance(parts, ManifestInParts) else parts
        whole = load(path)
    except ManifestError:
        with pytest.raises(ManifestError):
            load(path)
        return
    assert (made.digest, made.files, made.name) == (whole.digest, whole.files, whole.name)
    assert {name: one.desired for name, one in made.catalogs.items()} == {
        name: one.desired for name, one in whole.catalogs.items()
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{HEAD}      a: {{tables: {{t: {{properties: {{k: '${{env:HOME}}'}}}}}}}}\n", "a placeholder"),
        (f"{HEAD}      'a': {{tables: {{t: {{}}}}}}\n", "a quoted name"),
        ("catalogs: {lake: {namespaces: {a: {tables: {t: {}}}}}}\n", "all on one line"),
        (f"{HEAD}      a: {{tables: {{t: {{}}}}}}\n    tables: {{x: {{}}}}\n", "tables under the root"),
        ("catalogs:\n  other:\n    impl: memory\n    namespaces:\n      a: {}\n", "a catalog of its own"),
    ],
)
def test_a_file_that_says_more_is_read_with_the_others(tmp_path: Path, text: str, why: str) -> None:
    plain = f"{HEAD}      z: {{tables: {{t: {{}}}}}}\n"
    assert apart(load_in_parts(written(tmp_path, MAIN, text, plain))) == ["1"], why


def test_a_namespace_of_two_files_is_read_in_one_place(tmp_path: Path) -> None:
    files = [f"{HEAD}      {name}: {{tables: {{{table}: {{}}}}}}\n" for name, table in ("at", "bu", "Av")]
    assert apart(load_in_parts(written(tmp_path, MAIN, *files))) == ["1"]


@pytest.mark.parametrize(
    "line",
    ["moved: [{from: a/x, to: z/t}]", "mirror: {from: hive}", "defaults: {tables: {properties: {k: '${env:HOME}'}}}"],
)
def test_a_catalog_in_which_everything_hangs_together_is_read_in_one_place(tmp_path: Path, line: str) -> None:
    main = f"{MAIN.partition('  lake')[0]}  lake:\n    impl: dir\n    config: {{root: ./lake}}\n    {line}\n"
    main += '  hive: {impl: hive2, config: {uri: "thrift://127.0.0.1:9083"}}\n'
    files = [
        f"{HEAD}      z: {{tables: {{t: {{}}}}}}\n",
        "catalogs:\n  hive:\n    namespaces:\n      h: {tables: {t: {}}}\n",
    ]
    assert apart(load_in_parts(written(tmp_path, main, *files))) == ([] if "mirror" in line else ["1"])


def test_text_that_looks_like_a_block_is_noticed_when_the_file_is_read(tmp_path: Path) -> None:
    text = f'{HEAD}      a: {{tables: {{t: {{properties: {{k: "one\n      b: two"}}}}}}}}\n'
    parts = load_in_parts(written(tmp_path, MAIN, text))
    assert isinstance(parts, ManifestInParts)
    assert parts.files[0].names == {"lake": ("a", "b")}
    assert parts.reader.read(parts.files[0], "lake") is None
    assert [*parts.load_whole().catalogs["lake"].desired.namespaces] == [("a",)]
