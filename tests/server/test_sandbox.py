"""What clients send to be evaluated: it takes the memory and time of a process of its own, and shows no values."""

from __future__ import annotations

import io
import re
import signal
import struct
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from reconciler import storage
from reconciler.backends.dir import DirBackend
from reconciler.model.errors import InternalError, InvalidInputError, ServiceUnavailableError
from reconciler.server.catalogs import OneCatalog
from reconciler.server.guard import Settings, Tokens
from reconciler.server.sandbox import FUNCTIONS, Sandbox, check_expressions
from tests.planted_modules import imported, plant
from tests.server.client import Api
from tests.servers.lance_rest import served
from tests.servers.process import HUNG_SECONDS
from tests.soak import count, seeded

READER, WRITER = "sandbox-reads-3f8a", "sandbox-writes-3f8a"
SECRET = "cell-secret-77"
COUNT, ADD = "/v1/table/t/count_rows", "/v1/table/t/add_columns"
SLOW = f"greatest({', '.join(['sqrt(id)'] * 2000)}) > 3"
LARGE = f"length(concat({', '.join(['s'] * 60_000)})) > 3"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    rows = pa.table({"id": range(100), "s": [f"{SECRET}-{number:0500}" for number in range(100)]})
    lance.write_dataset(rows, root / "t.lance")
    lance.write_dataset(pa.table({"id": range(3_000_000)}), root / "long.lance")
    return root


@pytest.fixture(scope="module")
def api(lake: Path) -> Iterator[Api]:
    """Calls of a server that is patient: on a busy machine, a process of the sandbox starts slowly."""
    patient = Settings(timeout_seconds=HUNG_SECONDS, workers=16)
    with served(OneCatalog(DirBackend(root=str(lake))), patient) as address, closing(Api(address)) as client:
        yield client


@pytest.fixture
def hurried(lake: Path) -> Iterator[str]:
    """The address of a server that stops a call after a few seconds."""
    with served(OneCatalog(DirBackend(root=str(lake))), Settings(timeout_seconds=8, workers=4)) as address:
        with closing(Api(address)) as first:
            assert counts_again(first)
        yield address


def counts_again(api: Api) -> bool:
    """Return whether a condition is evaluated, once a process of the sandbox has started in time."""
    return any(api("POST", COUNT, {"predicate": "id > 97"}).json == 2 for _ in range(20))


