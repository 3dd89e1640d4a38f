"""`moved`: what it says, over several files, and every way to get it wrong."""

from __future__ import annotations

import pytest

from reconciler import load
from reconciler.manifest import Manifest
from reconciler.model.errors import ManifestError
from tests.unit.manifest.conftest import Load, Write, manifest

TABLES = "tables: {}\nnamespaces: {new: {tables: {a: {}, b: {}, gone: {absent: true}}}, live: {tables: {t: {}}}}"


def lines(*entries: str) -> str:
    return manifest(f"moved: [{', '.join(entries)}]\n{TABLES}")


def test_tables_and_namespaces_are_told_apart_by_their_blocks(load_text: Load) -> None:
    loaded = load_text(lines("{from: old/x, to: new/a}", "{from: older, to: live}"))
    moves = loaded.catalogs["lake"].desired.moves
    assert [(move.origin, move.to, move.is_table) for move in moves] == [
        (("old", "x"), ("new", "a"), True),
        (("older",), ("live",), False),
    ]
    assert str(moves[0].source) == "lancens.yaml:7"


def test_the_lines_of_all_files_count_and_are_part_of_what_a_plan_knows(write: Write) -> None:
    second = "catalogs:\n  lake:\n    moved: [{from: old/y, to: new/b}]\n"
    path = write(lancens="include: [second.yaml]\n" + lines("{from: old/x, to: new/a}"), second=second)
    loaded = load(path)
    assert [move.origin for move in loaded.catalogs["lake"].desired.moves] == [("old", "x"), ("old", "y")]
    alone = load(write(lancens=lines("{from: old/y, to: new/b}", "{from: old/x, to: new/a}")))
    assert alone.digest == loaded.digest
    assert load(write(lancens=lines("{from: old/x, to: new/a}"))).digest != loaded.digest
    assert load(write(lancens=manifest(TABLES))).digest != loaded.digest


AT = "lancens.yaml:7:"
APPLIED = "delete the line if it has been applied"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            lines("{from: live/t, to: new/a}"),
            f"{AT}20: `from` in `moved`: `live/t` is still in the manifest, at lancens.yaml:9:",
        ),
        (
            lines("{from: live, to: new}"),
            f"{AT}20: `from` in `moved`: `live` is still in the manifest, at lancens.yaml:9:",
        ),
        (
            lines("{from: x/y, to: new/c}"),
            f"{AT}29: `to` in `moved`: `new/c` is not in the manifest of lake; {APPLIED}; did you mean `new/b`?",
        ),
        (lines("{from: x/y, to: new/gone}"), f"{AT}29: `to` in `moved`: `new/gone` is `absent: true`, so that nothing"),
        (
            lines("{from: x/y, to: y/z}", "{from: y/z, to: new/a}"),
            f"{AT}35 moves it on; write one line for all: {{from: x/y, to: new/a}}, or {APPLIED}",
        ),
        (
            lines("{from: x/y, to: y/z}", "{from: y/z, to: z/z}", "{from: z/z, to: new/a}"),
            f"{AT}35 moves it on; write one line for all: {{from: x/y, to: new/a}}, or {APPLIED}",
        ),
        (
            lines("{from: x/y, to: y/z}", "{from: y/z, to: x/y}"),
            f"{AT}29: `to` in `moved`: `y/z` is not in the manifest of lake; {APPLIED}, or name a table",
        ),
        (
            lines("{from: new/x, to: new/x}"),
            f"{AT}31: `to` in `moved`: `new/x` is not in the manifest of lake; {APPLIED}; did you mean `new/b`?",
        ),
        (
            lines("{from: x/y, to: new/a}", "{from: x/y, to: new/b}"),
            f"{AT}44: `from` in `moved`: `x/y` is a duplicate, first at {AT}20",
        ),
        (
            lines("{from: x/y, to: new/a}", "{from: x/z, to: new/a}"),
            f"{AT}53: `to` in `moved`: `new/a` is a duplicate, first at {AT}29",
        ),
        (lines("{from: new/a, to: new/a}"), f"{AT}31: `to` in `moved`: `new/a` is the same name as `from`"),
        (lines("{from: x//y, to: new/a}"), f"{AT}20: `from` in `moved` (memory): `x//y`; expected names joined"),
        (
            lines("{from: x$y/z, to: new/a}"),
            f"{AT}20: `from` in `moved` (memory): `x$y` in `x$y/z`: a name cannot",
        ),
        (
            lines("{from: x/y}"),
            f"{AT}13: an entry of `moved` in catalog lake has no `to`; expected `from` and `to`",
        ),
        (
            lines("{form: x/y, to: new/a}"),
            f"{AT}14: unknown key `form` in an entry of `moved` in catalog lake; did you mean `from`?",
        ),
        (manifest("moved: old/x"), f"{AT}12: `moved` in catalog lake is `old/x`, expected a list"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(write: Write, text: str, said: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(write(lancens=text))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (("{from: old, to: new}", "{from: new/x, to: new/a}"), "`new/x` is where {first} moves `old/x`"),
        (("{from: new/x, to: new/a}", "{from: old, to: new}"), "`new/x` is where {second} moves `old/x`"),
        (("{from: old, to: new}", "{from: new/x, to: live/t}"), "write {{from: old/x, to: live/t}} instead"),
        (("{from: old, to: deep}", "{from: deep/x, to: deep/er}"), "write {{from: old/x, to: deep/er}} instead"),
        (("{from: 'old/*', to: 'new/*'}", "{from: new/x, to: new/a}"), "`new/x` is where {first} moves `old/x`"),
        (("{from: 'old_*', to: 'ne*'}", "{from: new/x, to: new/a}"), "`new/x` is where {first} moves `old_w/x`"),
        (("{from: old, to: new}", "{from: 'new/x*', to: 'new/*'}"), "write {{from: old/xa, to: new/a}} instead"),
        (("{from: old/x, to: old/y}", "{from: old, to: new}"), "write one line for all: {{from: old/x, to: new/y}}"),
        (
            ("{from: old/x, to: y/a}", "{from: 'y/*', to: 'new/*'}"),
            "write one line for all: {{from: old/x, to: new/a}}",
        ),
    ],
)
def test_a_name_that_another_line_moves_to_is_no_old_name(write: Write, entries: tuple[str, str], said: str) -> None:
    deep = TABLES.replace("live:", "deep: {namespaces: {er: {}}, tables: {t: {}}}, live:")
    with pytest.raises(ManifestError) as caught:
        load(write(lancens=manifest(f"moved: [{', '.join(entries)}]\n{deep}")))
    second = 13 + len(entries[0]) + 2
    assert said.format(first=f"{AT}13", second=f"{AT}{second}") in str(caught.value)


