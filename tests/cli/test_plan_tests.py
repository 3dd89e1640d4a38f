"""`lancens test`: what plans of described states contain, without a service."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from reconciler.backends import registry
from reconciler.planner.entries import Action
from tests.cli.running import lancens

EXAMPLES = Path(__file__).parents[2] / "examples"
MANIFEST = """\
version: 1
name: shop
catalogs:
  lake:
    impl: dir
    config: {root: ./lake}
    namespaces:
      features:
        tables:
          users: {schema: [{name: id, type: int64}], properties: {tier: gold}}
          orders: {properties: {tier: gold}, protect: true}
          "${var:stage}_events": {}
"""
VARIABLES = "stage: dev\n"


@pytest.fixture
def folder(folder: Path) -> Path:
    (folder / "lancens.vars.yaml").write_text(VARIABLES)
    (folder / "tests").mkdir()
    return folder


def test_each_example_has_a_test_that_holds_without_a_service(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a test of a manifest opens no connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    folders = [manifest.parent / "tests" for manifest in sorted(EXAMPLES.glob("*/lancens.yaml"))]
    ran = lancens(capsys, "test", *folders)
    assert ran.code == 0, ran.out + ran.err
    assert {Path(line.split()[0]).parent for line in ran.out.splitlines()[:-1]} == set(folders)


_USERS = "users: {schema: [{name: id, type: int64}], properties: {tier: gold}}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        (_USERS, "people: {schema: [{name: id, type: int64}], properties: {tier: gold}}"),
        (_USERS, ""),
        ("          orders: {properties: {tier: gold}, protect: true}\n", ""),
        ("orders: {properties: {tier: gold}, protect: true}", "orders: {absent: true}"),
        ("    namespaces:", "    moved: [{from: features/users, to: features/people}]\n    namespaces:"),
        ("config: {root: ./lake}", "config: {root: ./lake}\n    prune: never"),
        ("name: shop", "name: market"),
        ("config: {root: ./lake}", "config: {root: ./lake}\n    policies: [{match: '**', properties: {owner: ads}}]"),
        (
            "catalogs:",
            "catalogs:\n  copy: {impl: memory, config: {name: copy}, mirror: {from: lake, select: ['*/users']}}",
        ),
    ],
)
def test_a_listed_catalog_is_planned_as_the_catalog_itself_is(
    folder: Path, capsys: pytest.CaptureFixture[str], old: str, new: str
) -> None:
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    registry.connect("dir", {"root": "lake"}).insert_table(("features", "made"), str(folder / "lake/made.lance"), {})
    Path("tests/live.json").write_text(lancens(capsys, "list", "--format", "json").out)
    text = MANIFEST.replace(old, new)
    Path("lancens.yaml").write_text(text.replace("users:", "people:") if "moved" in new else text)
    planned = lancens(capsys, "plan", "--format", "json", "--allow-mass-removal")
    plan = json.loads(planned.out)
    expected = [
        {"action": entry.get("action", word), "address": "/".join((entry["catalog"], *entry["identifier"]))}
        | {"code": entry["code"]}
        for word, part in (("", "changes"), ("blocked", "blocked"), ("protected", "guards"))
        for entry in plan.get(part, ())
    ]
    unplanned = sorted({*Action, "blocked", "protected"} - {entry["action"] for entry in expected})
    rejected = [{"action": word} for word in unplanned]
    Path("tests/plans.yaml").write_text(
        json.dumps({"tests": [{"live": "live.json", "expect": expected, "reject": rejected}]})
    )
    ran = lancens(capsys, "test")
    assert ran.code == 0, ran.out + ran.err


TESTS = """\
live:
  - {address: lake/features/users, managed: true}
  - {address: lake/features/legacy, managed: true}
tests:
  - name: nothing is removed
    reject: [{action: deregister-table}]
  - name: a rename keeps the data
    expect:
      - {action: move-table, address: lake/features/legacy}
      - {address: "lake/features/${var:stage}_events", code: new-without-data}
  - name: the new environment
    variables: {stage: new}
    live: []
    expect: [{action: declare-table, address: lake/features/new_events}]
