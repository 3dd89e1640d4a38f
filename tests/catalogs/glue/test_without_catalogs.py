"""Databases and tables where catalogs cannot be asked for: policies and metastores from before Glue had any."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import reconciler
from reconciler.backends.glue import GlueBackend
from reconciler.manifest import Manifest
from reconciler.model.errors import ErrorCode, PermissionDeniedError
from reconciler.model.reasons import ReasonCode
from tests.catalogs.glue.conftest import Connect
from tests.plans import blocked
from tests.servers.glue import GlueServer
from tests.servers.process import free_port, running, status_of
from tests.writing import load_manifest

CLASSIC = [
    f"glue:{name}"
    for name in (
        *("GetDatabase", "GetDatabases", "GetTable", "GetTables", "GetUserDefinedFunctions"),
        *("CreateDatabase", "CreateTable", "UpdateDatabase", "UpdateTable", "DeleteDatabase", "DeleteTable"),
    )
]


def _refuse(glue: GlueServer, why: str) -> None:
    if why == "denied":
        glue.allow(CLASSIC)
    else:
        for call in ("glue:GetCatalogs", "glue:GetCatalog"):
            glue.fail(call, why, "no such operation", times=1000)


def _wanting(glue: GlueServer, folder: Path, namespaces: object) -> Manifest:
    lake = {"impl": "glue", "config": glue.config(root=str(folder / "lake")), "namespaces": namespaces}
    return load_manifest(folder, {"lake": lake})


@pytest.mark.parametrize("why", ["denied", "UnknownOperationException", "NotImplemented"])
def test_databases_are_planned_and_applied(glue: GlueServer, tmp_path: Path, why: str) -> None:
    glue.client.create_database(DatabaseInput={"Name": "web"})
    _refuse(glue, why)
    columns = [{"name": "id", "type": "int64"}]
    wanted = {"web": {"tables": {"users": {"schema": columns}}}, "shop": {"properties": {"team": "ml"}}}
    manifest = _wanting(glue, tmp_path, wanted)
    plan = reconciler.plan(manifest)
    assert [change.address for change in plan.changes] == ["lake/shop", "lake/web/users"]
    told = [note.message for note in plan.notes if "catalogs" in note.message]
    if why == "denied":
        (note,) = told
        assert "are not read" in note
        assert "the credentials lack glue:GetCatalogs" in note
    else:
        assert told == []
    assert reconciler.apply(plan, manifest, journal=tmp_path / "journal").ok
    assert reconciler.plan(manifest).is_empty
    fewer = _wanting(glue, tmp_path, {"web": {"tables": {}}})
    assert reconciler.apply(reconciler.plan(fewer, allow_mass_removal=True), fewer, journal=tmp_path / "journal").ok
    assert reconciler.plan(fewer).is_empty
    glue.allow(None)
    assert [one["Name"] for one in glue.client.get_databases()["DatabaseList"]] == ["web"]


def test_a_catalog_is_blocked_and_the_rest_is_planned(glue: GlueServer, tmp_path: Path) -> None:
    _refuse(glue, "denied")
    manifest = _wanting(glue, tmp_path, {"sales": {"namespaces": {"crm": {"tables": {"t": {}}}}}, "web": {}})
    plan = reconciler.plan(manifest)
    assert [change.address for change in plan.changes] == ["lake/web"]
    assert blocked(plan) == [("lake/sales", ReasonCode.KIND_NOT_CREATABLE)]


def test_a_policy_for_the_accounts_own_catalog_alone_is_enough(glue: GlueServer, tmp_path: Path) -> None:
    """With the catalog itself as the policy's resource, GetCatalogs lists, and GetCatalog of any name is denied."""
    denied = "User: dev is not authorized to perform: glue:GetCatalog on resource: arn:aws:glue:eu:1:catalog/web"
    glue.fail("glue:GetCatalog", "AccessDeniedException", denied, times=1000)
    manifest = _wanting(glue, tmp_path, {"web": {"tables": {"clicks": {}}}})
    report = reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journal")
    assert report.ok, report.results
    assert reconciler.plan(manifest).is_empty