def test_a_line_for_the_name_before_and_one_for_the_name_between_are_two_tables(load_text: Load) -> None:
    entries = "{from: old, to: new}", "{from: old/x, to: new/a}", "{from: new/x, to: new/b}"
    assert moves_of(load_text(lines(*entries))) == {"old": "new", "old/x": "new/a", "new/x": "new/b"}


def test_names_are_compared_as_the_catalog_compares_them(write: Write) -> None:
    text = (
        "version: 1\nname: s\ncatalogs:\n  lake:\n    impl: glue\n    config: {region: r}\n    moved:\n"
        "      - {from: db/USERS, to: db/users}\n      - {from: one, to: db/users}\n"
        "      - {from: a-b/c, to: db/users}\n"
        "    scope: [db/**]\n    namespaces: {db: {tables: {users: {}}}}\n"
    )
    with pytest.raises(ManifestError) as caught:
        load(write(lancens=text))
    said = str(caught.value)
    assert "8:30: `to` in `moved`: `db/users` " in said
    assert "9:16: `from` in `moved`: `one` (glue) " in said
    assert "10:16: `from` in `moved` (glue): `a-b` " in said


def moves_of(loaded: Manifest) -> dict[str, str]:
    return {"/".join(move.origin): "/".join(move.to) for move in loaded.catalogs["lake"].desired.moves}


def test_a_star_stands_for_a_part_of_each_name_in_the_manifest(load_text: Load) -> None:
    assert moves_of(load_text(lines("{from: old_*, to: new/*}"))) == {"old_a": "new/a", "old_b": "new/b"}
    assert moves_of(load_text(lines("{from: 'x/*-*', to: '*/*'}"))) == {
        "x/new-a": "new/a",
        "x/new-b": "new/b",
        "x/live-t": "live/t",
    }


def test_a_line_of_its_own_and_a_block_at_the_old_name_win_over_a_star(load_text: Load) -> None:
    loaded = load_text(lines("{from: old/*, to: new/*}", "{from: other/b, to: new/b}"))
    assert moves_of(loaded) == {"old/a": "new/a", "other/b": "new/b"}
    kept = TABLES.replace("tables: {}", "tables: {old_a: {}}")
    assert moves_of(load_text(manifest(f"moved: [{{from: old_*, to: new/*}}]\n{kept}"))) == {"old_b": "new/b"}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{from: old, to: new/*}", f"{AT}20: `from` in `moved`: `old` and `to`: `new/*`; expected as many `*`"),
        ("{from: old/**, to: new/**}", f"{AT}20: `from` in `moved`: `old/**`"),
        ("{from: old/*, to: nowhere/*}", f"{AT}31: `to` in `moved`: `nowhere/*` matches nothing in the manifest"),
    ],
)
def test_a_star_that_means_nothing_is_an_error(write: Write, entry: str, said: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(write(lancens=lines(entry)))
    assert said in str(caught.value)


def test_two_blocks_cannot_have_had_one_name(write: Write) -> None:
    blocks = "namespaces: {a: {tables: {b-c: {}}}, a-b: {tables: {c: {}}}}"
    with pytest.raises(ManifestError, match="would become `a/b-c` and `a-b/c`"):
        load(write(lancens=manifest(f"moved: [{{from: 'x/*-*', to: '*/*'}}]\n{blocks}")))


def test_a_name_is_suggested_for_the_first_entries_only(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[str] = []

    def counted(word: str, *_: object, **__: object) -> list[str]:
        searches.append(word)
        return []

    monkeypatch.setattr("difflib.get_close_matches", counted)
    with pytest.raises(ManifestError) as caught:
        load(write(lancens=lines(*(f"{{from: old/a{number}, to: new/c{number}}}" for number in range(200)))))
    assert len(caught.value.problems) == 200
    assert 0 < len(searches) <= 10
