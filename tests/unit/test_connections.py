"""Opening the catalogs of a manifest, here and wherever a description of one is sent."""

from __future__ import annotations

import pickle
import uuid
from pathlib import Path
from unittest import mock

import pytest

from reconciler import load
from reconciler.backends.memory import MemoryBackend
from reconciler.model.errors import CatalogError, InternalError
from reconciler.operations.connections import CatalogSpec, catalog_specs, open_connections

SECRET = "hunter2-correct-horse"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "lancens.yaml"
    path.write_text(
        "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: memory\n"
        '    scope: ["main/**", "*/x"]\n    namespaces: {main: {}, more: {namespaces: {x: {}}}}\n'
    )
    return path


def test_a_catalog_is_opened_the_same_way_everywhere(manifest: Path) -> None:
    loaded = load(manifest)
    with open_connections(loaded, parallelism=3) as connections:
        here = connections["lake"]
        assert (here.backend.parallelism, sorted(here.backend.outermost_names)) == (3, ["main", "more"])
    (spec,) = catalog_specs(loaded, parallelism=3)
    sent: CatalogSpec = pickle.loads(pickle.dumps(spec))  # noqa: S301 - our own
    with sent.connect() as backend:
        assert (backend.parallelism, sorted(backend.outermost_names)) == (3, ["main", "more"])
    assert here.spec == sent


def test_errors_in_the_block_name_the_catalog_and_no_secret() -> None:
    spec = CatalogSpec("lake", "memory", {}, (SECRET,))
    with pytest.raises(CatalogError) as raised, spec.connect():
        raise InternalError(f"memory: no answer to {SECRET}")
    assert str(raised.value).startswith("lake (memory): no answer to ")
    assert SECRET not in str(raised.value) + repr(CatalogSpec("lake", "memory", {"key": SECRET}, (SECRET,)))


def test_a_connection_is_closed_at_the_end(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    monkeypatch.setattr(MemoryBackend, "close", lambda self: closed.append(self.impl))
    with open_connections(load(manifest)):
        assert closed == []
    assert closed == ["memory"]


def test_the_address_binds_a_plan_and_vend_credentials_does_not(tmp_path: Path) -> None:
    def service(uri: str, *, vends: bool) -> str:
        path = tmp_path / "lancens.yaml"
        path.write_text(
            "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: rest\n"
            f"    config: {{uri: {uri}, vend_credentials: {str(vends).lower()}}}\n"
        )
        with open_connections(load(path)) as connections:
            return connections["lake"].service

    made = service("http://127.0.0.1:1", vends=True)
    assert service("http://127.0.0.1:1", vends=False) == made
    assert service("http://127.0.0.1:2", vends=True) != made


@pytest.mark.parametrize(
    ("catalog", "slow"),
    [
        ("{impl: rest, config: {uri: 'http://127.0.0.1:1'}}", 0),
        (
            "{impl: rest, config: {uri: 'http://127.0.0.1:1', auth_token: '${env:LANCENS_TEST_VALUE}'}}",
            0,
        ),
        ("{impl: rest, config: {uri: 'http://127.0.0.1:1/${env:LANCENS_TEST_VALUE}'}}", 1),
        ("{impl: rest, config: {uri: 'http://127.0.0.1:1/${env:LANCENS_TEST_NONE:-a}'}}", 1),
        ("{impl: rest, config: {uri: 'http://127.0.0.1:1/${var:stage:-a}'}}", 1),
        ("{impl: rest, config: {uri: 'http://127.0.0.1:1/${file:value}'}}", 1),
        ("{impl: hive3, config: {uri: 'thrift://127.0.0.1:1'}}", 0),
        ("{impl: glue, config: {region: eu-west-1, catalog_id: '123456789012'}}", 0),
        ("{impl: glue, config: {catalog_id: '123456789012'}}", 1),
        ("{impl: dir, config: {root: ./lake}}", 0),
        ("{impl: dir, config: {root: ./link}}", 0),
        ("{impl: dir, config: {root: 's3://lake'}}", 0),
        ("{impl: dir, config: {root: '{folder}/lake'}}", 0),
        ("{impl: dir, config: {root: '{folder}/link'}}", 1),
    ],
)
def test_a_digest_is_slow_for_what_the_manifest_does_not_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalog: str, slow: int
) -> None:
    scrypt = mock.Mock(return_value=bytes(32))
    monkeypatch.setattr("hashlib.scrypt", scrypt)
    monkeypatch.setenv("LANCENS_TEST_VALUE", str(tmp_path))  # a value of its own: digests are remembered
    monkeypatch.setenv("AWS_DEFAULT_REGION", f"eu-west-{uuid.uuid4().int}")
    (tmp_path / "value").write_text(str(tmp_path))
    (tmp_path / "lake").mkdir()
    (tmp_path / "link").symlink_to("lake")
    path = tmp_path / "lancens.yaml"
    catalogs = f"{{lake: {catalog.replace('{folder}', str(tmp_path.resolve()))}}}"
    path.write_text(f"version: 1\nname: {uuid.uuid4().hex}\ncatalogs: {catalogs}\n")
    with open_connections(load(path)) as connections:
        services = {connections["lake"].service for _ in range(2)}
    assert (scrypt.call_count, len(services)) == (slow, 1)