"""


def test_what_a_plan_must_and_must_not_contain(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("tests/rename.yaml").write_text(TESTS)
    ran = lancens(capsys, "test")
    assert ran.code == 1
    removed = "`deregister-table` of lake/features/legacy, `no-longer-in-manifest`: owned, no longer in the manifest"
    assert ran.out.splitlines() == [
        "tests/rename.yaml  nothing is removed       FAILED",
        f"        tests/rename.yaml:6: expected no `deregister-table` of **, but the plan has {removed}",
        "tests/rename.yaml  a rename keeps the data  FAILED",
        f"        tests/rename.yaml:9: expected `move-table` of lake/features/legacy, but the plan has {removed}",
        "tests/rename.yaml  the new environment      ok",
        "3 tests in 1 file: 1 ok, 2 failed",
    ]
    junit = lancens(capsys, "test", "tests/rename.yaml", "--format", "junit").out
    Path("tests").rename("te[1]s")
    assert "1 ok, 2 failed" in lancens(capsys, "test", "te[1]s").out
    assert '<testsuite name="tests/rename.yaml" tests="3" failures="2">' in junit
    assert not (folder / "lake").exists()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("tests: []", "tests/bad.yaml:1:1: no tests"),
        ("tests:\n  - {live: [{address: lak/x}], reject: [{}]}", "tests/bad.yaml:2:13: `lak/x` is not the address"),
        ("tests:\n  - {live: [{address: lake/x, propertys: {}}], reject: [{}]}", "tests/bad.yaml:2:31: unknown key"),
        ("tests:\n  - {expect: [{action: moved-table}]}", "tests/bad.yaml:2:24: `action` in an entry of `expect`"),
        ("tests:\n  - {expect: [{code: data-lostt}]}", "did you mean `data-lost`?"),
        ("tests:\n  - {reject: [{address: lake/featurs/*}]}", "tests/bad.yaml:2:15: `lake/featurs/*` matches no"),
        ("tests:\n  - {live: [], name: x}", "tests/bad.yaml:2:5: test 1 has neither"),
        ("tests:\n  - {live: gone.json, reject: [{}]}", "gone.json: cannot be read"),
        ("tests:\n  - {live: /etc/passwd, reject: [{}]}", "tests/bad.yaml:2:12: the file `/etc/passwd` is outside of"),
        ("tests:\n  - {live: {lake: {}}, reject: [{}]}", "tests/bad.yaml:2:12: `live`: expected a list"),
        (
            "manifest: /etc/x.yaml\ntests:\n  - {reject: [{}]}",
            "tests/bad.yaml:1:11: the manifest `/etc/x.yaml` is outside",
        ),
        ("manifest: ../..\ntests:\n  - {reject: [{}]}", "--allow-outside lets it be read"),
        ("manifest: gone.yaml\ntests:\n  - {reject: [{}]}", "gone.yaml: cannot be read"),
        ("tests:\n  - {variables: {stag: x}, reject: [{}]}", "lancens.yaml: variable `stag` is defined"),
        ("tests:\n  - {live: [{address: lake}], reject: [{}]}", "`lake` is not the address of an object; expected one"),
        (
            "tests:\n  - live: [{address: lake/x}, {address: lake/x, kind: data}, {address: lake/x}]\n    reject: [{}]",
            "tests/bad.yaml:2:62: `lake/x` is a duplicate, first at tests/bad.yaml:2:12\n1 error",
        ),
        (
            "tests:\n  - {expect: {action: blocked}}",
            "tests/bad.yaml:2:14: `expect` in test 1: expected a list\n1 error",
        ),
        ("tests: {}", "tests/bad.yaml:1:8: `tests`: expected a list\n1 error"),
        ("tests: [\n", "tests/bad.yaml:2:1"),
        ("[]", "tests/bad.yaml:1:1: a list at the top"),
    ],
)
def test_a_bad_file_is_an_error_at_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, error: str
) -> None:
    (folder / "tests/bad.yaml").write_text(text)
    ran = lancens(capsys, "test")
    assert ran.code == 1
    assert error in ran.err, ran.err
