"""Gravitino's Lance REST service: the stand-in, held to recordings of 1.3.0, and a real one where there is one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import lance
import pytest

import reconciler
from reconciler.backends.rest import RestBackend
from reconciler.conformance import ConformanceCheck, checks, verify
from reconciler.manifest import Manifest
from reconciler.model.errors import (
    InvalidInputError,
    NamespaceNotFoundError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from reconciler.model.reasons import ReasonCode
from reconciler.operations.doctor import doctor
from reconciler.planner.entries import Action
from tests import servers
from tests.plans import assert_blocked
from tests.servers.gravitino import Gravitino, real_gravitino
from tests.servers.scripted import Scripted, scripted
from tests.writing import load_manifest

RECORDED = (Path(*servers.__path__) / "recorded/gravitino-1.3.0.jsonl").read_text("utf-8").splitlines()


@pytest.fixture
def metalake() -> Gravitino:
    return Gravitino()


@pytest.fixture
def service(metalake: Gravitino) -> Iterator[Scripted]:
    with scripted(metalake) as running:
        yield running


@pytest.fixture
def backend(service: Scripted, metalake: Gravitino) -> Iterator[RestBackend]:
    """A connection to a metalake with the schema `lakehouse$ads`."""
    metalake.spaces = {("lakehouse",): {"in-use": "true"}, ("lakehouse", "ads"): {}}
    connected = RestBackend(uri=f"{service.url}/lance")
    yield connected
    connected.close()


def wanting(service: Scripted, folder: Path, namespaces: dict[str, Any], **more: Any) -> Manifest:
    lake = {"impl": "rest", "config": {"uri": f"{service.url}/lance"}, "namespaces": namespaces, **more}
    return load_manifest(folder, {"lake": lake})


def ads(tables: dict[str, Any]) -> dict[str, Any]:
    return {"lakehouse": {"namespaces": {"ads": {"tables": tables}}}}


def apply(manifest: Manifest, folder: Path) -> None:
    report = reconciler.apply(reconciler.plan(manifest), manifest, journal=folder / "journal")
    assert report.ok, report.results


# ---- the recordings --------------------------------------------------------------------------------------------------


def comparable(answer: Any) -> Any:
    """Return an answer without the text of stack traces, and with locations without the slash at their end."""
    if not isinstance(answer, dict):
        return answer or ""
    if "error" in answer:
        return {**answer, "error": answer["error"].split("\n")[0], "detail": "detail" in answer}
    return {key: comparable(value) for key, value in answer.items()} | (
        {"location": answer["location"].rstrip("/")} if "location" in answer else {}
    )


def furnish(metalake: Gravitino, name: tuple[str, ...], line: dict[str, Any]) -> None:
    """Put into the stand-in what the real server had when it was asked."""
    answer, said = line["answer"] or {}, str(line["answer"])
    is_made = "/create" in line["request"] and line["status"] == 200
    gone = "not found: lancens" in said or "does not exist" in said
    for depth in range(1, min(len(name), 2) + 1):
        if not (depth == min(len(name), 2) and (is_made or gone)):
            own = {"in-use": "false" if "not in use" in said else "true"} if depth == 1 else {}
            described = answer.get("properties", {}) if depth == len(name) and "/table/" not in line["request"] else {}
            metalake.spaces[name[:depth]] = {**described, **own}
    if "already exists" in said and len(name) == 3:
        metalake.tables[name] = {"location": "/BASE"}
    if "/table/list" in line["request"]:
        metalake.tables |= {(*name, table): {"location": "/BASE"} for table in answer.get("tables", ())}
    elif (
        len(name) == 3
        and line["status"] == 200
        and not {"declare", "register"} & set(line["request"].split("?")[0].split("/"))
    ):
        metalake.tables[name] = dict(answer["properties"])


@pytest.mark.parametrize("line", RECORDED)
def test_the_stand_in_answers_as_gravitino_did(line: str, metalake: Gravitino) -> None:
    recorded = json.loads(line)
    method, _, target = recorded["request"].partition(" ")
    path = target.partition("?")[0]
    parts = path.split("/")
    name = tuple(part for part in unquote("".join(parts[4:5])).split("$") if part)
    furnish(metalake, name, recorded)
    status, answer = metalake.answer(method, path, recorded["body"])
    assert (status, comparable(answer)) == (recorded["status"], comparable(recorded["answer"]))


# ---- a manifest ------------------------------------------------------------------------------------------------------


def test_a_manifest_is_planned_applied_and_taken_away(service: Scripted, metalake: Gravitino, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    users = {
        "location": f"{lake}/users.lance",
        "schema": [{"name": "id", "type": "int64"}],
        "properties": {"tier": "gold"},
    }
    manifest = wanting(service, tmp_path, ads({"users": users, "events": {"location": f"{lake}/events.lance"}}))
    plan = reconciler.plan(manifest)
    assert not plan.blocked
    assert [change.action for change in plan.changes] == [
        Action.CREATE_NAMESPACE,
        Action.CREATE_NAMESPACE,
        Action.DECLARE_TABLE,
        Action.CREATE_TABLE,
    ]
    apply(manifest, tmp_path)
    assert lance.dataset(str(lake / "users.lance")).schema.names == ["id"]
    assert metalake.tables["lakehouse", "ads", "users"]["tier"] == "gold"
    assert reconciler.plan(manifest).is_empty
    manifest = wanting(service, tmp_path, ads({}))
    assert {change.action for change in reconciler.plan(manifest).changes} == {Action.DEREGISTER_TABLE}
    apply(manifest, tmp_path)
    assert metalake.tables == {}
    assert lance.dataset(str(lake / "users.lance")).count_rows() == 0


def test_a_catalog_that_cannot_be_dropped_is_blocked(service: Scripted, metalake: Gravitino, tmp_path: Path) -> None:
    apply(wanting(service, tmp_path, ads({"t": {"location": str(tmp_path / "t.lance")}})), tmp_path)
    manifest = wanting(service, tmp_path, {})
    plan = reconciler.plan(manifest, allow_mass_removal=True)
    assert_blocked(plan, "lake/lakehouse", ReasonCode.DROPPED_OUTSIDE)
    assert "catalogs/lakehouse" in str(plan.blocked[0].params["code"])
    assert [change.action for change in plan.changes] == [Action.DEREGISTER_TABLE, Action.DROP_NAMESPACE]
    report = reconciler.apply(plan, manifest, journal=tmp_path / "journal", skip_blocked=True, allow_mass_removal=True)
    assert report.ok, report.results
    assert set(metalake.spaces) == {("lakehouse",)}


def test_a_disabled_catalog_ends_no_plan(service: Scripted, metalake: Gravitino, tmp_path: Path) -> None:
    metalake.spaces = {("off",): {"in-use": "false"}, ("lakehouse",): {"in-use": "true"}}
    wanted = {**ads({"t": {"location": str(tmp_path / "t.lance")}})}
    plan = reconciler.plan(wanting(service, tmp_path, wanted))
    assert not plan.blocked
    assert [note.params["detail"] for note in plan.notes if "`off`" in str(note.params)]
    wanted["off"] = {"namespaces": {"ads": {"tables": {"t": {"location": str(tmp_path / "off.lance")}}}}}
    plan = reconciler.plan(wanting(service, tmp_path, wanted))
    assert_blocked(plan, "lake/off", ReasonCode.NAMESPACE_DISABLED)
    assert {change.identifier[0] for change in plan.changes} == {"lakehouse"}


def test_an_audit_takes_no_disabled_catalog_for_an_empty_one(
    service: Scripted, metalake: Gravitino, tmp_path: Path
) -> None:
    metalake.spaces = {("off",): {"in-use": "false"}, ("lakehouse",): {"in-use": "true"}}
    tables = {"t": {"location": str(tmp_path / "off.lance")}}
    manifest = wanting(service, tmp_path, {"off": {"namespaces": {"ads": {"tables": tables}}}})
    document = reconciler.audit(manifest, rules=["missing", "unreadable"]).document
    assert [one.address for one in document.failures] == ["lake/off"]
    assert [(one.rule, one.address) for one in document.findings] == [("unreadable", "lake/off")]


def test_a_move_leaves_the_services_own_properties(service: Scripted, metalake: Gravitino, tmp_path: Path) -> None:
    block = {"location": str(tmp_path / "t.lance"), "properties": {"tier": "gold"}}
    apply(wanting(service, tmp_path, ads({"t": block})), tmp_path)
    moved = [{"from": "lakehouse/ads/t", "to": "lakehouse/ads/moved"}]
    service.requests.clear()
    apply(wanting(service, tmp_path, ads({"moved": block}), moved=moved), tmp_path)
    [declared] = [one.body for one in service.requests if one.path.endswith("/declare")]
    assert not {"external", "location", "lance.declared"} & declared["properties"].keys()
    assert not [one for one in service.requests if one.path.endswith("/register")]
    assert metalake.tables["lakehouse", "ads", "moved"]["tier"] == "gold"


# ---- errors and levels -----------------------------------------------------------------------------------------------


def test_what_is_refused_is_told_without_its_stack_trace(backend: RestBackend) -> None:
    backend.insert_table(("lakehouse", "ads", "t"), "/lake/t", {})
    told = []
    for kind, call in (
        (TableNotFoundError, lambda: backend.load_table(("lakehouse", "ads", "none"))),
        (NamespaceNotFoundError, lambda: backend.child_tables(("lakehouse", "none"))),
        (NamespaceNotFoundError, lambda: backend.load_namespace(("lakehouse", "none"))),
        (TableAlreadyExistsError, lambda: backend.insert_table(("lakehouse", "ads", "t"), "/lake/t", {})),
        (InvalidInputError, lambda: backend.insert_namespace(("lakehouse", "ads", "deeper"), {})),
    ):
        with pytest.raises(kind) as refused:
            call()
        told.append(str(refused.value))
    assert not [text for text in told if "Inner.java" in text or "\n" in text or "org.apache" in text]


def test_levels_without_tables_hold_none(backend: RestBackend, service: Scripted, metalake: Gravitino) -> None:
    metalake.tables = {("lakehouse", "ads", "t"): {"location": "s3://lake/t/"}}
    assert backend.child_tables(()) == []
    assert backend.child_tables(("lakehouse",)) == []
    assert set(backend.scan().tables) == {("lakehouse", "ads", "t")}
    able = backend.capabilities()
    assert (able.max_depth, able.table_depths, able.alter_table) == (2, (2, 2), False)


def test_levels_that_cannot_be_read_now_are_not_taken_for_any_level(metalake: Gravitino) -> None:
    answers = [(503, {"message": "busy"})]
    with scripted(lambda asked: answers.pop() if "/list" in asked.path and answers else metalake(asked)) as service:
        backend = RestBackend(uri=f"{service.url}/lance", max_retries="0")
        with pytest.raises(ServiceUnavailableError):
            backend.capabilities()
        assert backend.capabilities().table_depths == (2, 2)


def test_doctor_asks_nothing_at_levels_without_tables(service: Scripted, backend: RestBackend, tmp_path: Path) -> None:
    service.requests.clear()
    found = [*doctor(wanting(service, tmp_path, ads({})))]
    assert not [check for check in found if check.status == "failed"]
    asked = [unquote(one.path.split("/")[4]) for one in service.requests if "/v1/table/" in one.path]
    assert asked
    assert {name.count("$") for name in asked} == {2}


@pytest.mark.parametrize("check", checks(), ids=str)
def test_conformance(check: ConformanceCheck, service: Scripted, metalake: Gravitino, tmp_path: Path) -> None:
    metalake.spaces = {("lakehouse",): {"in-use": "true"}}
    verify(check, lambda: RestBackend(uri=f"{service.url}/lance"), namespace=["lakehouse"], scratch=str(tmp_path))
    assert set(metalake.spaces) == {("lakehouse",)}


@pytest.mark.parametrize("check", checks(), ids=str)
def test_conformance_of_a_real_one(check: ConformanceCheck, tmp_path: Path) -> None:
    url = real_gravitino()
    verify(check, lambda: RestBackend(uri=url), namespace=["lakehouse"], scratch=str(tmp_path))
