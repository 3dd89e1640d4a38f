"""Every option of pylance's object stores, from a service and from a manifest: each is allowed or refused."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
import yaml

from reconciler.backends.service_options import options_of_service
from reconciler.manifest import Policy
from reconciler.storage import SCHEMES

TABLE = yaml.safe_load(Path(__file__).with_name("storage_options.yaml").read_text())
OBJECT_STORE, OPENDAL, FILES, HOSTS = (TABLE[key].split() for key in ("object_store", "opendal", "files", "hosts"))
TAKEN, ENDPOINTS = ({scheme: text.split() for scheme, text in TABLE[key].items()} for key in ("taken", "endpoints"))
KNOWN = sorted({*OBJECT_STORE, *OPENDAL, *TABLE["others"].split()})
EVIL = "evil.example.net/x"


@pytest.fixture(scope="module")
def binary() -> Iterator[mmap.mmap]:
    (library,) = Path(lance.__file__).parent.glob("lance*.so")
    with library.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield content


def test_the_options_of_object_store_are_those_of_the_binary(binary: mmap.mmap) -> None:
    """An option that pylance learns makes this fail, until somebody says who may name it."""
    http = OBJECT_STORE[: OBJECT_STORE.index("user_agent") + 1]
    assert binary.find("".join(http).encode()) >= 0
    start = binary.find(b"aws_access_key_idaws_secret_access_keyaws_default_region")
    end = binary.find(b"azure_storage_encryption_key", start)
    assert "".join(OBJECT_STORE[len(http) :]) == binary[start:end].decode() + "azure_storage_encryption_key"


def test_the_options_of_opendal_are_those_of_the_binary(binary: mmap.mmap) -> None:
    start = binary.find(b"filesystemaccount_nameaccount_key")
    rest = binary[start : binary.find(b"grant_type", start)].decode()
    for name in OPENDAL:
        _, is_there, rest = rest.partition(name)
        assert is_there, name


def test_the_schemes_are_those_that_pylance_names() -> None:
    with pytest.raises(ValueError, match="Valid schemes") as refused:
        lance.dataset("no-such-scheme://x")
    valid = str(refused.value).split("Valid schemes:")[1].split(", /")[0]
    assert {one.strip() for one in valid.split(",")} == SCHEMES
    assert {"az" if one == "abfss" else one for one in SCHEMES} == TAKEN.keys()


def test_a_service_names_nothing_for_a_table_on_this_machine() -> None:
    for brings_hosts in (True, False):
        assert options_of_service({"region": "x"}, "/b/t", {}, None, brings_hosts=brings_hosts) == {}


@pytest.mark.parametrize("scheme", TAKEN)
def test_what_a_service_may_name_is_a_key_a_token_or_a_region(scheme: str) -> None:
    for name in KNOWN:
        taken = options_of_service({name.upper(): "x"}, f"{scheme}://b/t", {}, None, brings_hosts=True)
        assert bool(taken) is (name in TAKEN[scheme]), name


@pytest.mark.parametrize("scheme", TAKEN)
@pytest.mark.parametrize("value", [EVIL, f"https://{EVIL}"])
def test_it_names_no_host_that_is_not_allowed(scheme: str, value: str) -> None:
    for name in KNOWN:
        for hosts in (None, ["other.example.com"]):
            taken = options_of_service({name: value}, f"{scheme}://b/t", {}, hosts, brings_hosts=True)
            assert not taken or (name in TAKEN[scheme] and name not in HOSTS), name


@pytest.mark.parametrize("scheme", ENDPOINTS)
def test_it_names_one_that_is(scheme: str) -> None:
    for name in ENDPOINTS[scheme]:
        host = "minio" if "account" in name else "http://minio.example.com"
        allowed = ["minio.example.com", "minio.blob.core.windows.net"]
        assert options_of_service({name: host}, f"{scheme}://b/t", {}, allowed, brings_hosts=False)
        assert not options_of_service({name: host}, f"{scheme}://b/t", {}, None, brings_hosts=False)
        if "account" not in name:
            configured = {"an_endpoint": "minio.example.com"}
            assert options_of_service({name: host}, f"{scheme}://b/t", configured, None, brings_hosts=False)


@pytest.mark.parametrize("name", KNOWN)
def test_a_manifest_names_files_of_its_own_and_hosts_that_are_allowed(name: str, tmp_path: Path) -> None:
    strict, folders = Policy(hosts=["catalog.example.com"]), [str(tmp_path)]
    (tmp_path / "in").touch()

    def said(value: str, policy: Policy = strict) -> str:
        return " ".join(policy.config_refusals(f"storage.{name}", value, folders, is_literal=True))

    assert ("names a file" in said("/proc/self/environ")) is (name in FILES)
    assert not said(str(tmp_path / "in"), Policy())
    assert ("that is not allowed" in said(EVIL)) is (name in HOSTS)
    assert "that is not allowed" in said(f"https://{EVIL}")
