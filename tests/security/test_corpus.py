"""Ten thousand malformed inputs under `make soak`, five hundred otherwise: an answer to each, and to none a traceback.

Each kind prints its seed; `LANCENS_SEED` runs the same again. Requests to `lancens serve` have their own ten thousand,
in `tests/server/test_malformed.py`.
"""

from __future__ import annotations

import json
import random
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from reconciler.backends.dir import DirBackend
from tests.cli.running import Ran, lancens
from tests.security.corpus import mutated, mutated_json
from tests.security.hostile import assert_harmless
from tests.security.metastore import spoiled_metastore
from tests.servers.listening import http_server
from tests.soak import count, seeded

pytestmark = pytest.mark.soak

_LONGEST_SECONDS = 10.0
_MOST_KILOBYTES = 1024 * 1024
_ENOUGH = 100
"""From how many inputs on some are harmless, however the dice fall."""

MANIFEST = b"""version: 1
name: feature-store
include: [teams/*.yaml]
schemas: {user: [{name: id, type: int64, nullable: false}, {name: embedding, type: "fixed_size_list<float32>[768]"}]}
catalogs:
  lake:
    impl: dir
    config: {root: ./lake, storage.region: "${env:REGION:-eu}"}
    prune: owned
    moved: [{from: features/users, to: features/customers}]
    namespaces:
      features:
        properties: {owner: ml-platform}
        tables:
          customers: {schema: user, protect: true}
          events: {properties: {tier: gold}, location: features/events.lance}
        namespaces: {eu: {tables: {old: {absent: true}}}}
  other: {impl: memory, scope: ["a/**"], namespaces: {a: {tables: {t: {properties: {0123: no}}}}}}
"""


class Watch:
    """Runs commands on inputs, and keeps each to the rules."""

    def __init__(self, capsys: pytest.CaptureFixture[str], kind: str) -> None:
        self._capsys = capsys
        self.kind = kind
        with capsys.disabled():
            self.dice: random.Random = seeded(f"\nmalformed {kind}")
        self.codes: dict[int, int] = {}

    def run(self, number: int, what: object, *arguments: str | Path) -> Ran:
        began = time.process_time()
        ran = lancens(self._capsys, *arguments)
        worked = time.process_time() - began
        case = f"{self.kind} {number}: {arguments}: {str(what)[:2000]}"
        said = f"{ran.out}\n{ran.err}"
        assert "Traceback" not in said and "fault of lancens" not in said, f"{case}\n{ran.err[:2000]}"  # noqa: PT018
        assert_harmless(ran.out)
        assert_harmless(ran.err)
        assert ran.code in (0, 1, 2, 3), f"{case}\n{ran.code}"
        # Of work, which is the same on a busy machine; what waits for ever meets pytest's own limit of a test.
        assert worked < _LONGEST_SECONDS, f"{case}\n{worked:.1f} s of work"
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < _MOST_KILOBYTES, case
        self.codes[ran.code] = self.codes.get(ran.code, 0) + 1
        return ran

    def tell(self) -> None:
        """Say how the inputs were answered; some were not sound."""
        with self._capsys.disabled():
            print(f"{self.kind}: exit codes {dict(sorted(self.codes.items()))}")
        assert self.codes.get(1)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


