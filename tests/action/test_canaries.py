"""Secrets in every place that a workflow has for them: none is in what the Action prints, writes or sends to GitHub."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.backends.dir import DirBackend
from reconciler.server.catalogs import OneCatalog
from tests.action.step import MERGE, Step, Workspace
from tests.security.canary import Canaries
from tests.servers.github_api import TOKEN, GitHubApi
from tests.servers.lance_rest import served
from tests.servers.scripted import Request, Scripted, scripted

MANIFEST = """\
version: 1
name: store
catalogs:
  lake:
    impl: rest
    config:
      uri: {uri}
      root: {root}
      max_retries: 0
      auth_token: "${{env:CATALOG_LOGIN}}"
      headers.x-key: "${{env:CATALOG_HEADER}}"
      storage.aws_secret_access_key: "${{env:STORAGE_SECRET}}"
      storage.aws_session_token: "${{file:secrets/storage}}"
      storage.proxy_url: "{proxy}"
    namespaces:
      a:
        tables:
          users:
            schema: [{{name: id, type: int64}}]
            properties:
              note: "${{env:NOTE}}"
              remark: "x ${{file:secrets/remark}}"
              region: "${{var:region}}"
              api_token: "{plain}"
"""
LISTED = "CATALOG_LOGIN\nCATALOG_HEADER\nSTORAGE_SECRET\nNOTE"


@pytest.fixture
def canaries(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Canaries:
    made = Canaries()
    made.known("token of the workflow", TOKEN)
    environment = {
        "CATALOG_LOGIN": made.new("login", "lo-{}=="),
        "CATALOG_HEADER": made.new("header", "he{}&x"),
        "STORAGE_SECRET": made.new("storage option", "st/{}+=?"),
        "NOTE": made.new("property from env", 'pr {}&é"'),
        "DB_PASSWORD": made.new("variable that nobody listed"),
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": made.new("token of the runner"),
        "HTTPS_PROXY": made.new("user information of a proxy", "http://me:{}@127.0.0.1:9"),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    workspace.environment |= environment
    (workspace.path / "secrets").mkdir()
    for name in ("storage", "remark", "bystander"):
        (workspace.path / "secrets" / name).write_text(made.new(f"file {name}", "fi:{}%") + "\n")
    return made


@pytest.fixture
def catalog(tmp_path: Path, canaries: Canaries) -> Iterator[str]:
    backend = DirBackend(root=str(tmp_path / "lake"))
    backend.insert_namespace(("a",), {"db_password": canaries.new("live property of a namespace")})
    theirs = {"source": canaries.new("live value that looks like one", "http://me:{}@db/x"), "pwd": canaries.new("pwd")}
    backend.insert_table(("a", "theirs"), str(tmp_path / "lake/theirs.lance"), theirs)
    with served(OneCatalog(backend)) as url:
        yield url


@pytest.fixture
def broken() -> Iterator[Scripted]:
    """A service that says back all it was told."""

    def echo(request: Request) -> tuple[int, object]:
        said = f"{request.method} {request.path}?{request.query} {request.headers} {request.body}"
        return 400, {"error": said, "code": 13, "detail": said}

    with scripted(echo) as server:
        yield server


def test_no_secret_is_in_what_the_action_lets_out(
    workspace: Workspace, api: GitHubApi, canaries: Canaries, catalog: str, broken: Scripted, tmp_path: Path
) -> None:
    proxy = canaries.new("user information in config", "http://me:{}@127.0.0.1:9")
    plain = canaries.new("property in the manifest", "ap{}")

    def write(uri: str) -> None:
        workspace.write(MANIFEST.format(uri=uri, root=tmp_path / "lake", proxy=proxy, plain=plain))
        api.files["lancens.yaml"] = (workspace.path / "lancens.yaml").read_bytes()

    def check(step: Step, *codes: int) -> Step:
        shown = "\n".join(line for line in step.log.splitlines() if not line.startswith("::add-mask::"))
        said = [shown, step.summary, str(step.outputs), *(comment["body"] for comment in api.comments)]
        said += [str(issue) for issue in api.issues]
        assert canaries.in_text("\n".join(said)) == set(), said
        assert step.code in codes, step.log
        for place in (Path(step.outputs["folder"]), workspace.path / ".lancens"):
            assert canaries.in_files(place, []) == {}
        return step

    def run(made: Callable[..., Step], *codes: int, **inputs: str) -> Step:
        return check(made(environment=LISTED, variables="region=eu", **inputs), *codes)

    write(catalog)
    planned = run(workspace.pull_request, 0)
    assert planned.outputs["to-create"] == "1", planned.summary
    api.merge(7, MERGE)
    assert run(workspace.push, 0, command="apply").outputs["has-changes"] == "true"
    (workspace.path / "secrets/remark").write_text(canaries.new("changed file", "fi{}"))
    run(workspace.push, 0, command="drift")
    run(workspace.push, 0, 1, command="audit")
    write(broken.url)
    for command in ("plan", "apply", "drift", "audit"):
        run(workspace.push, 1, command=command)
        api.comments.clear()
    assert broken.requests
    write("ftp://${env:CATALOG_LOGIN}")
    run(workspace.push, 1, command="plan")
    shutil.rmtree(workspace.path / "secrets")
    run(workspace.push, 1, command="plan")
