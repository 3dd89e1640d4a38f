"""What a user notices of a catalog that hands out credentials: the same for every kind of catalog."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import lance
import pytest
from lance_namespace import DescribeTableRequest
from lance_namespace.errors import LanceNamespaceError

import reconciler
from reconciler.model.names import Identifier
from tests.servers.s3 import KEY, SECRET, TOKEN, GuardedS3

__all__ = ["assert_credentials_are_used", "assert_own_credentials_win", "wrong_environment"]

_WRONG = {"AWS_ACCESS_KEY_ID": "AKIAWRONG", "AWS_SECRET_ACCESS_KEY": "wrong", "AWS_SESSION_TOKEN": "wrong"}


def wrong_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the credentials of the environment be none that the storage takes."""
    for name, value in _WRONG.items():
        monkeypatch.setenv(name, value)


def _manifest(impl: str, config: Mapping[str, str], table: Identifier, schema: Sequence[Mapping[str, str]]) -> str:
    block: dict[str, object] = {"tables": {table[-1]: {"schema": schema, "evolve": "additive"}}}
    for name in reversed(table[:-1]):
        block = {"namespaces": {name: block}}
    return json.dumps({"version": 1, "name": "vended", "catalogs": {"main": {"impl": impl, "config": config, **block}}})


def assert_credentials_are_used(
    impl: str, config: Mapping[str, str], table: Identifier, location: str, s3: GuardedS3, folder: Path
) -> None:
    """A column is planned and added to a table that only the handed-out credentials open, and nobody sees those."""
    columns = [{"name": "id", "type": "int64"}, {"name": "added", "type": "string"}]
    file = folder / "lancens.yaml"
    file.write_text(_manifest(impl, config, table, columns))
    manifest = reconciler.load(file)
    plan = reconciler.plan(manifest)
    assert [change.action.value for change in plan.changes] == ["alter-table"]
    report = reconciler.apply(plan, manifest, journal=folder / "journal")
    assert report.ok, report.results
    assert set(s3.seen) == {(KEY, TOKEN)}
    opened = lance.dataset(location, storage_options={**s3.where, **s3.vended})
    assert opened.schema.names == ["id", "added"]
    shown = [plan.model_dump_json(), str(report), *(path.read_text() for path in (folder / "journal").rglob("*.jsonl"))]
    assert len(shown) > 2
    for secret in (SECRET, TOKEN, KEY):
        assert not [text for text in shown if secret in text]
    assert not reconciler.plan(manifest).changes
    with closing(reconciler.connect(impl, dict(config))) as namespace:
        described = namespace.describe_table(DescribeTableRequest(id=list(table)))
        assert described.storage_options is not None
        assert s3.vended.items() <= described.storage_options.items()
        assert lance.dataset(namespace_client=namespace, table_id=list(table)).count_rows() == 2
        plain = namespace.describe_table(DescribeTableRequest(id=list(table), vend_credentials=False))
        assert not s3.vended.items() & (plain.storage_options or {}).items()


def assert_own_credentials_win(impl: str, config: Mapping[str, str], table: Identifier, s3: GuardedS3) -> None:
    """Where the configuration says who opens the data, nobody else does: here, somebody who may not."""
    own = {**config, "storage.aws_access_key_id": "AKIAOWN", "storage.aws_secret_access_key": "own"}
    for chosen, key in ((own, "AKIAOWN"), ({**config, "vend_credentials": "false"}, _WRONG["AWS_ACCESS_KEY_ID"])):
        s3.seen.clear()
        with closing(reconciler.connect(impl, chosen)) as namespace, pytest.raises(LanceNamespaceError):
            namespace.describe_table(DescribeTableRequest(id=list(table), load_detailed_metadata=True))
        assert key in {used for used, _ in s3.seen}