def test_manifests(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(capsys, "manifests")
    (here / "teams").mkdir()
    (here / "teams/ads.yaml").write_bytes(b"catalogs: {lake: {namespaces: {ads: {tables: {clicks: {}}}}}}\n")
    Path("lancens.yaml").write_bytes(MANIFEST)
    assert lancens(capsys, "validate").code == 0
    for number in range(count(150, 3000)):
        text = mutated(watch.dice, MANIFEST)
        Path("lancens.yaml").write_bytes(text)
        watch.run(number, text, "validate")
    watch.tell()


def _saved_plan(capsys: pytest.CaptureFixture[str]) -> bytes:
    lake = DirBackend(root="lake")
    lake.insert_namespace(("a",), {"owner": "me"})
    lake.insert_table(("a", "t"), "lake/t", {"lancens.managed-by": "store/lake", "tier": "silver"})
    lake.insert_table(("a", "gone"), "lake/gone", {"lancens.managed-by": "store/lake"})
    Path("lancens.yaml").write_text(
        "version: 1\nname: store\nsafety: {min_tables: 100}\ncatalogs: {lake: {impl: dir, config: {root: ./lake}, "
        "namespaces: {a: {tables: {t: {properties: {tier: gold}}, n: {schema: [{name: id, type: int64}]}}}}}}\n"
    )
    assert lancens(capsys, "plan", "-o", "plan.json").code == 0
    return Path("plan.json").read_bytes()


def test_plans(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(capsys, "plans")
    sound = _saved_plan(capsys)
    document = json.loads(sound)
    for number in range(count(75, 1500)):
        text = json.dumps(mutated_json(watch.dice, document)).encode() if number % 3 else mutated(watch.dice, sound)
        Path("plan.json").write_bytes(text)
        command = watch.dice.choice([["show"], ["show", "--format", "markdown"], ["apply", "--auto-approve"]])
        if command[0] == "apply" and text == sound:
            continue
        watch.run(number, text, *command, "plan.json")
    watch.tell()


def test_journals(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(capsys, "journals")
    _saved_plan(capsys)
    assert lancens(capsys, "apply", "plan.json", "--auto-approve").code == 0
    (journal,) = Path(".lancens").glob("*.jsonl")
    sound = journal.read_bytes()
    lines = [json.loads(line) for line in sound.splitlines()]
    for number in range(count(75, 1500)):
        if number % 3:
            changed = mutated_json(watch.dice, lines)
            changed = changed if isinstance(changed, list) else [changed]
            text = b"".join(json.dumps(line).encode() + b"\n" for line in changed)
        else:
            text = mutated(watch.dice, sound)
        Path("run.jsonl").write_bytes(text)
        watch.run(number, text, "show", "run.jsonl")
    watch.tell()


# ---- answers of services ---------------------------------------------------------------------------------------------

Say = Callable[[str, str, dict[str, str], bytes], Any]


@contextmanager
def _spoiled(sound: Say, watch: Watch) -> Iterator[tuple[str, list[bytes]]]:
    """Run a server that gives sound answers but for one in three; yields its address and what it last said."""
    said: list[bytes] = []
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            value = sound(self.command, self.path, dict(self.headers.items()), body)
            with lock:
                dice = watch.dice
                status = dice.choice([200] * 16 + [201, 204, 302, 400, 401, 403, 404, 409, 500, 600])
                if len(said) > 500 or dice.randrange(8):
                    status, content = 200, json.dumps(value).encode()
                elif dice.randrange(2):
                    content = json.dumps(mutated_json(dice, value)).encode()
                else:
                    content = mutated(dice, json.dumps(value).encode())
                said.append(content)
                length = dice.choice([len(content)] * 80 + [len(content) + 5])
            with suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Type", watch.dice.choice(["application/json"] * 5 + ["text/html", ""]))
                self.send_header("Content-Length", str(length))
                if length != len(content):
                    self.send_header("Connection", "close")
                    self.close_connection = True
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_POST = do_HEAD = do_DELETE = do_PUT = do_PATCH = _answer  # noqa: N815 - http.server's names

    with http_server(Handler) as url:
        yield url, said


def _rest(_method: str, target: str, _headers: dict[str, str], _body: bytes) -> Any:
    if "/table/list" in target:
        return {"tables": ["t", "u"], "page_token": None}
    if target.partition("?")[0].endswith("/list"):
        return {"namespaces": ["a", "b"] if "%24/list" in target else []}
    if "ListOperations" in target:
        return {"operations": ["AlterTable"]}
    return {"location": "s3://lake/t", "properties": {"tier": "gold"}}


def _unity(_method: str, target: str, _headers: dict[str, str], _body: bytes) -> Any:
    table = {
        "name": "t",
        "catalog_name": "main",
        "schema_name": "a",
        "table_type": "EXTERNAL",
        "data_source_format": "TEXT",
        "storage_location": "s3://lake/t",
        "properties": {"table_type": "lance"},
        "columns": [{"name": "id", "type_name": "LONG", "type_text": "bigint", "type_json": "{}", "position": 0}],
    }
    if "/tables?" in target:
        return {"tables": [table], "next_page_token": None}
    if "/schemas?" in target:
        return {"schemas": [{"name": "a", "catalog_name": "main", "properties": {"k": "v"}}], "next_page_token": ""}
    if "/catalogs?" in target:
        return {"catalogs": [{"name": "main"}]}
    return {**table, "name": "main"}


def _iceberg(_method: str, target: str, _headers: dict[str, str], _body: bytes) -> Any:
    if "/config" in target:
        return {"defaults": {}, "overrides": {"prefix": "p"}}
    if "/tables/" in target:
        metadata = {"location": "s3://lake/t", "properties": {"table_type": "lance"}, "format-version": 2}
        return {"metadata-location": "s3://lake/t/m.json", "metadata": metadata, "config": {}}
    if "/tables" in target:
        return {"identifiers": [{"namespace": ["a"], "name": "t"}], "next-page-token": None}
    if "/namespaces?" in target:
        return {"namespaces": [] if "parent" in target else [["a"]], "next-page-token": None}
    return {"namespace": ["a"], "properties": {"owner": "me"}}


def _glue(_method: str, _target: str, headers: dict[str, str], _body: bytes) -> Any:
    table = {
        "Name": "t",
        "DatabaseName": "a",
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {"table_type": "lance"},
        "StorageDescriptor": {"Location": "s3://lake/t", "Columns": [{"Name": "id", "Type": "bigint"}]},
    }
    operation = {key.lower(): value for key, value in headers.items()}.get("x-amz-target", "").rpartition(".")[2]
    answers: dict[str, Any] = {
        "GetDatabases": {"DatabaseList": [{"Name": "a", "CatalogId": "123456789012", "Parameters": {}}]},
        "GetTables": {"TableList": [table]},
        "GetTable": {"Table": table},
        "GetCatalogs": {"CatalogList": [{"Name": "c", "CatalogId": "123456789012:c", "Parameters": {}}]},
    }
    return answers.get(operation, {"Database": {"Name": "a", "CatalogId": "123456789012"}})


@pytest.mark.parametrize(
    ("impl", "sound", "key", "more"),
    [
        ("rest", _rest, "uri", ["max_retries=0", "read_timeout=3"]),
        ("unity", _unity, "endpoint", ["catalog=main", "max_retries=0", "read_timeout=3"]),
        ("iceberg", _iceberg, "endpoint", ["warehouses=w", "max_retries=0", "read_timeout=3000"]),
        (
            "glue",
            _glue,
            "endpoint",
            ["region=us-east-1", "access_key_id=AKIAEXAMPLE", "secret_access_key=example"],
        ),
    ],
)
def test_answers_over_http(
    impl: str, sound: Say, key: str, more: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = Watch(capsys, f"answers of {impl}")
    options = [part for pair in more for part in ("--config", pair)]
    with _spoiled(sound, watch) as (url, said):
        for number in range(count(40, 800)):
            said.clear()
            watch.run(number, said, "import", "--impl", impl, "--config", f"{key}={url}", *options)
    watch.tell()


@pytest.mark.parametrize("impl", ["hive2", "hive3"])
def test_answers_over_thrift(impl: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(capsys, f"answers of {impl}")
    inputs = count(20, 400)
    with spoiled_metastore(watch.dice) as (port, said):
        for number in range(inputs):
            said.clear()
            uri = f"uri=thrift://127.0.0.1:{port}"
            watch.run(number, said, "import", "--impl", impl, "--config", uri, "--config", "client.timeout=2")
    watch.tell()
    assert inputs < _ENOUGH or watch.codes.get(0), "each answer is refused before anybody looks into it"