def ipc(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_conditions_and_columns_by_sql_work(api: Api) -> None:
    assert api("POST", COUNT, {}).json == 100
    assert api("POST", COUNT, {"predicate": "id >= 90 and (length(s) > 3 or s like 'x(%')"}).json == 10
    added = api("POST", ADD, {"new_columns": [{"name": "twice", "expression": "cast(id * (2) as int)"}]})
    assert added.json == {"version": 2}


def test_a_condition_that_takes_all_memory_is_refused_and_the_server_goes_on(api: Api) -> None:
    refused = api("POST", COUNT, {"predicate": LARGE})
    assert refused.error == (400, 13)
    assert "MiB of memory" in refused.json["error"]
    assert api("POST", COUNT, {"predicate": "id > 97"}).json == 2


def test_slow_conditions_end_and_leave_room_for_others(hurried: str) -> None:
    def ask(_: int) -> int:
        with closing(Api(hurried)) as client:
            return client("POST", "/v1/table/long/count_rows", {"predicate": SLOW}).status

    with ThreadPoolExecutor(12) as pool, closing(Api(hurried)) as api:
        asked = pool.map(ask, range(12))
        for _ in range(20):
            assert "long" in api("GET", "/v1/namespace/%24/table/list").json["tables"]
        assert Counter(asked) == {503: 12}
        assert counts_again(api)


@pytest.mark.parametrize("predicate", ["cast(s as int) > 3", "arrow_cast(s, 'Int64') > 3", "1 / (id - id) > 3"])
def test_an_error_shows_no_value_of_a_row(api: Api, predicate: str) -> None:
    refused = api("POST", COUNT, {"predicate": predicate})
    assert refused.error == (400, 13)
    assert SECRET not in str(refused.json)


@pytest.mark.parametrize(
    "expression",
    [
        "cast(s as int)",
        "1 / (id - id)",
        "cast(id + 77000 as decimal(4, 0))",
        "arrow_cast(arrow_cast(id + 77000000000, 'Timestamp(Second, None)'), 'Timestamp(Nanosecond, None)')",
    ],
)
def test_nor_does_one_of_a_new_column(api: Api, expression: str) -> None:
    refused = api("POST", ADD, {"new_columns": [{"name": "new", "expression": expression}]})
    assert refused.error == (400, 13)
    assert SECRET not in str(refused.json)
    assert "77000" not in str(refused.json)


def test_an_error_says_what_is_wrong_with_the_condition_itself(api: Api) -> None:
    assert "No field named nope" in api("POST", COUNT, {"predicate": "nope > 3"}).json["error"]


@pytest.mark.parametrize(
    "expression", ["ltrim(1e308, id)", "bit_length(ltrim(s, s, s)) > 3", "regexp_like(id, 'x')", "btrim(id, null)"]
)
def test_arguments_that_no_function_has_are_the_clients_fault(api: Api, expression: str) -> None:
    refused = api("POST", ADD, {"new_columns": [{"name": "new", "expression": expression}]})
    assert refused.error == (400, 13)
    assert "failed to match any signature" in refused.json["error"]
    assert "a bug in" not in refused.json["error"]


def test_data_that_leads_out_of_itself_is_refused(api: Api) -> None:
    """The bytes behind it, of the server's process, were written as the row's."""
    sink = io.BytesIO()
    rows = pa.table({"b": [b"1234567", b"123456"]})
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    data = sink.getvalue().replace(struct.pack("<3i", 0, 7, 13), struct.pack("<3i", 0, 7, 200_000))
    assert api("POST", "/v1/table/beyond/create", data=data).error == (400, 13)


def test_data_that_unpacks_to_more_than_there_may_be_is_refused(api: Api, lake: Path) -> None:
    zeros = pa.Array.from_buffers(pa.int64(), 200_000_000, [None, pa.py_buffer(bytes(1_600_000_000))])
    refused = api("POST", "/v1/table/bomb/create", data=ipc(pa.table({"zeros": zeros})))
    assert refused.error == (400, 13)
    nothing = pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])
    assert api("POST", "/v1/table/rows/create", data=ipc(pa.table({"nothing": nothing}))).error == (400, 13)
    assert sorted(api("GET", "/v1/namespace/%24/table/list").json["tables"]) == ["long", "t"]
    small = pa.table({"zeros": [0]})
    assert api("POST", "/v1/table/bomb/create", data=ipc(small)).json["location"] == str(lake / "bomb.lance")
    assert api("POST", "/v1/table/bomb/count_rows", {}).json == 1


