"""Variables in names: what a manifest with them wants is what the same manifest wants with the names written out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reconciler
from reconciler import Manifest, Plan, load
from reconciler.model.errors import ManifestError
from tests.unit.manifest.conftest import Load, manifest, refused

VALUES = {"stage": "dev", "team": "ads", "empty": ""}
_PARTS = st.sampled_from(["a", "b", "Users", "x-1", "${var:stage}", "${var:team}", "${var:empty}", "${var:no:-eu}"])
_NAMES = st.lists(_PARTS, min_size=1, max_size=3).map("".join)


def written_out(text: str) -> str:
    """Return the text with the value of each variable in its place."""
    return re.sub(r"\$\{var:(\w+)(?::-(\w+))?\}", lambda found: VALUES.get(found[1], found[2]), text)


@st.composite
def manifests(draw: st.DrawFn) -> tuple[str, str]:
    """Return a manifest with variables in its names, and a file that it includes."""

    def names() -> list[str]:
        found = draw(st.lists(_NAMES, min_size=1, max_size=3, unique_by=written_out))
        return [name for name in found if written_out(name)]

    lines = ["version: 1", f'name: "x{draw(_NAMES)}"', "catalogs:", '  "c${var:stage}":', "    impl: memory"]
    spaces = names()
    if spaces:
        lines.append(f'    moved: [{{from: "old_{draw(_NAMES)}", to: "{spaces[0]}"}}]')
    lines += ["    scope: ['**', \"${var:stage}*\"]", "    config: {name: lake}", "    namespaces:"]
    for namespace in spaces:
        lines += [f'      "{namespace}":', "        tables:"]
        lines += [f'          "{name}": {{properties: {{k: "${{var:team}}"}}}}' for name in names()]
    to = draw(_NAMES)
    lines += [
        "  copy:",
        "    impl: memory",
        f'    config: {{name: copy}}\n    mirror: {{from: "c${{var:stage}}", into: ["{to}"]',
    ]
    lines[-1] += "".join(f', names: {{"{namespace}": "m{to}"}}' for namespace in spaces[:1]) + "}"
    more = [f'        tables: {{"z{draw(_NAMES)}": {{}}}}' for _ in spaces[:1]]
    part = ["catalogs:", '  "cdev":', "    namespaces:", f'      "{written_out(spaces[0])}":', *more] if spaces else []
    return "\n".join(lines) + "\ninclude: [part.yaml]\n", "\n".join(part) + "\n"


@given(texts=manifests())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_manifest_is_the_one_with_its_names_written_out(texts: tuple[str, str], tmp_path: Path) -> None:
    """Also across files, one of which has the names written out."""
    found: list[Manifest | list[str]] = []
    for contents in (texts, tuple(map(written_out, texts))):
        (tmp_path / "lancens.yaml").write_text(contents[0])
        (tmp_path / "part.yaml").write_text(contents[1])
        used = {k: v for k, v in VALUES.items() if f"var:{k}" in "".join(contents)}
        try:
            found.append(load(tmp_path / "lancens.yaml", variables=used))
        except ManifestError as error:
            found.append([problem.message.rpartition(": ")[2] for problem in error.problems])
    one, other = found
    if isinstance(one, list) or isinstance(other, list):
        assert isinstance(one, list)
        assert isinstance(other, list)
        assert len(one) == len(other)
        return
    assert (one.name, one.digest) == (other.name, other.digest)
    planned, expected = (without_places(reconciler.plan(each)) for each in (one, other))
    assert planned == expected


def without_places(plan: Plan) -> Any:
    """Return a plan as data, without the columns of its places, its variables, and notes on lines that others need."""
    document = json.loads(re.sub(r'"column": \d+', '"column": 0', plan.to_json()))
    del document["digest"]
    document.pop("notes", None)
    for key in ("variables", "given"):
        document["manifest"].pop(key, None)
    return document


def test_values_come_from_four_places_and_the_first_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lancens.yaml"
    path.write_text(manifest('namespaces: {"n_${var:stage}": {}}'))

    def namespace(**variables: str) -> str:
        [(name,)] = load(path, variables=variables).catalogs["lake"].desired.namespaces
        return name

    with pytest.raises(ManifestError, match="stage"):
        namespace()
    (tmp_path / "lancens.vars.yaml").write_text("stage: beside\n")
    assert namespace() == "n_beside"
    monkeypatch.setenv("LANCENS_VAR_stage", "environment")
    assert namespace() == "n_environment"
    assert namespace(stage="given") == "n_given"


def test_a_folder_of_manifests_leaves_out_its_variables(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(manifest('namespaces: {"n_${var:stage}": {}}'))
    (tmp_path / "lancens.vars.yaml").write_text("stage: dev\n")
    (tmp_path / "prod.vars.yaml").write_text("stage: prod\n")
    assert ("n_dev",) in load(tmp_path).catalogs["lake"].desired.namespaces


def test_what_comes_out_must_be_a_name(load_text: Load) -> None:
    below = (
        'namespaces:\n  "${var:a}": {}\n  "${var:b}": {tables: {"t${var:c}": {}}}\n'
        '  "x${var:no}": {}\n  "${env:HOME}": {}'
    )
    with refused(
        ("lancens.yaml:8:7", "name `${var:a}` is `p/q`", "`/`"),
        ("lancens.yaml:9:7", "name `${var:b}` is ``"),
        ("lancens.yaml:9:29", "name `t${var:c}` is `t$`", "`$`"),
        ("lancens.yaml:10:7", "name `x${var:no}`", "--var no=value"),
        ("lancens.yaml:11:7", "name `${env:HOME}`", "secrets"),
    ):
        load_text(manifest(below), a="p/q", b="", c="$")


def test_two_names_that_become_one_are_duplicates(load_text: Load) -> None:
    with refused(("lancens.yaml:9:7", "`n_dev` is a duplicate, first at lancens.yaml:8:7")):
        load_text(manifest('namespaces:\n  n_dev: {}\n  "n_${var:stage}": {}'), stage="dev")
