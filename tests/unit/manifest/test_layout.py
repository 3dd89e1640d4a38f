"""``lancens fmt``: one layout for what is said in many, and nothing that is said is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import ManifestError
from reconciler.manifest.layout import laid_out

UGLY = """\
# head


version:   1
name:   store   # ours
include: [ a.yaml,b.yaml ]
catalogs:
    lake:   # the lake
        # before impl
        impl: dir
        config: {root:   './lake',storage.x : "y" }   # beside


        tables:
            users: {properties: {tier: gold}}  # g
            orders:
              schema:
              - {name: a,   type: "list<int8>"}
              -   name: b
                  type: int64   # t
                  nullable: false
              # end of list
            note:
              properties:
                 text: |
                     hello   
                       world

                     end
                 folded: >-
                   a
                   b
                 plain: one
                     two
        # after tables
    other: { impl: memory,   # m
       config: {},
       # in brackets
       tables: {a: {}, b: }
    }
safety:
# the end
"""  # noqa: W291
ONE = """\
# head

version: 1
name: store  # ours
include: [a.yaml, b.yaml]
catalogs:
  lake:  # the lake
    # before impl
    impl: dir
    config: {root: './lake', storage.x: "y"}  # beside

    tables:
      users: {properties: {tier: gold}}  # g
      orders:
        schema:
          - {name: a, type: "list<int8>"}
          - name: b
            type: int64  # t
            nullable: false
          # end of list
      note:
        properties:
          text: |
            hello   
              world

            end
          folded: >-
            a
            b
          plain: one
            two
    # after tables
  other: {impl: memory,  # m
    config: {},
    # in brackets
    tables: {a: {}, b: }
  }
safety:
# the end
"""  # noqa: W291


def fmt(text: str) -> str:
    return laid_out("lancens.yaml", text.encode()).decode()


def test_what_is_written_in_many_ways_gets_one_layout() -> None:
    assert fmt(UGLY) == ONE
    assert fmt(ONE) == ONE
    assert fmt("\ufeff" + UGLY.replace("\n", "\r\n")) == ONE


def test_comments_of_successive_lines_stand_one_below_the_other() -> None:
    assert fmt("a: 1 # one\nbcd: 2 # two\n\ne: 3 # three\n") == "a: 1    # one\nbcd: 2  # two\n\ne: 3  # three\n"


@pytest.mark.parametrize("text", ["", "\n\n", "# only this\n", "---\n# c\na: 1\n"])
def test_what_is_hardly_a_manifest_has_a_layout_too(text: str) -> None:
    assert fmt(fmt(text)) == fmt(text)


@pytest.mark.parametrize("text", ["a: [b\n", "a: &x 1\n", "a: 1\na: 2\n"])
def test_what_is_no_manifest_is_an_error_at_its_place(text: str) -> None:
    with pytest.raises(ManifestError, match=r"^lancens\.yaml:\d+:\d+: "):
        fmt(text)


def test_the_examples_have_the_layout() -> None:
    examples = Path(__file__).parents[3] / "examples"
    manifests = [path for path in sorted(examples.rglob("*.yaml")) if "catalogs:" in path.read_text()]
    assert manifests
    assert [str(path) for path in manifests if laid_out(str(path), path.read_bytes()) != path.read_bytes()] == []


words = st.sampled_from(["a", "b-c", "users", "0123", "no", "2024-01-01", "'q # u'", '"x: y"', "s3://b/c.lance", "~"])
keys = st.sampled_from(["alpha", "beta", "'g g'", "delta", "e.f"])
comments = st.sampled_from(["", "", "", "# c", "#c: d", "# {x}"])


@st.composite
def blocks(draw: st.DrawFn, indent: int, depth: int) -> list[str]:
    """Lines of a block at ``indent``, written carelessly: comments and blank lines anywhere, odd steps and spaces."""
    lines: list[str] = []
    for key in draw(st.lists(keys, min_size=1, max_size=3, unique=True)):
        lines += draw(st.sampled_from([[], [], [""], ["", ""]]))
        above = draw(comments)
        if above:
            lines.append(" " * draw(st.integers(0, indent + 6)) + above)
        trailing = draw(comments)
        trailing = f"{' ' * draw(st.integers(1, 4))}{trailing}" if trailing else " " * draw(st.integers(0, 2))
        head = " " * indent + key + ":"
        shape = draw(st.sampled_from(["word", "flow", "list", "nothing", "block", "text"])) if depth else "word"
        step = draw(st.integers(1, 5))
        if shape == "word":
            lines.append(f"{head}{' ' * draw(st.integers(1, 3))}{draw(words)}{trailing}")
        elif shape == "nothing":
            lines.append(head + trailing)
        elif shape == "flow":
            lines.append(f"{head} {draw(flows(2))}{trailing}")
        elif shape == "text":
            lines += [f"{head} |", *(" " * (indent + step) + line for line in draw(texts))]
        elif shape == "block":
            lines += [head + trailing, *draw(blocks(indent + step, depth - 1))]
        else:
            lines.append(head + trailing)
            for _ in range(draw(st.integers(1, 3))):
                item = draw(blocks(indent + step + 2, depth - 1))
                first = next(number for number, line in enumerate(item) if line.strip() and line.lstrip()[0] != "#")
                lines.append(" " * (indent + step) + "- " + item[first].lstrip())
                lines += item[first + 1 :]
    return lines


texts = st.lists(st.sampled_from(["x", "y  z", "# no comment"]), min_size=1, max_size=3)


def flows(depth: int) -> st.SearchStrategy[str]:
    spaces = st.sampled_from(["", " ", "  "])
    if not depth:
        return words
    inner = flows(depth - 1)
    lists = st.tuples(spaces, st.lists(inner, max_size=3)).map(lambda one: f"[{one[0]}{(',' + one[0]).join(one[1])} ]")
    pairs = st.lists(st.tuples(keys, inner), max_size=2, unique_by=lambda pair: pair[0])
    maps = st.tuples(spaces, pairs).map(lambda one: "{" + ",".join(f"{k}:  {v}{one[0]}" for k, v in one[1]) + "}")
    return words | lists | maps


def comments_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.lstrip().startswith("#")]


@settings(max_examples=300)
@given(blocks(0, 3))
def test_nothing_is_lost_and_a_second_time_changes_nothing(lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    made = fmt(text)
    assert yaml.load(made, yaml.CBaseLoader) == yaml.load(text, yaml.CBaseLoader)  # noqa: S506
    assert comments_of(made) == comments_of(text)
    assert fmt(made) == made
