"""The calls of GitHub's API that the Action makes, answered by a server of our own on 127.0.0.1.

It keeps to what GitHub documents: pages with a ``Link`` header, a limit on the length of a body, one user for each
token, permissions, and errors with a ``message``. Tests put pull requests and comments into it, and can make the next
calls fail.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.servers.listening import http_server

__all__ = ["BASE", "BOT", "REPOSITORY", "TOKEN", "GitHubApi", "github_api"]

REPOSITORY = "acme/tables"
BOT = "github-actions[bot]"
BASE = "e" * 40
"""The commit that every pull request is based on."""
TOKEN = "token-of-the-workflow-tests"

_LONGEST_BODY = 65_536
_LONGEST_TITLE = 256
_LONGEST_DESCRIPTION = 140
_DEFAULT_PAGE, _LARGEST_PAGE = 30, 100


def _blob_name(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _as_in_graphql(status: Mapping[str, Any]) -> Any:
    # GraphQL names a bot without the suffix that REST and `viewer` give it.
    return {**status, "creator": {"login": status["creator"]["login"].removesuffix("[bot]")}}


class _AnswerError(Exception):
    """A request is refused."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


@dataclass
class _Fault:
    method: str
    path: str
    status: int
    headers: Mapping[str, str]
    times: int


@dataclass
class GitHubApi:
    """A running server and all that its one repository holds."""

    url: str = ""
    pulls: dict[int, dict[str, Any]] = field(default_factory=dict)
    comments: list[dict[str, Any]] = field(default_factory=list)
    issues: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    main: list[str] = field(default_factory=list)
    statuses: list[dict[str, Any]] = field(default_factory=list)
    users: dict[str, str] = field(default_factory=lambda: {TOKEN: BOT})
    denied: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    _faults: list[_Fault] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    # ---- what tests put in and look at

    def add_pull(
        self,
        number: int,
        head: str,
        *,
        merge_commit: str | None = None,
        base: str = "main",
        fork: bool = False,
    ) -> dict[str, Any]:
        """Add a pull request, merged where it has a merge commit; return it as the API and events show it."""
        self.pulls[number] = {
            "number": number,
            "state": "open" if merge_commit is None else "closed",
            "merged_at": None if merge_commit is None else "2026-01-01T00:00:00Z",
            "merge_commit_sha": merge_commit,
            "head": {"sha": head, "ref": "change", "repo": {"full_name": "mallory/tables" if fork else REPOSITORY}},
            "base": {"ref": base, "sha": BASE, "repo": {"full_name": REPOSITORY}},
        }
        return self.pulls[number]

    def merge(self, number: int, commit: str) -> None:
        """Merge a pull request; ``commit`` is the merge commit."""
        self.pulls[number].update(state="closed", merged_at="2026-01-01T00:00:00Z", merge_commit_sha=commit)
        self.parents[commit] = (BASE, self.pulls[number]["head"]["sha"])
        self.main.append(commit)

    def add_comment(self, number: int, body: str, login: str = BOT) -> dict[str, Any]:
        """Add a comment by ``login``."""
        with self._lock:
            self._check_body(body)
            there = len(self.comments) + 1
            comment = {
                "id": there,
                "node_id": f"IC_{there}",
                "issue": number,
                "body": body,
                "user": {"login": login},
                "editor": None,
                "html_url": f"https://github.com/{REPOSITORY}/pull/{number}#issuecomment-{there}",
            }
            self.comments.append(comment)
            return comment

    def comments_on(self, number: int, kind: str = "") -> list[str]:
        """Return the bodies of the comments on an issue or a pull request, those of one ``kind`` where given."""
        start = f"<!-- lancens {kind} " if kind else ""
        bodies = [comment["body"] for comment in self.comments if comment["issue"] == number]
        return [body for body in bodies if body.startswith(start)]

    def fail(
        self, method: str, path: str, status: int, *, headers: Mapping[str, str] | None = None, times: int = 1
    ) -> None:
        """Answer the next ``times`` calls whose path contains ``path`` with ``status``."""
        self._faults.append(_Fault(method, path, status, headers or {}, times))

    # ---- what the API does

    def answer(self, method: str, target: str, authorization: str, body: Any) -> tuple[int, Any, Mapping[str, str]]:
        """Answer one request."""
        with self._lock:
            parts = urlsplit(target)
            self.calls.append(f"{method} {parts.path}")
            try:
                self._fault(method, parts.path)
                login = self.users.get(authorization.removeprefix("Bearer "))
                if login is None:
                    raise _AnswerError(401, "Bad credentials")
                query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
                if parts.path == "/graphql":
                    return 200, {"data": self._graphql(body, login)}, {}
                found = self._route(method, parts.path.removeprefix(f"/repos/{REPOSITORY}"), query, body or {}, login)
                if isinstance(found, list):
                    return self._page(found, query, target)
            except _AnswerError as error:
                return error.status, {"message": str(error)}, error.headers
            return 201 if method == "POST" else 200, found, {}

    def _fault(self, method: str, path: str) -> None:
        for fault in self._faults:
            if fault.times and fault.method == method and fault.path in path:
                fault.times -= 1
                raise _AnswerError(fault.status, "a fault the test asked for", fault.headers)

    def _page(self, found: list[Any], query: Mapping[str, str], target: str) -> tuple[int, Any, Mapping[str, str]]:
        size = min(int(query.get("per_page", _DEFAULT_PAGE)), _LARGEST_PAGE)
        page = int(query.get("page", 1))
        more = page * size < len(found)
        link = {"Link": f'<{self.url}{target}&page={page + 1}>; rel="next"'} if more else {}
        return 200, found[(page - 1) * size : page * size], link

    def _route(self, method: str, path: str, query: Mapping[str, str], body: dict[str, Any], login: str) -> Any:
        routes: list[tuple[str, str, str, Callable[..., Any]]] = [
            ("GET", r"/pulls/(\d+)", "", lambda number: self._one(self.pulls.get(int(number)))),
            ("GET", r"/git/trees/(\w+)", "contents", lambda sha: self._tree(sha, query)),
            ("GET", r"/git/blobs/(\w+)", "contents", self._blob),
            ("GET", r"/commits/([0-9a-f]+)/pulls", "", self._pulls_of),
            ("GET", r"/compare/([0-9a-f]+)\.\.\.([^/]+)", "contents", self._compare),
            ("POST", r"/statuses/([0-9a-f]+)", "statuses", lambda sha: self._set_status(sha, body, login)),
            ("GET", r"/commits/([0-9a-f]+)", "contents", self._commit),
            ("GET", r"/issues/(\d+)/comments", "", self._comments_of),
            ("POST", r"/issues/(\d+)/comments", "comments", lambda number: self._create(int(number), body, login)),
            ("PATCH", r"/issues/comments/(\d+)", "comments", lambda one: self._update(int(one), body, login)),
            ("GET", r"/issues", "", lambda: self._open_issues(query)),
            ("POST", r"/issues", "issues", lambda: self._open(body, login)),
            ("PATCH", r"/issues/(\d+)", "issues", lambda number: self._change_issue(int(number), body)),
        ]
        for verb, pattern, permission, action in routes:
            found = re.fullmatch(pattern, path)
            if verb == method and found:
                if permission in self.denied:
                    raise _AnswerError(403, "Resource not accessible by integration")
                return action(*found.groups())
        raise _AnswerError(404, "Not Found")

    def _tree(self, sha: str, query: Mapping[str, str]) -> Any:
        """Return what is in the base: ``files``."""
        if sha != BASE or query.get("recursive") != "1":
            raise _AnswerError(404, "Not Found")
        tree = [{"path": path, "type": "blob", "sha": _blob_name(data)} for path, data in self.files.items()]
        return {"sha": sha, "tree": tree, "truncated": False}

    def _blob(self, sha: str) -> Any:
        data = next((data for data in self.files.values() if _blob_name(data) == sha), None)
        return {"sha": sha, "encoding": "base64", "content": base64.encodebytes(self._one(data)).decode()}

    def _one(self, found: Any) -> Any:
        if found is None:
            raise _AnswerError(404, "Not Found")
        return found

    def _pulls_of(self, sha: str) -> list[Any]:
        return [pull for pull in self.pulls.values() if sha in (pull["merge_commit_sha"], pull["head"]["sha"])]

    def _commit(self, sha: str) -> Any:
        parents = self.parents.get(sha)
        return self._one(parents and {"sha": sha, "parents": [{"sha": parent} for parent in parents]})

    def _compare(self, base: str, head: str) -> Any:
        newest = self.main[-1:] if head == "main" else [head]
        if newest == [base] or base not in self.main or newest[0] not in self.main:
            return {"status": "identical" if newest == [base] else "diverged"}
        return {"status": "ahead" if self.main.index(base) < self.main.index(newest[0]) else "behind"}

    def _set_status(self, sha: str, body: Mapping[str, Any], login: str) -> Any:
        if len(body["description"]) > _LONGEST_DESCRIPTION:
            raise _AnswerError(422, "description is too long (maximum is 140 characters)")
        self.statuses.append({**body, "sha": sha, "creator": {"login": login}})
        return self.statuses[-1]

    def _history(self, context: str, after: str | None) -> Any:
        """Return a page of the commits of ``main``, newest first, with the status that each has for ``context``."""
        newest = {status["sha"]: status for status in self.statuses if status["context"] == context}
        start = int(after or 0)
        nodes = [
            {"oid": sha, "status": None if sha not in newest else {"context": _as_in_graphql(newest[sha])}}
            for sha in self.main[::-1][start : start + _LARGEST_PAGE]
        ]
        end = start + len(nodes)
        page = {"hasNextPage": end < len(self.main), "endCursor": str(end)}
        return {"repository": {"object": {"history": {"pageInfo": page, "nodes": nodes}}}}

    def _comments_of(self, number: str) -> list[Any]:
        return [comment for comment in self.comments if comment["issue"] == int(number)]

    def _create(self, number: int, body: Mapping[str, Any], login: str) -> Any:
        return self.add_comment(number, body["body"], login)

    def _update(self, one: int, body: Mapping[str, Any], login: str) -> Any:
        self._check_body(body["body"])
        comment = self.comments[one - 1]
        comment.update(body=body["body"], editor=login)
        return comment

    def _open_issues(self, query: Mapping[str, str]) -> list[Any]:
        wanted = query.get("labels", "")
        return [issue for issue in self.issues if issue["state"] == "open" and wanted in issue["labels"]]

    def _open(self, body: Mapping[str, Any], login: str) -> Any:
        self._check_body(body["body"])
        if len(body["title"]) > _LONGEST_TITLE:
            raise _AnswerError(422, "title is too long (maximum is 256 characters)")
        number = 1000 + len(self.issues)
        issue = {
            "number": number,
            "state": "open",
            "user": {"login": login},
            "html_url": f"https://github.com/{REPOSITORY}/issues/{number}",
            **body,
        }
        self.issues.append(issue)
        return issue

    def _change_issue(self, number: int, body: Mapping[str, Any]) -> Any:
        issue = next(issue for issue in self.issues if issue["number"] == number)
        issue.update(body)
        return issue

    def _check_body(self, body: str) -> None:
        if len(body.encode("utf-16-le")) // 2 > _LONGEST_BODY:
            raise _AnswerError(422, "Body is too long (maximum is 65536 characters)")

    def _graphql(self, body: Mapping[str, Any], login: str) -> Any:
        if "viewer" in body["query"]:
            return {"viewer": {"login": login}}
        if "history" in body["query"]:
            return self._history(body["variables"]["context"], body["variables"].get("after"))
        found = next((one for one in self.comments if one["node_id"] == body["variables"]["id"]), None)
        if found is None:
            return {"node": None}
        # GraphQL names a bot without the suffix that REST and `viewer` give it.
        actor = [one and {"login": one.removesuffix("[bot]")} for one in (found["user"]["login"], found["editor"])]
        return {"node": {"author": actor[0], "editor": actor[1]}}


@contextmanager
def github_api() -> Iterator[GitHubApi]:
    """Run a server that is empty at first."""
    state = GitHubApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _respond(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer, headers = state.answer(
                self.command,
                self.path,
                self.headers.get("Authorization", ""),
                json.loads(content) if content else None,
            )
            data = json.dumps(answer).encode()
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = _respond  # noqa: N815 - the names http.server calls

    with http_server(Handler) as state.url:
        yield state
