"""The configuration of backends."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.backends import registry
from reconciler.backends.dir import DirConfig
from reconciler.backends.http.config import HttpConfig
from reconciler.backends.iceberg import IcebergConfig
from reconciler.backends.memory import MemoryConfig
from reconciler.model.backend_config import known_keys, parse_config, read_config
from reconciler.model.errors import InvalidInputError

_REQUIRED = {
    "hive2": {"uri": "thrift://localhost"},
    "hive3": {"uri": "thrift://localhost"},
    "iceberg": {"endpoint": "http://localhost"},
    "rest": {"uri": "http://localhost"},
    "unity": {"endpoint": "http://localhost", "catalog": "main"},
}


def _messages(properties: dict[str, str]) -> list[str]:
    return [problem.message for problem in read_config(DirConfig, "dir", properties)[1]]


@pytest.mark.parametrize("key", ["root", "dir.root", "path", "dir.path"])
def test_every_spelling_of_the_root(key: str) -> None:
    assert parse_config(DirConfig, "dir", {key: "/lake"}).root == "/lake"


@pytest.mark.parametrize("address", ["http://lake/v1\n", "\thttp://lake ", "http://lake/v1/ "])
def test_an_address_from_a_file_may_end_with_a_line(address: str) -> None:
    config = parse_config(IcebergConfig, "iceberg", {"endpoint": address, "credential": "a:b", "allow_http": "true"})
    assert (config.endpoint, config.token_address) == ("http://lake", "http://lake/v1/oauth/tokens")


def test_an_empty_key_signs_nothing() -> None:
    signed = {"endpoint": "https://lake", "rest.sigv4-enabled": "true", "rest.access-key-id": "me"}
    with pytest.raises(InvalidInputError, match=r"`rest.secret-access-key`"):
        parse_config(IcebergConfig, "iceberg", {**signed, "rest.secret-access-key": ""})


def test_a_relative_root_starts_at_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    roots = [parse_config(DirConfig, "dir", {"root": root}) for root in ("lake", "./lake/", f"file://{tmp_path}/lake")]
    assert {config.root for config in roots} == {f"{tmp_path}/lake"}
    assert {config.identity() for config in roots} == {f"{tmp_path}/lake"}


def test_storage_options_are_collected_and_not_shown() -> None:
    config = parse_config(DirConfig, "dir", {"root": "s3://b/x/", "storage.aws_secret_access_key": "hunter2"})
    assert config.storage == {"aws_secret_access_key": "hunter2"}
    assert config.identity() == "s3://b/x"
    assert "hunter2" not in repr(config)


def test_every_fault_is_named_with_its_key_and_no_value() -> None:
    assert _messages({}) == ["`root` is missing: the directory or URI of the catalog"]
    [misspelt] = _messages({"root": "/lake", "rooot": "hunter2"})
    assert misspelt.startswith("unknown key `rooot`")
    assert misspelt.endswith("did you mean `root`?")
    [unknown] = _messages({"root": "/lake", "zzz": "hunter2"})
    assert unknown.startswith("unknown key `zzz`")
    assert unknown.endswith("dir_listing_enabled, storage.*")
    [secret] = _messages({"root": "s3://k:hunter2@b/x"})
    assert secret.startswith("`root`: ")
    assert "hunter2" not in secret
    [twice] = _messages({"root": "/lake", "dir.root": "/pond"})
    assert twice.startswith("`root` is given twice")
    with pytest.raises(InvalidInputError, match=r"^dir: `root` is missing: the directory or URI of the catalog$"):
        parse_config(DirConfig, "dir", {})


@pytest.mark.parametrize("impl", ["dir", "memory", "hive2", "hive3", "iceberg", "rest", "unity"])
@pytest.mark.parametrize("root", ["s3://key:hunter2@bucket/x", "s3://bucket/x?sig=hunter2", "", " "])
def test_no_root_holds_a_credential_or_is_empty(impl: str, root: str) -> None:
    config = {"root": root, **_REQUIRED.get(impl, {})}
    problems = read_config(registry.backend_class(impl).config_model, impl, config)[1]
    assert [(problem.key, "hunter2" in problem.message) for problem in problems] == [("root", False)]


@pytest.mark.parametrize("impl", ["hive2", "hive3"])
def test_keys_of_hive_may_have_its_plain_name_as_prefix(impl: str) -> None:
    model = registry.backend_class(impl).config_model
    given = {"hive.uri": "thrift://h:9083", f"{impl}.root": "/lake", "hive.storage.region": "eu"}
    config, problems = read_config(model, impl, given)
    assert problems == []
    assert config is not None
    assert config.storage == {"region": "eu"}
    [problem] = read_config(model, impl, {"hive.uri": "thrift://h", f"{impl}.uri": "thrift://h"})[1]
    assert "given twice" in problem.message


@pytest.mark.parametrize(
    ("impl", "more", "plain"),
    [
        ("unity", {"endpoint": "http://h"}, (10, 60)),
        ("rest", {"uri": "http://h"}, (10, 60)),
        ("iceberg", {"endpoint": "http://h"}, (10, 30)),
    ],
)
def test_time_outs_may_be_in_milliseconds(impl: str, more: dict[str, str], plain: tuple[float, float]) -> None:
    model = registry.backend_class(impl).config_model
    assert issubclass(model, HttpConfig)
    assert parse_config(model, impl, more).timeouts == plain
    millis = {f"{impl}.connect_timeout_millis": "1500", "read_timeout_millis": "200"}
    assert parse_config(model, impl, {**more, **millis}).timeouts == (1.5, 0.2)
    [problem] = read_config(model, impl, {**more, **millis, "read_timeout": "30"})[1]
    assert "one time-out" in problem.message


def test_known_keys_come_without_storage() -> None:
    assert known_keys(DirConfig) == ["root", "path", "manifest_enabled", "dir_listing_enabled"]


def test_nameless_memory_is_nobody_elses() -> None:
    one, other = (parse_config(MemoryConfig, "memory", {}) for _ in range(2))
    assert one.identity() != other.identity()
    assert parse_config(MemoryConfig, "memory", {"name": "x"}).identity() == "x"


def test_a_directory_takes_what_it_does_anyway_and_refuses_the_rest() -> None:
    given = {"root": "/lake", "manifest_enabled": "true", "dir_listing_enabled": "True"}
    assert parse_config(DirConfig, "dir", given).root == "/lake"
    for key, value, said in (
        ("manifest_enabled", "false", "expected true"),
        ("path", "/lake", "another name for `root`"),
    ):
        [problem] = read_config(DirConfig, "dir", {"root": "/lake", key: value})[1]
        assert said in problem.message


@pytest.mark.parametrize(
    ("impl", "key", "instead"),
    [
        ("dir", "table_version_tracking_enabled", "those of the datasets"),
        ("dir", "credential_vendor.aws_role_arn", "`storage.*`"),
        ("glue", "profile_name", "AWS_PROFILE"),
        ("glue", "max_retries", "are retried"),
        ("glue", "retry_mode", "throttling of AWS"),
        ("rest", "header.x-api-key", "`headers.NAME`"),
        ("rest", "tls.assert_hostname", "always checked"),
    ],
)
def test_a_key_of_another_implementation_is_told_by_our_name(impl: str, key: str, instead: str) -> None:
    found = read_config(registry.backend_class(impl).config_model, impl, {key: "hunter2"})[1]
    [message] = [problem.message for problem in found if problem.key == key]
    assert message.startswith(f"unknown key `{key}`; ")
    assert instead in message
    assert "hunter2" not in message
