"""Hostile files are refused within bounded memory, and nothing but ManifestError ever comes out."""

from __future__ import annotations

import os
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reconciler import load
from reconciler.manifest.reader import MAX_FILE_BYTES
from reconciler.model.errors import ManifestError
from tests.unit.manifest.conftest import Write, assert_problems, manifest

MEGABYTE = 2**20


def problems_of(path: Path) -> list[str]:
    return [str(problem) for problem in error_of(path).problems]


def error_of(path: Path) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        load(path)
    return caught.value


def error_and_peak(path: Path) -> tuple[ManifestError, int]:
    """Return the error of a manifest, and the most memory that reading it took."""
    tracemalloc.start()
    error = error_of(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return error, peak


def test_an_alias_bomb_is_refused_at_its_anchors(write: Write) -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}, *{a}]\n" for a, b in pairwise("abcdefghijk"))

    found, peak = error_and_peak(write(lancens=bomb))

    assert str(found.problems[0]).startswith("lancens.yaml:1:4: anchor `&a`")
    assert len(found.problems) == 20
    assert peak < MEGABYTE


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_a_million_levels_are_refused_at_the_hundredth(write: Write, opening: str) -> None:
    path = write(lancens=opening * 1_000_000)

    found, peak = error_and_peak(path)

    assert len(found.problems) == 1
    assert peak < 40 * MEGABYTE


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\nname: n\n" + "".join(f"key{number}: x\n" for number in range(5000)),
        manifest("tables:\n" + "".join(f"  t{number}: {{locatio: x}}\n" for number in range(5000))),
        manifest("").replace("config: {}", "config:\n" + "".join(f"      key{number}: x\n" for number in range(5000))),
    ],
    ids=["top", "tables", "config"],
)
def test_what_is_wrong_is_explained_only_as_often_as_it_is_shown(
    write: Write, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    searches: list[str] = []

    def counted(word: str, *_: object, **__: object) -> list[str]:
        searches.append(word)
        return []

    monkeypatch.setattr("difflib.get_close_matches", counted)

    assert problems_of(write(lancens=text))[-1] == "lancens.yaml: more errors are not shown"
    assert 0 < len(searches) <= 1001


def test_a_file_of_50_megabytes_is_not_read_to_its_end(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "lancens.yaml"
    with path.open("wb") as opened:
        opened.truncate(50 * MEGABYTE)

    found, peak = error_and_peak(path)

    assert_problems(found, ("lancens.yaml", "larger than 32 MB", "`include`"))
    assert peak < 2 * MAX_FILE_BYTES


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")

    [said] = problems_of(tmp_path / "pipe.yaml")
    assert said.startswith(f"{tmp_path / 'pipe.yaml'}: cannot be read")


@pytest.mark.parametrize("pattern", ["**/../**/../**/../**", "*/../x.yaml", "a/**/b/../c.yaml"])
def test_an_include_goes_up_before_its_first_wildcard_only(write: Write, tmp_path: Path, pattern: str) -> None:
    """A tree of a few hundred folders would be walked for ever."""
    for number in range(100):
        (tmp_path / f"a/{number}/b").mkdir(parents=True)
    path = write(lancens=manifest("").replace("catalogs", f"include: ['{pattern}']\ncatalogs", 1))

    assert_problems(error_of(path), ("lancens.yaml:3:11", f"include `{pattern}` goes up after a wildcard"))


def test_an_included_device_is_not_opened(write: Write) -> None:
    path = write(lancens=manifest("").replace("catalogs", "include: [/dev/zero]\ncatalogs", 1))

    assert_problems(error_of(path), ("lancens.yaml:3:11", "include `/dev/zero` leads out", "--allow-outside"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("version: 1\n".encode("utf-16"), "lancens.yaml:1:1: the file is in UTF-16, expected UTF-8"),
        ("version: 1\n".encode("utf-32-be"), "lancens.yaml:1:1: control character U+0000; expected printable text, "),
        (b"version: 1\nname: caf\xe9\n", "lancens.yaml:2:10: byte 0xe9 is not UTF-8; save the file as UTF-8"),
        (b"version: 1\nname: a\x00b\n", "lancens.yaml:2:8: control character U+0000; expected printable text, or an e"),
        ("name: a\u2028b\n".encode(), "lancens.yaml:1:8: control character U+2028; expected printable text, or an es"),
    ],
)
def test_other_encodings_and_control_characters_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "lancens.yaml"
    path.write_bytes(data)

    found = problems_of(path)

    assert len(found) == 1
    assert found[0].startswith(message)


def test_a_hundred_thousand_duplicate_keys_make_a_short_report(write: Write) -> None:
    path = write(lancens="a: 1\n" * 100_000)

    found, peak = error_and_peak(path)

    assert len(found.problems) == 1001
    assert peak < 20 * MEGABYTE


# ---- whatever is in the file ----------------------------------------------------------------------------------------

SAMPLE = """\
version: 1
name: shop
safety: {max_removal_percent: 20}
catalogs:
  lake:
    impl: memory
    config: {name: "${env:HOME}", storage.region: eu}
    prune: owned
    scope: ["a/**", t]
    tables: {t: {}}
    namespaces:
      a:
        properties: {owner: ml, on: 2024-01-01}
        tables:
          users:
            location: "./${var:x:-y}.lance"
            schema:
              - {name: id, type: int64, nullable: false}
              - {name: v, type: "fixed_size_list<float32>[8]", metadata: {k: v}}
            evolve: additive
            protect: true
        namespaces: {b: {absent: true, tables: {old: {absent: true}}}}
"""
fuzz = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def load_bytes(folder: Path, data: bytes) -> None:
    path = folder / "lancens.yaml"
    path.write_bytes(data)
    report = ""
    try:
        load(path)
    except ManifestError as error:
        report = str(error)
    assert "pydantic" not in report


@fuzz
@given(data=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(data=b"%YAML 9.9\n--- {}")
@example(data=b"%TAG ! tag:x\n--- {}")
@example(data=b"? \n: \n")
@example(data=b"version: |\n  1\n")
def test_any_bytes_are_a_manifest_or_an_error(tmp_path: Path, data: bytes) -> None:
    load_bytes(tmp_path, data)


@fuzz
@given(text=st.text("{}[]:,-?&*!|>'\"%@`#~ \n\t\\$ab01.", max_size=120))
def test_any_yaml_punctuation_is_a_manifest_or_an_error(tmp_path: Path, text: str) -> None:
    load_bytes(tmp_path, text.encode())


@fuzz
@given(data=st.data())
def test_a_manifest_cut_pasted_and_flipped_is_a_manifest_or_an_error(tmp_path: Path, data: st.DataObject) -> None:
    text = SAMPLE
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 30)))
        piece = data.draw(st.sampled_from(["", "\n", "{", "]", ": ", "null", "${", "'", "- ", "\u0000", SAMPLE[60:90]]))
        text = text[:start] + piece + text[end:]

    load_bytes(tmp_path, text.encode())


LEAVES = st.sampled_from(
    ["", "null", "true", "1", "-1", "a", "a$b", "${env:", "${var:x}", "s3://u:p@b", "int8", "\u00e9"]
)
KEYS = st.sampled_from(
    [
        *("version", "name", "include", "safety", "catalogs", "lake", "impl", "config", "prune", "scope", "namespaces"),
        *("tables", "properties", "absent", "protect", "kind", "schema", "location", "evolve", "type", "metadata", "z"),
    ]
)
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))


@fuzz
@given(tree=st.dictionaries(KEYS, TREES, max_size=5), below=TREES)
def test_any_structure_is_a_manifest_or_an_error(tmp_path: Path, tree: dict[str, object], below: object) -> None:
    load_bytes(tmp_path, yaml.safe_dump(tree).encode())
    whole = {"version": 1, "name": "n", "catalogs": {"lake": {"impl": "memory", "namespaces": {"a": below}}}}
    load_bytes(tmp_path, yaml.safe_dump(whole).encode())