def test_a_service_that_fails_is_not_taken_for_one_without_catalogs(glue: GlueServer, tmp_path: Path) -> None:
    """moto knows no catalogs, and answers as a service does that is down: with a page of its web server's."""
    glue.answer("*", "<!doctype html>\n<title>500 Internal Server Error</title>", status=500, times=99)
    with pytest.raises(reconciler.CatalogError) as caught:
        reconciler.plan(_wanting(glue, tmp_path, {"web": {}}))
    assert caught.value.code is ErrorCode.INTERNAL
    assert "GetCatalogs" in str(caught.value)
    assert str(caught.value).endswith("titled `500 Internal Server Error`")


def test_a_refusal_of_anything_else_is_an_error(glue: GlueServer, backend: GlueBackend) -> None:
    glue.allow(["glue:GetCatalogs"])
    with pytest.raises(PermissionDeniedError, match="glue:GetDatabases"):
        backend.scan()


def test_names_that_only_another_service_has(glue: GlueServer, connect: Connect) -> None:
    for config in ({"catalog_id": "hive"}, {"region": "local"}, {"catalog_id": "s3tablescatalog.x", "region": "eu_1"}):
        connect(**config)
    for region in ("eusc-de-east-1", "us-gov-west-1", "mx-central-1"):
        GlueBackend(region=region)


@pytest.fixture(scope="module")
def plain_moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """moto as it is: a Glue without catalogs, whose calls it answers with a web page."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    log = tmp_path_factory.mktemp("moto") / "log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with running(command, log, lambda: status_of("GET", f"{url}/moto-api/") == 200):
        yield url


@pytest.mark.parametrize("catalog_id", [None, "123456789012"])
def test_plain_moto_is_planned_and_applied(plain_moto: str, tmp_path: Path, catalog_id: str | None) -> None:
    keys = {"access_key_id": "k", "secret_access_key": "s", "region": "eu-west-1"}
    config = {"endpoint": plain_moto, "root": str(tmp_path / "lake"), **keys}
    config |= {"catalog_id": catalog_id} if catalog_id else {}
    database = f"web{len(config)}"
    namespaces = {database: {"tables": {"users": {"schema": [{"name": "id", "type": "int64"}]}}}}
    manifest = load_manifest(tmp_path, {"lake": {"impl": "glue", "config": config, "namespaces": namespaces}})
    plan = reconciler.plan(manifest)
    assert [change.address for change in plan.changes] == [f"lake/{database}", f"lake/{database}/users"]
    assert any("are not read" in note.message for note in plan.notes)
    assert reconciler.apply(plan, manifest, journal=tmp_path / "journal").ok
    assert reconciler.plan(manifest).is_empty
    none = {database: {"absent": True}}
    gone = load_manifest(tmp_path, {"lake": {"impl": "glue", "config": config, "namespaces": none}})
    report = reconciler.apply(reconciler.plan(gone, allow_mass_removal=True), gone, journal=tmp_path / "journal")
    assert report.ok, report.results
    assert [change.action.value for change in plan.changes] == ["create-namespace", "create-table"]
    assert reconciler.plan(gone).is_empty


def test_an_empty_list_of_catalogs_is_no_error(glue: GlueServer, connect: Connect, tmp_path: Path) -> None:
    """A service may list no root: the databases tell the account, or nothing needs it."""
    nothing = '{"CatalogList": []}'
    glue.answer("glue:GetCatalogs", nothing, times=1000)
    manifest = _wanting(glue, tmp_path, {"web": {"tables": {"clicks": {}}}})
    report = reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journal")
    assert report.ok, report.results
    assert reconciler.plan(manifest).is_empty
    for backend in (connect(), connect()):
        assert backend.child_namespaces(()) == ["web"]
        assert backend.capabilities().outer_kind_depth != 0


def test_an_account_that_shows_nothing_yet_gets_a_catalog(glue: GlueServer, tmp_path: Path) -> None:
    """Lake Formation shows neither the root nor a database: the catalog that is made tells the account."""
    glue.answer("glue:GetCatalogs", '{"CatalogList": []}', times=2)
    sales = {"kind": "catalog", "namespaces": {"crm": {"tables": {"clicks": {}}}}}
    manifest = _wanting(glue, tmp_path, {"sales": sales})
    report = reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journal")
    assert report.ok, report.results
    assert reconciler.plan(manifest).is_empty
