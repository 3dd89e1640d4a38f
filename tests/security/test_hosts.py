"""Where a manifest can have secrets sent: to the hosts that are allowed, and over no plain http."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.backends import registry
from reconciler.model.errors import InvalidInputError
from reconciler.model.hosts import hosts_in
from tests.cli.running import lancens
from tests.servers.scripted import Request, Scripted, scripted

TOKEN = "canary-token-4f1d"


@pytest.fixture
def elsewhere() -> Iterator[Scripted]:
    """The server of the manifest's author."""

    def answer(request: Request) -> tuple[int, object]:
        return 200, {"operations": [], "namespaces": [], "tables": []}

    with scripted(answer) as server:
        yield server


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: Scripted) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CATALOG_TOKEN", TOKEN)
    monkeypatch.setenv("WHERE", elsewhere.url)
    path = tmp_path / "lancens.yaml"
    path.write_text(
        "version: 1\nname: shop\ncatalogs:\n  lake:\n    impl: rest\n    config:\n"
        f"      uri: {elsewhere.url}\n      auth_token: ${{env:CATALOG_TOKEN}}\n    namespaces: {{a: {{}}}}\n"
    )
    return path


COMMANDS = [
    ["plan"],
    ["drift"],
    ["apply", "--auto-approve"],
    ["import"],
    ["import", "--append", "lancens.yaml"],
    ["doctor"],
    ["serve", "--port", "0"],
    ["inventory"],
    ["audit"],
    ["plan", "--engine", "spark"],
    ["release", "lake/**", "--auto-approve"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_request_goes_to_a_host_that_is_not_allowed(
    arguments: list[str], manifest: Path, elsewhere: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = lancens(capsys, *arguments, "--allow-host", "catalog.example.com")
    assert refused.code == 1
    assert "`uri` names the host `127.0.0.1`" in refused.err
    assert elsewhere.requests == []


def test_nor_by_an_address_that_comes_from_the_environment(
    manifest: Path, elsewhere: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest.write_text(manifest.read_text().replace(elsewhere.url, "${env:WHERE}"))
    refused = lancens(capsys, "plan", "--allow-host", "catalog.example.com")
    assert "`uri` names a host that is not allowed" in refused.err
    assert "127.0.0.1" not in refused.err
    assert elsewhere.requests == []


@pytest.mark.parametrize("allowed", ["127.0.0.1", ".0.0.1"])
def test_a_host_that_is_allowed_is_reached(
    allowed: str, manifest: Path, elsewhere: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lancens(capsys, "plan", "--allow-host", "catalog.example.com", "--allow-host", allowed).code == 0
    assert {request.headers.get("Authorization") for request in elsewhere.requests} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("command", ["doctor", "audit", "serve", "import"])
@pytest.mark.parametrize("option", [["--allow-host", "x.example.com"], ["--allow-env", "X"], ["--allow-outside"]])
def test_what_a_manifest_may_do_is_not_said_without_one(
    command: str, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be without effect, and who says it relies on it."""
    refused = lancens(capsys, command, "--impl", "memory", *option)
    assert refused.code == 1
    assert "go with a manifest" in refused.err


@pytest.mark.parametrize("block", ["tables: {t: {%s}}", "properties: {%s}, tables: {t: {}}"])
def test_a_location_names_no_other_host(
    block: str, manifest: Path, elsewhere: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = block % "location: 'hdfs://evil.example.net/t'"
    text = manifest.read_text().replace("impl: rest", "impl: iceberg")
    manifest.write_text(
        text.replace("namespaces: {a: {}}", f"namespaces: {{w: {{namespaces: {{a: {{{namespace}}}}}}}}}")
    )
    refused = lancens(capsys, "plan", "--allow-host", "127.0.0.1")
    assert "it names a host that is not allowed" in refused.err
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("key", "value", "hosts"),
    [
        ("uri", "https://Catalog.Example.com:8443/x", ["catalog.example.com"]),
        ("uri", "thrift://a:9083,thrift://b:9083", ["a", "b"]),
        ("uri", "a:9083, b", ["a", "b"]),
        ("uri", "thrift://a:9083,evil.net:9083", ["a", "evil.net"]),
        ("uri", "http://a:9083/metastore,https://b/metastore", ["a", "b"]),
        ("uri", "http://catalog.example.com@evil.net/", ["evil.net"]),
        ("uri", "http://catalog.example.com\\@evil.net/", ["evil.net", "catalog.example.com"]),
        ("storage.azure_storage_endpoint", "https://evil.net\\@lake.example.com", ["lake.example.com", "evil.net"]),
        ("storage.azure_storage_endpoint", "https://evil.net\\.example.com", ["evil.net\\.example.com", "evil.net"]),
        ("storage.azure_storage_endpoint", "https://lake.example.com\t.evil.net", ["lake.example.com.evil.net"]),
        ("storage.azure_storage_endpoint", "https://lake.example.com @evil.net", ["evil.net"]),
        ("storage.proxy_url", "evil.net\\@lake.example.com", ["lake.example.com", "evil.net"]),
        ("endpoint", "https://[::1]:80/", ["::1"]),
        ("oauth2-server-uri", "https://login.example.com/token", ["login.example.com"]),
        ("storage.aws_endpoint", "minio:9000", ["minio"]),
        ("storage.aws_endpoint", " https://minio.example.com\n", ["minio.example.com"]),
        ("storage.proxy_url", "http://u:p@proxy:3128", ["proxy"]),
        ("storage.azure_storage_account_name", "lake", ["lake.blob.core.windows.net"]),
        ("storage.account_name", "evil.net/x", ["evil.net/x"]),
        ("region", "eu-west-1", []),
        ("region", "evil.net/#", ["evil.net/#"]),
        ("root", "s3://bucket/x", []),
        ("root", "hdfs://name-node:8020/x", ["name-node"]),
        ("auth_token", "${env:X}", []),
    ],
)
def test_hosts_are_known_wherever_they_are_named(key: str, value: str, hosts: list[str]) -> None:
    assert list(hosts_in(key, value)) == hosts


@pytest.mark.parametrize("before", ["x" * 2_000_000, "1.x" * 700_000])
def test_a_long_value_is_read_once(before: str) -> None:
    assert list(hosts_in("storage.user_agent", f"{before}, 1+http://evil.example")) == ["evil.example"]


# ---- plain http ------------------------------------------------------------------------------------------------------

WITH_TOKEN = [
    ("rest", "uri", {"auth_token": TOKEN}),
    ("rest", "uri", {"headers.Authorization": f"Basic {TOKEN}"}),
    ("rest", "uri", {"headers.x-api-key": TOKEN}),
    ("unity", "endpoint", {"catalog": "main", "auth_token": TOKEN}),
    ("iceberg", "endpoint", {"auth_token": TOKEN}),
    ("iceberg", "endpoint", {"credential": f"me:{TOKEN}"}),
]


@pytest.mark.parametrize(("impl", "key", "secret"), WITH_TOKEN)
@pytest.mark.parametrize("host", ["catalog.example.com", "10.0.0.5", "[fe80::1]", "127.0.0.1.example.com"])
def test_no_token_goes_over_plain_http(impl: str, key: str, secret: dict[str, str], host: str) -> None:
    with pytest.raises(InvalidInputError, match="is a plain http:// address") as refused:
        registry.connect(impl, {key: f"http://{host}:8080", **secret})
    assert TOKEN not in str(refused.value)
    registry.connect(impl, {key: f"https://{host}:8080", **secret}).close()
    registry.connect(impl, {key: f"http://{host}:8080", "allow_http": "true", **secret}).close()


@pytest.mark.parametrize(("impl", "key", "secret"), WITH_TOKEN)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "[::1]", "catalog.localhost"])
def test_but_for_this_machine(impl: str, key: str, secret: dict[str, str], host: str) -> None:
    registry.connect(impl, {key: f"http://{host}:8080", **secret}).close()


def test_a_login_goes_over_no_plain_http_either() -> None:
    config = {"endpoint": "https://catalog.example.com", "credential": f"me:{TOKEN}"}
    with pytest.raises(InvalidInputError, match="is a plain http:// address"):
        registry.connect("iceberg", {**config, "oauth2-server-uri": "http://login.example.com/token"})


def test_a_plan_says_where_the_address_stands(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest.write_text(manifest.read_text().replace("127.0.0.1", "catalog.example.com"))
    refused = lancens(capsys, "plan")
    assert refused.code == 1
    assert refused.err.startswith("lancens.yaml:6:") or "lancens.yaml:" in refused.err
    assert "set `allow_http` to true" in refused.err
    assert TOKEN not in refused.err
