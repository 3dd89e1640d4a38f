"""Kerberos: a real KDC, and a metastore that lets in who has a ticket."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.backends.hive.hive3 import Hive3Backend
from reconciler.model.errors import ServiceUnavailableError
from tests.servers.hive import Metastore, metastore
from tests.servers.kdc import REALM, Kdc, kdc
from tests.servers.process import free_port

LOGIN = {"auth": "kerberos"}
SERVICE, USER = "hive/127.0.0.1", "engineer"


@dataclass(frozen=True)
class Realm:
    """A metastore, the KDC that it trusts, and somebody's keytab."""

    metastore: Metastore
    kdc: Kdc
    keytab: Path


@pytest.fixture(scope="module", params=["authentication", "privacy"])
def realm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with kdc(tmp_path_factory.mktemp("kdc")) as running, pytest.MonkeyPatch.context() as patch:
        service, user = running.keytab(SERVICE), running.keytab(USER)
        cache = running.folder / "cache"
        running.ticket(USER, user, cache)
        patch.setenv("KRB5_CONFIG", str(running.client))
        patch.setenv("KRB5CCNAME", f"FILE:{cache}")
        settings = {
            "hadoop.security.authentication": "kerberos",
            "hadoop.rpc.protection": request.param,
            "metastore.sasl.enabled": "true",
            "metastore.kerberos.principal": f"{SERVICE}@{REALM}",
            "metastore.kerberos.keytab.file": str(service),
        }
        options = [f"-Djava.security.krb5.conf={running.client}"]
        folder = tmp_path_factory.mktemp("metastore")
        with metastore("4.1", folder, settings=settings, login=LOGIN, java_options=options) as server:
            yield Realm(server, running, user)


def refused(realm: Realm, **more: str) -> str:
    with pytest.raises(ServiceUnavailableError) as told:
        Hive3Backend(uri=realm.metastore.uri, **{**LOGIN, "client.timeout": "3", **more}).scan()
    return str(told.value)


def test_who_has_a_ticket_is_let_in(realm: Realm, tmp_path: Path) -> None:
    backend = Hive3Backend(uri=realm.metastore.uri, root=str(tmp_path), **LOGIN)
    database = ("hive", tmp_path.name)
    backend.insert_namespace(database, {})
    long = "gold" * 8_000  # an answer with three of them is in several frames of SASL's
    for number in range(3):
        backend.insert_table((*database, f"t{number}"), str(tmp_path / f"{number}.lance"), {"tier": long})
    assert [table.properties["tier"] for table in backend.scan().tables.values()] == [long] * 3


def test_an_expired_ticket_is_reported(realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    realm.kdc.ticket(USER, realm.keytab, cache, "1s")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    pause = threading.Event()
    while realm.kdc.is_valid(cache):
        pause.wait(0.1)
    ended = int(time.time())
    while int(time.time()) == ended:  # GSSAPI takes the ticket until this second is over
        pause.wait(0.1)
    told = refused(realm)
    assert "expired" in told
    assert "`kinit`" in told


def test_a_missing_ticket_is_reported(realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'none'}")
    told = refused(realm)
    assert "No Kerberos credentials available" in told
    assert "`kinit`" in told


def test_a_service_unknown_to_the_kdc_is_reported(realm: Realm) -> None:
    told = refused(realm, **{"kerberos.service": "impala"})
    assert "impala/127.0.0.1@" in told
    assert "not found in Kerberos database" in told
    assert "`kerberos.service`" in told


def test_a_kdc_that_does_not_answer_is_reported(realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, elsewhere = tmp_path / "cache", tmp_path / "krb5.conf"
    realm.kdc.ticket(USER, realm.keytab, cache)
    elsewhere.write_text(re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{free_port()}", realm.kdc.client.read_text()))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    monkeypatch.setenv("KRB5_CONFIG", str(elsewhere))
    assert "Cannot contact any KDC" in refused(realm)


def test_nobody_comes_in_without(realm: Realm) -> None:
    refused(realm, auth="none")