def test_a_dataset_that_a_link_leads_out_of_the_root_to_is_not_there(api: Api, lake: Path, tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": range(5)}), tmp_path / "other.lance")
    (lake / "link.lance").symlink_to(tmp_path / "other.lance")
    try:
        assert "link" not in api("GET", "/v1/namespace/%24/table/list").json["tables"]
        assert api("POST", "/v1/table/link/count_rows", {}).status in (403, 404)
        assert api("POST", "/v1/table/link/stats", {}).status in (403, 404)
    finally:
        (lake / "link.lance").unlink()


@pytest.mark.parametrize(
    "expression",
    [
        "repeat(s, 3)",
        "RePeat (s, 3)",
        '"repeat"(s, 3)',
        "`repeat`(s, 3)",
        "repeat/**/(s, 3)",
        "repeat--\n(s, 3)",
        r"E'\'' || repeat(s, 9) || ''",
        r"s = 'a\' || repeat(s, 3) || '",
        "$$ ( $$",
        "s = 'open",
        "x'00'",
        "lower(lpad(s, 99))",
        "(select(1)) = 1",
        "id in (1, sleep(3))",
    ],
)
def test_other_functions_are_refused_however_they_are_written(expression: str) -> None:
    with pytest.raises(InvalidInputError):
        check_expressions([expression])


@pytest.mark.parametrize(
    "expression",
    [
        "s = 'it''s (so)'",
        "`a(b` > 3",
        "id - -1 > 0",
        "case when (id > 1) then (2) end = 2",
        "ts > timestamp '2020-01-01'",
    ],
)
def test_what_only_looks_like_a_call_is_not_one(expression: str) -> None:
    check_expressions([expression, *(f"{name}(id)" for name in FUNCTIONS)])


def test_the_page_names_the_functions() -> None:
    page = (Path(__file__).parents[2] / "docs/serve.md").read_text("utf-8")
    listed = page.partition("may call these functions: ")[2].partition(". Errors")[0]
    assert set(re.findall("`([a-z_]+)`", listed)) == FUNCTIONS


@pytest.mark.soak
def test_hostile_expressions_and_bodies_leave_the_server_as_it_was(lake: Path) -> None:
    """Whatever is sent: each list is answered within its time-out, and the memory stays."""
    random = seeded("hostile expressions")
    calls = [*sorted(FUNCTIONS), "repeat", "lpad", "replace", "sleep", "range"]
    leaves = ["id", "s", "'x'", "1e308", "null", "'\\'", '"id"', "(", ")", "--", "/*", "$$", "id::int"]

    def expression(depth: int) -> str:
        if depth == 0 or random.random() < 0.2:
            return random.choice(leaves)
        given = ", ".join(expression(depth - 1) for _ in range(random.choice((1, 2, 3, 50))))
        return f"{random.choice(calls)}({given})"

    tokens = Tokens(read_only=[READER], read_write=[WRITER])
    settings = Settings(timeout_seconds=8, workers=16, tokens=tokens)
    statuses = Counter[int]()
    with (
        served(OneCatalog(DirBackend(root=str(lake))), settings) as url,
        closing(Api(url, READER)) as reader,
        closing(Api(url, WRITER)) as writer,
    ):
        assert counts_again(reader)
        before = resident()
        for number in range(count(40, 3_000)):
            text = f"{expression(random.choice((1, 2, 2, 3)))} {random.choice(('> 3', '= 1', 'is null', ''))}"
            statuses[reader("POST", COUNT, {"predicate": text}).status] += 1
            if number % 50 == 0:
                column = {"name": f"c{number}", "expression": text}
                assert reader("POST", ADD, {"new_columns": [column]}).error == (403, 15)
                statuses[writer("POST", ADD, {"new_columns": [column]}).status] += 1
                body = ipc(pa.table({"a": pa.Array.from_buffers(pa.int8(), 10**9, [None, pa.py_buffer(bytes(10**9))])}))
                sent = body[: random.choice((len(body), 500))]
                statuses[writer("POST", f"/v1/table/b{number}/create", data=sent).status] += 1
                began = time.monotonic()
                assert "long" in reader("GET", "/v1/namespace/%24/table/list").json["tables"]
                assert time.monotonic() - began < settings.timeout_seconds
    assert set(statuses) <= {200, 400, 503}, statuses
    assert resident() < before + 300 * 1024


def resident() -> int:
    """Return the KiB of memory of this process, which the server is a thread of."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def test_a_process_that_was_killed_is_replaced(lake: Path) -> None:
    sandbox = Sandbox(1, 20)
    place = str(lake / "long.lance")
    assert sandbox.run(storage.count_rows, place, {}, None, None, "id > 5") == 2_999_994
    with pytest.raises(ServiceUnavailableError):
        Sandbox(1, 0.01).run(storage.count_rows, place, {}, None, None, SLOW)
    assert sandbox.run(storage.count_rows, place, {}, None, None, None) == 3_000_000


def test_a_process_that_another_call_takes_first_is_not_waited_for(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Contended(deque[object]):
        def __bool__(self) -> bool:
            return True  # as it was, a moment ago

    sandbox = Sandbox(1, 20)
    monkeypatch.setattr(sandbox, "_idle", Contended())
    assert sandbox.run(storage.count_rows, str(lake / "t.lance"), {}, None, None, None) == 100


def test_a_process_imports_nothing_from_the_working_directory_and_gets_named_variables_only(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    log = plant(folder)
    monkeypatch.chdir(folder)
    for name, value in {
        "PYTHONPATH": str(folder),
        "PYTHONHOME": "",
        "SERVE_TOKEN": SECRET,
        "AWS_REGION": "xx-1",
    }.items():
        monkeypatch.setenv(name, value)
    sandbox = Sandbox(1, HUNG_SECONDS)
    assert sandbox.run(storage.count_rows, str(lake / "t.lance"), {}, None, None, "id >= 90") == 10
    assert imported(log) == []
    (process,) = sandbox._idle
    environment = Path(f"/proc/{process._running.pid}/environ").read_bytes().decode().split("\0")
    assert "AWS_REGION=xx-1" in environment
    assert not [line for line in environment if SECRET in line or line.startswith("PYTHON")]


@pytest.mark.parametrize(("end", "said"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGTERM, "SIGTERM")])
def test_an_ended_process_is_not_reported_as_one_without_memory(lake: Path, end: signal.Signals, said: str) -> None:
    sandbox = Sandbox(1, HUNG_SECONDS)
    asked: tuple[object, ...] = (str(lake / "t.lance"), {}, None, None, None)
    assert sandbox.run(storage.count_rows, *asked) == 100
    sandbox._idle[0]._running.send_signal(end)
    with pytest.raises(InternalError, match=said):
        sandbox.run(storage.count_rows, *asked)
    assert sandbox.run(storage.count_rows, *asked) == 100
