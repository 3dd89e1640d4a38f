"""Secrets in every place that there is, and every command on every catalog: found nowhere but where they have to go.

A sample of the catalogs and no Spark in `make test`, all of them under `make soak`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.security.in_memory import in_memory
from tests.security.tour import LAKE, Tour, touring
from tests.server.client import Api
from tests.server.command import started
from tests.servers.scripted import Request, scripted
from tests.torture.targets.servers import SERVERS

pytestmark = pytest.mark.soak

_FULL = bool(os.environ.get("LANCENS_SOAK"))
_CATALOGS = {**SERVERS, "memory": in_memory}
_SAMPLE = ["dir", "serve", "glue"]
_FORMS = ("text", "json", "markdown", "html")
"""A sample writes the last two on a directory only: they say what the JSON says, whatever the catalog."""

_DATA = {"property": True, "live": False}
"""What is said of objects goes to the catalog that has them."""
_GOES: Mapping[str, Mapping[str, bool]] = {
    "dir": {},
    "dir-s3": {"storage option from a file": True, "live": False, "property": False},
    # The secret key signs, and goes nowhere.
    "glue": {"session token in config": True, **_DATA},
    "serve": {"login of the server": True, "header from env": True, **_DATA},
    "iceberg": {"login of the server": True, **_DATA},
    "nessie": {"login from env": True, **_DATA},
    "unity": {"login from env": True, **_DATA},
    "hive-3.1": _DATA,
    "hive-4.1": _DATA,
    "memory": {},
}


@pytest.fixture(params=list(_CATALOGS) if _FULL else _SAMPLE)
def catalog(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tour(catalog: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Tour]:
    (tmp_path / "server").mkdir()
    with _CATALOGS[catalog](tmp_path / "server") as target, touring(target, tmp_path / "home", capsys) as made:
        yield made


def test_no_secret_is_found_anywhere(catalog: str, tour: Tour) -> None:
    forms = _FORMS if _FULL or catalog == "dir" else _FORMS[:2]
    tour.write("users", "events")
    _plan(tour, forms)
    _apply(tour, forms)
    _import(tour)
    _serve(tour)
    _fail(tour)
    if _FULL and catalog != "memory":  # which ends with its process
        _spark(tour)
    _leave(tour)
    tour.check_files()
    tour.check_sent(_GOES[catalog])
    assert tour.other.load_namespace(("copies",)).properties["tier"] == "gold"
    (copy,) = (table for table in tour.other.scan().tables.values() if table.id[-1] == "users")
    assert not {"note", "remark", "api_token"} & set(copy.properties)


def _plan(tour: Tour, forms: Sequence[str]) -> None:
    for command in (["validate"], ["init"], ["schema", "manifest"], ["completion", "bash"]):
        tour.run(*command, codes=(0, 1, 2))
    tour.run("doctor", codes=(0, 1))
    tour.run("doctor", "--format", "json", *tour.arguments(), codes=(0, 1))
    # A copy waits where its original gets its location only when it is made.
    tour.run("--debug", "plan", "-o", "plan.json", codes=(0, 3))
    for form in forms:
        (tour.folder / f"plan.{form}").write_text(tour.run("plan", "--full", "--format", form, codes=(0, 3)).out)
        tour.run("show", "plan.json", "--full", "--format", form)
    tour.run("drift", codes=(2, 3))


def _apply(tour: Tour, forms: Sequence[str]) -> None:
    """Make it, change every secret and remove a table, and bring back what was removed."""
    tour.run("--debug", "apply", "--auto-approve", "--skip-blocked", codes=(0, 3))
    tour.run("plan", "--detailed-exitcode", codes=(0, 2, 3))
    tour.environment["CANARY_NOTE"] = tour.canaries.new("property from env, changed", "pr {}&")
    (tour.folder / "secrets/remark").write_text(tour.canaries.new("property from a file, changed", "re{}"))
    tour.canaries.new("property in the manifest, changed", "ap{}")
    tour.canaries.values["property in the manifest"] = tour.canaries.values["property in the manifest, changed"]
    tour.write("users")
    for form in forms:
        tour.run("plan", "--full", "--format", form, "-o", "changed.json", codes=(0, 3))
    tour.run("apply", "changed.json", "--auto-approve", "--skip-blocked", codes=(0, 3))
    runs = [path.stem for path in (tour.folder / ".lancens").glob("*.jsonl")]
    assert len(runs) == 2
    tour.run("runs")
    for run in runs:
        tour.run("show", run)
        tour.run("show", run, "--manifest", codes=(0, 1))


def _import(tour: Tour) -> None:
    tour.run("import", "--catalog", LAKE)
    tour.run("import", "--catalog", LAKE, "-o", "imported.yml")
    tour.run("import", "--catalog", LAKE, "--unmanaged", "--with-schema", codes=(0, 1))
    tour.run("import", "--catalog", LAKE, "--from-storage", codes=(0, 1))
    tour.run("import", *tour.arguments(), "-o", "adhoc.yml")
    (tour.folder / "appended.yml").write_text((tour.folder / "imported.yml").read_text())
    tour.run("import", "--catalog", LAKE, "--append", "appended.yml", codes=(0, 1))


def _serve(tour: Tour) -> None:
    token = ["--read-token-file", "secrets/serve"]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in tour.environment.items():
            patch.setenv(name, value)
        with started("lancens.yaml", *token, folder=tour.folder) as (_, url):
            _ask(tour, url, [LAKE, *tour.target.identifier(tour.room, ("a",))])
        with started(*tour.arguments(), *token, folder=tour.folder) as (_, url):
            _ask(tour, url, list(tour.target.identifier(tour.room, ("a",))))


def _ask(tour: Tour, url: str, space: list[str]) -> None:
    for token in (tour.canaries.values["token of serve"], tour.canaries.values["login from env"], None):
        api = Api(url, token)
        for path, body in (
            ("/ListNamespaces", {"id": space[:-1]}),
            ("/DescribeNamespace", {"id": space}),
            ("/ListTables", {"id": space}),
            ("/DescribeTable", {"id": [*space, "users"], "load_detailed_metadata": True}),
            ("/DescribeTable", {"id": [*space, "theirs"]}),
            ("/DropTable", {"id": [*space, "users"]}),
        ):
            answer = api("POST", path, body)
            tour.check(f"{answer.headers}\n{answer.text}")
        for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/nothing"):
            tour.check(api("GET", path).text)
        api.close()


def _fail(tour: Tour) -> None:
    """Services that say back what they were told, with every status that has an error of its own."""
    key = next((key for key in ("uri", "endpoint", "storage.aws_endpoint") if key in tour.config), None)
    if key is None or tour.target.speaks == "thrift":
        return
    # boto3 tries again, and again later, after every other status than these.
    statuses = iter((400, 401, 403, 404, 409) if tour.target.impl != "glue" else ())
    otherwise = 500 if tour.target.impl != "glue" else 400

    def echo(request: Request) -> tuple[int, Any]:
        said = f"{request.method} {request.path}?{request.query} {request.headers} {request.body}"
        error = {"message": said, "type": said, "code": 500}
        return next(statuses, otherwise), {"message": said, "error": error, "details": [said]}

    once = "max_retries" if tour.target.impl in ("rest", "unity", "iceberg") else "storage.client_max_retries"
    with scripted(echo) as server:
        tour.write("users", name="lancens-echo.yaml", **{key: server.url, once: "0"})
        for _ in range(6):
            tour.run("plan", "lancens-echo.yaml", codes=(1, 3))
        for command in ("plan --engine local", "drift", "doctor", "import", "apply --auto-approve"):
            tour.run("--debug", *command.split(), "lancens-echo.yaml", codes=(1, 3))
        assert server.requests
    tour.write("users")


def _spark(tour: Tour) -> None:
    tour = replace(tour, capsys=None)  # each session a process of its own
    tour.run("plan", "--engine", "spark", codes=(0, 3))
    tour.run("audit", "--out", "report", "--history", "history.lance", codes=(0, 1, 2))
    tour.run("audit", *tour.arguments(), codes=(0, 1, 2))
    for name in ("inventory.lance", "inventory.parquet", "inventory.json"):
        tour.run("inventory", "-o", name, codes=(0, 1))
    tour.run("inventory", codes=(0, 1))
    assert json.loads((tour.folder / "report/audit.json").read_text())["totals"]["tables"]
    assert (tour.folder / "inventory.lance").is_dir()


def _leave(tour: Tour) -> None:
    tour.run("release", f"{LAKE}/**", "--auto-approve", codes=(0, 1))
    if _FULL:
        space = "$".join(tour.target.identifier(tour.room, ("b",)))
        tour.run("conformance", *tour.arguments(), "--namespace", space, codes=(0, 1))
