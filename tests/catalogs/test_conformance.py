"""The conformance kit against the two catalogs that need no server."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lance_namespace
import pytest
from lance.namespace import DirectoryNamespace
from lance_namespace import DescribeTableRequest, DescribeTableResponse

from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.backends.dir.manifest import DirManifest
from reconciler.backends.dir.rows import Row, StoredLocations
from reconciler.backends.memory import MemoryBackend
from reconciler.conformance import CheckOutcome, ConformanceCheck, Report, checks, run, run_check, verify
from reconciler.model.errors import ConfigError, InternalError, NamespaceAlreadyExistsError
from reconciler.model.names import Identifier, join
from tests.catalogs.kit import one_of_each_operation
from tests.cli.running import lancens


def _foreign_in_memory(backend: Backend, identifier: Identifier) -> Callable[[], None]:
    assert isinstance(backend, MemoryBackend)
    backend.add_foreign(identifier)
    return partial(backend.remove_foreign, identifier)


def _foreign_in_directory(backend: Backend, identifier: Identifier) -> Callable[[], None]:
    manifest = DirManifest(StoredLocations(backend.config.identity()), {})
    manifest.update(lambda contents: (contents.put(Row(join(identifier), "view")), None))
    return lambda: manifest.update(lambda contents: (contents.without(join(identifier)), None))


@pytest.mark.parametrize("check", checks(), ids=str)
def test_memory(check: ConformanceCheck, tmp_path: Path) -> None:
    connect = partial(registry.connect, "memory", {"name": uuid.uuid4().hex})
    verify(check, connect, scratch=str(tmp_path), add_foreign=_foreign_in_memory)


@pytest.mark.parametrize("check", checks(), ids=str)
def test_directory(check: ConformanceCheck, tmp_path: Path) -> None:
    connect = partial(registry.connect, "dir", {"root": str(tmp_path / "lake")})
    verify(check, connect, scratch=str(tmp_path), add_foreign=_foreign_in_directory)


@pytest.mark.soak
@pytest.mark.parametrize("check", one_of_each_operation(), ids=str)
def test_directory_below_an_existing_namespace(check: ConformanceCheck, tmp_path: Path) -> None:
    connect = partial(registry.connect, "dir", {"root": str(tmp_path / "lake")})
    connect().insert_namespace(("there",), {})
    verify(check, connect, namespace=("there",), scratch=str(tmp_path))
    assert connect().child_namespaces(("there",)) == []


def test_a_fault_is_found_and_reported(tmp_path: Path) -> None:
    class Forgetful(MemoryBackend):
        def insert_namespace(self, identifier: Identifier, properties: object) -> object:  # type: ignore[override]
            return super().insert_namespace(identifier, {})

    check = next(check for check in checks() if check.name == "namespace_properties_round_trip")
    result = run_check(check, Forgetful(), Forgetful, scratch=str(tmp_path))
    assert result.outcome is CheckOutcome.FAILED
    assert "'owner': None" in result.detail


def test_an_error_of_another_class_is_told_apart(tmp_path: Path) -> None:
    class Vague(MemoryBackend):
        def insert_namespace(self, identifier: Identifier, properties: object) -> object:  # type: ignore[override]
            try:
                return super().insert_namespace(identifier, properties)  # type: ignore[arg-type]
            except NamespaceAlreadyExistsError as error:
                raise InternalError(str(error)) from None

    check = next(check for check in checks() if check.name == "a_second_create_is_refused")
    result = run_check(check, Vague(), Vague, scratch=str(tmp_path))
    assert result.outcome is CheckOutcome.WRONG_ERROR
    report = Report("vague", (result,))
    assert not report.ok
    assert "0 failed, 1 with an error" in report.table()


@pytest.mark.parametrize(("place", "told"), [("s3://bucket/t.lance", ["s3://bucket/t.lance"]), ("/lake/t.lance", [])])
def test_a_bucket_that_is_written_to_is_told(place: str, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryBackend, "default_location", lambda *_: place)
    monkeypatch.setattr("reconciler.conformance.report.checks", tuple)
    warned: list[str] = []
    run("memory", {}, writing=warned.append)
    assert warned == told


def test_the_report_is_a_table_with_counts(tmp_path: Path) -> None:
    seen: list[str] = []
    report = run("dir", {"root": str(tmp_path)}, progress=lambda result: seen.append(result.check.name))
    table = report.table()
    assert report.ok
    assert seen == [check.name for check in checks()]
    assert re.search(r"^  CreateNamespace +ok +A created", table, re.MULTILINE)
    assert table.splitlines()[0] == f"dir: {tmp_path}"
    excluded = report.count(CheckOutcome.NOT_APPLICABLE)
    assert table.endswith(f"{len(seen) - excluded} passed, 0 failed, {excluded} not applicable.")


def test_every_check_says_what_holds() -> None:
    for check in checks():
        assert check.title.endswith("."), check.name
    assert len({check.name for check in checks()}) == len(checks())


def _ended(report: Report, check: str) -> CheckOutcome:
    return next(result.outcome for result in report.results if result.check.name == check)


def test_a_namespace_of_others_is_asked_the_specification_only(tmp_path: Path) -> None:
    starting: list[str] = []
    report = run(
        "lance.namespace.DirectoryNamespace",
        {"root": str(tmp_path / "lake")},
        starting=lambda check: starting.append(check.name),
    )
    assert report.catalog == "lance_namespace: lance.namespace.DirectoryNamespace"
    assert starting == [check.name for check in checks()]
    names = {result.check.name for result in report.results}
    assert not names & {"tables_are_never_dropped", "a_scan_is_what_a_walk_finds", "altering_a_table_merges"}
    assert _ended(report, "pylance_writes_and_reads") is CheckOutcome.PASSED
    assert _ended(report, "real_data_is_registered") is CheckOutcome.PASSED
    assert (
        _ended(report, "a_table_is_renamed_in_place") is CheckOutcome.NOT_APPLICABLE
    )  # "not implemented" is what it says
    assert _ended(report, "listing_a_missing_namespace_is_an_error") is CheckOutcome.FAILED
    namespace = lance_namespace.connect("dir", {"root": str(tmp_path / "lake")})
    assert namespace.list_namespaces(lance_namespace.ListNamespacesRequest(id=[])).namespaces == []


class EntriesOnly(DirectoryNamespace):
    """Describes entries, and says so of metadata."""

    def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
        if request.load_detailed_metadata:
            raise ValueError("load_detailed_metadata=true is not supported")
        return super().describe_table(request)


class EntriesInSilence(DirectoryNamespace):
    """Describes entries, whatever it is asked for."""

    def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
        asked = request.model_copy(update={"load_detailed_metadata": False, "version": None, "tag": None})
        return super().describe_table(asked).model_copy(update={"version": None, "var_schema": None})


@pytest.mark.parametrize("kind", [EntriesOnly, EntriesInSilence])
def test_a_namespace_need_not_load_the_metadata_of_data(tmp_path: Path, kind: type[DirectoryNamespace]) -> None:
    report = run(f"{__name__}.{kind.__name__}", {"root": str(tmp_path / "lake")})
    for check in ("metadata_comes_from_the_dataset", "a_tag_and_a_branch_are_resolved"):
        assert _ended(report, check) is CheckOutcome.NOT_APPLICABLE
    assert _ended(report, "real_data_is_registered") is CheckOutcome.PASSED


def test_our_own_namespace_by_its_class_path_has_no_fault() -> None:
    report = run("reconciler.namespace.impls.memory", {"name": uuid.uuid4().hex})
    assert [result for result in report.results if result.outcome is CheckOutcome.FAILED] == []
    assert report.count(CheckOutcome.PASSED) > 30


@pytest.mark.parametrize(
    ("impl", "config", "namespace", "told"),
    [
        ("lance.namespace.Directory", {}, (), "has no attribute 'Directory'; check `--impl`"),
        ("lance.namespace.RestNamespace", {"uri": "http://127.0.0.1:9"}, (), "the root cannot be listed, so nothing"),
        ("memory", {}, ("missing",), "the namespaces of namespace `missing` cannot be listed"),
        ("memry", {}, (), "unknown impl `memry`; did you mean `memory`"),
    ],
)
def test_a_mistake_in_the_configuration_is_no_failure(
    impl: str, config: dict[str, str], namespace: tuple[str, ...], told: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        run(impl, config, namespace=namespace)


@pytest.mark.parametrize(
    ("impl", "config", "said"),
    [
        ("dir", "rot=/tmp/x", "dir: unknown key `rot`; did you mean `root`?"),
        ("unity", "endpoint=nowhere", "unity: "),
    ],
)
def test_a_wrong_key_of_conformance_is_the_users_to_mend(
    capsys: pytest.CaptureFixture[str], impl: str, config: str, said: str
) -> None:
    ended = lancens(capsys, "conformance", "--impl", impl, "--config", config)
    assert ended.code == 1
    assert ended.err.startswith(said)
    assert "fault of lancens" not in ended.err
