"""Who says how a dataset is opened, and what pylance then reads and where it sends that: a service, and a manifest."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import lance
import pytest

from reconciler.backends.rest import RestBackend
from reconciler.model.errors import PermissionDeniedError
from reconciler.server.catalogs import OneCatalog
from tests.cli.running import lancens
from tests.security.baits import BAITS, CANARY, NOWHERE, QUICKLY, environment, hostile, vending
from tests.security.baits import thief as running_thief
from tests.server.client import Api
from tests.servers.lance_rest import served
from tests.servers.scripted import Scripted
from tests.writing import blocks_of, write_manifest

COLUMNS = [{"name": "id", "type": "int64"}]


@pytest.fixture
def thief(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setenv("SOME_SECRET", CANARY)
    with running_thief() as server:
        yield server


@pytest.mark.parametrize("bait", BAITS)
def test_the_baits_are_ones_that_pylance_takes(bait: str, thief: Scripted) -> None:
    """Otherwise the tests below would see nothing, whatever lancens does."""
    location, options = BAITS[bait]
    with pytest.raises((OSError, ValueError)):
        lance.dataset(location, storage_options=options(thief))
    assert thief.requests


def _wants(folder: Path, config: Mapping[str, str], impl: str = "rest", **table: object) -> Path:
    return write_manifest(folder, {"lake": {"impl": impl, "config": dict(config), **blocks_of({("a", "t"): table})}})


def _storage(options: Mapping[str, str]) -> dict[str, str]:
    return {f"storage.{key}": value for key, value in options.items()}


@pytest.mark.parametrize(
    ("bait", "arguments"),
    [
        *((bait, ["plan"]) for bait in BAITS),
        ("environment", ["plan", "--allow-host", "127.0.0.1"]),
        ("environment", ["plan", "--allow-env", "NOTHING"]),
        ("environment", ["import", "--with-schema"]),
    ],
)
def test_a_service_has_nothing_sent_anywhere(
    bait: str,
    arguments: list[str],
    thief: Scripted,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with hostile(bait, thief) as service:
        _wants(tmp_path, {"uri": service.url, **_storage(NOWHERE)}, schema=COLUMNS, location=BAITS[bait][0])
        ran = lancens(capsys, *arguments)
    assert [one for one in service.requests if one.body and one.body.get("vend_credentials")]
    assert thief.requests == []
    assert CANARY not in ran.out + ran.err


@pytest.mark.parametrize("bait", BAITS)
def test_nor_does_it_through_serve(bait: str, thief: Scripted) -> None:
    with hostile(bait, thief) as service:
        backend = RestBackend(uri=service.url, **_storage(NOWHERE))
        with served(OneCatalog(backend)) as url, closing(Api(url)) as api:
            assert api("POST", "/v1/table/a$t/describe", {"load_detailed_metadata": True}).status >= 400
    assert thief.requests == []


@pytest.mark.parametrize("lacks", ["aws_session_token", "aws_secret_access_key"])
def test_a_service_mixes_no_credentials_of_its_own_with_those_of_the_environment(
    lacks: str, thief: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key alone made the session's token of the environment go where it said."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOWN")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "own")
    monkeypatch.setenv("AWS_SESSION_TOKEN", CANARY)
    keys = ("access_key_id", "secret_access_key", "token")
    whole = {**dict.fromkeys(keys, "x"), "endpoint_url": thief.url, "allow_http": "true", "region": "x"}
    short = {key: value for key, value in whole.items() if f"aws_{key}" != lacks.replace("session_", "")}
    for options, is_asked in ((short, False), (whole, True)):
        with vending("s3://b/t", {**options, **QUICKLY}) as service:
            backend = RestBackend(uri=service.url, **_storage({**QUICKLY, "timeout": "1s", "connect_timeout": "1s"}))
            taken = backend.table_storage_options(backend.load_table(("a", "t")))
            assert ("aws_endpoint" in taken) is is_asked
            assert ("allow_http" in taken) is is_asked
            with pytest.raises((OSError, ValueError)):
                lance.dataset("s3://b/t", storage_options=taken)
        assert bool(thief.requests) is is_asked
        assert not [one for one in thief.requests if CANARY in str(one)]


def test_a_location_names_a_host_that_is_allowed(thief: Scripted) -> None:
    """The credentials of the environment would go to the account that the service names."""
    with vending("abfss://c@evil.dfs.core.windows.net/t", {}) as service:
        backend = RestBackend(uri=service.url)
        table = backend.load_table(("a", "t"))
        assert backend.table_storage_options(table) == {}
        backend.hosts = ["lake.dfs.core.windows.net"]
        with pytest.raises(PermissionDeniedError, match="--allow-host"):
            copy.copy(backend).table_storage_options(table)
        backend.hosts = [".dfs.core.windows.net"]
        assert backend.table_storage_options(table) == {}


# ---- a manifest ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("azure_federated_token_file", "/proc/self/environ"),
        ("FEDERATED_TOKEN_FILE", "/proc/self/environ"),
        ("base_1.azure_federated_token_file", "/proc/self/environ"),
        ("google_service_account", "/etc/passwd"),
        ("google_application_credentials", "../outside.json"),
        ("aws_web_identity_token_file", "link"),
        ("oidc_token_file", "/etc/passwd"),
        ("credential_path", "/etc/passwd"),
        ("google_service_account", "in.json"),
        ("google_service_account_key", '{"credential_source": {"file": "/proc/self/environ"}}'),
        ("google_service_account_key", '{"credential_source": {"executable": {"command": "id"}}}'),
    ],
)
def test_a_manifest_names_no_file_outside_of_its_folder(
    option: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "manifest"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (tmp_path / "outside.json").write_text("{}")
    (folder / "link").symlink_to("/proc/self/environ")
    (folder / "in.json").write_text('{"credential_source": {"file": "\\u002fproc/self/environ"}}')
    _wants(folder, {"root": "lake", f"storage.{option}": value}, "dir")
    refused = lancens(capsys, "plan")
    assert refused.code == 1
    assert f"config `storage.{option}` names a file outside" in refused.err
    assert lancens(capsys, "plan", "--allow-outside").code == 0


def test_it_may_name_one_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key.json").write_text('{"token_uri": "https://oauth2.googleapis.com/token"}')
    _wants(tmp_path, {"root": "lake", "storage.google_service_account": "key.json"}, "dir")
    assert lancens(capsys, "plan").code == 0
    assert lancens(capsys, "plan", "--allow-host", "oauth2.googleapis.com").code == 0


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("google_service_account_key", '{"gcs_base_url": "https:\\/\\/evil.example.net"}'),
        ("google_service_account_key", '{"gcs_base_url": "\\u0068ttps://evil.example.net"}'),
        ("google_service_account_key", "eyJnY3NfYmFzZV91cmwiOiAiaHR0cHM6Ly9ldmlsLmV4YW1wbGUubmV0In0="),
        ("google_service_account", "key.json"),
        ("google_application_credentials", "key.json"),
        ("azure_authority_host", "evil.example.net"),
        ("azure_msi_endpoint", "http://evil.example.net"),
        ("aws_endpoint_url_s3", "evil.example.net"),
        ("aws_endpoint_url_sts", "evil.example.net"),
        ("goosefs_master_addr", "evil.example.net:9200"),
        ("base_7.endpoint", "evil.example.net"),
        ("proxy_url", "evil.example.net:3128"),
        ("headers.host", "evil.example.net"),
    ],
)
def test_a_manifest_names_no_host_that_is_not_allowed(
    option: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key.json").write_text('{"token_uri": "https:\\/\\/evil.example.net/token"}')
    _wants(tmp_path, {"root": "lake", f"storage.{option}": value}, "dir")
    assert lancens(capsys, "plan").code == 0
    refused = lancens(capsys, "plan", "--allow-host", "catalog.example.com")
    assert refused.code == 1
    assert f"config `storage.{option}` names" in refused.err
    assert "--allow-host" in refused.err


def test_a_manifest_reads_no_variable_through_an_option(
    thief: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _wants(tmp_path, {"root": "az://c/lake", **_storage(environment(thief))}, "dir")
    for limits in ([], ["--allow-env", "NOTHING"], ["--allow-host", "127.0.0.1"]):
        ran = lancens(capsys, "plan", *limits)
        assert ran.code == 1
        assert CANARY not in ran.err
    assert thief.requests == []


@pytest.mark.parametrize("place", ["location", "root"])
def test_no_variable_goes_to_a_bucket_that_is_not_allowed(
    place: str, thief: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = {"aws_endpoint": thief.url, "allow_http": "true", "aws_region": "x", "aws_access_key_id": "x"}
    config: dict[str, Any] = _storage({**keys, "aws_secret_access_key": "x", **QUICKLY})
    there = "s3://evil-bucket/${env:SOME_SECRET}"
    if place == "root":
        _wants(tmp_path, {**config, "root": there}, "dir")
    else:
        _wants(tmp_path, {**config, "name": "buckets"}, "memory", location=f"{there}/t")
    refused = lancens(capsys, "plan", "--allow-host", "127.0.0.1")
    assert refused.code == 1
    assert "--allow-host" in refused.err
    assert CANARY not in refused.err
    assert thief.requests == []
    lancens(capsys, "plan", "--allow-host", "127.0.0.1", "--allow-host", "evil-bucket")
    assert thief.requests


@pytest.mark.parametrize("impl", ["dir", "glue"])
def test_user_information_of_an_endpoint_in_the_environment_is_not_shown(
    impl: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {"ENDPOINT_URL": f"http://me:{CANARY}@127.0.0.1:9", "MAX_ATTEMPTS": "1", "REGION": "eu-west-1"}
    for name, value in {**environment, "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "some-secret"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    quick = {"storage.allow_http": "true", **_storage(dict.fromkeys(("max_retries", "client_max_retries"), "0"))}
    config = {"dir": {"root": "s3://lake", **quick}, "glue": {"region": "eu-west-1"}}
    _wants(tmp_path, config[impl], impl, schema=COLUMNS)
    told = lancens(capsys, "plan", str(tmp_path / "lancens.yaml"))
    assert told.code == 1
    assert CANARY not in told.out + told.err
    assert "http://(redacted)@127.0.0.1:9" in told.err
