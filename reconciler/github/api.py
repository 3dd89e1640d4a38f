"""GitHub's REST and GraphQL API, as far as the Action needs it.

https://docs.github.com/en/rest. Lists are read to their last page, what may pass is tried again, and an error names
the call and what to do about it, never the token.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from email.message import Message
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from reconciler import display
from reconciler.backends.http.retry import RetryPolicy
from reconciler.errors import LancensError
from reconciler.redaction import scrub

__all__ = ["GitHub", "GitHubError"]

_TIMEOUT_SECONDS = 30
_PAGE_SIZE = 100
_LONGEST_MESSAGE = 300
_GATEWAY_FAILURES = (500, 502, 503, 504)


class GitHubError(LancensError):
    """GitHub did not do what it was asked to; ``status`` is 0 where no answer came."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A token must not travel to where a redirect leads."""

    def redirect_request(self, *_: object) -> None:
        return None


class GitHub:
    """One repository, with the token of the step.

    Proxies come from the usual environment variables.
    """

    def __init__(
        self, *, api_url: str, graphql_url: str, repository: str, token: str, retry: RetryPolicy | None = None
    ) -> None:
        self._repository_url = f"{api_url.rstrip('/')}/repos/{repository}"
        self._graphql_url = graphql_url
        self._token = token
        self._retry = retry or RetryPolicy()
        self._opener = urllib.request.build_opener(_NoRedirects)

    def get(self, path: str, **query: str | int) -> Any:
        """Return what is at ``path`` below the repository."""
        return self._send("GET", self._url(path, query))[0]

    def pages(self, path: str, **query: str | int) -> Iterator[Any]:
        """Yield every item of a list, page after page until GitHub names no next one."""
        page, more = 1, True
        while more:
            items, headers = self._send("GET", self._url(path, {**query, "per_page": _PAGE_SIZE, "page": page}))
            if not isinstance(items, list):
                raise GitHubError(f"GitHub: GET {path}: the answer is no list")
            yield from items
            more = 'rel="next"' in (headers.get("Link") or "")
            page += 1

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Create something; sent once only when what became of it is not known."""
        return self._send("POST", self._url(path, {}), body)[0]

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """Set fields of something."""
        return self._send("PATCH", self._url(path, {}), body, repeatable=True)[0]

    def graphql(self, query: str, **variables: str) -> Any:
        """Return the data of a query (no mutation)."""
        answer, _ = self._send("POST", self._graphql_url, {"query": query, "variables": variables}, repeatable=True)
        if not isinstance(answer, dict) or answer.get("errors") or not isinstance(answer.get("data"), dict):
            said = display.printable(json.dumps(answer.get("errors") if isinstance(answer, dict) else None))
            raise GitHubError(f"GitHub: the GraphQL query failed: {said[:_LONGEST_MESSAGE]}")
        return answer["data"]

    @cached_property
    def login(self) -> str:
        """Whom the token speaks for, such as ``github-actions[bot]``."""
        # The REST call for this, /user, is closed to the tokens of apps and workflows.
        return str(self.graphql("query { viewer { login } }")["viewer"]["login"])

    def _url(self, path: str, query: Mapping[str, str | int]) -> str:
        return f"{self._repository_url}{path}{'?' if query else ''}{urlencode(query)}"

    def _send(
        self, method: str, url: str, body: Mapping[str, Any] | None = None, *, repeatable: bool = False
    ) -> tuple[Any, Message]:
        where = f"GitHub: {method} {url.partition('?')[0]}"
        if not self._token:
            raise GitHubError(f"{where}: no token; give the input `token`")
        request = urllib.request.Request(  # noqa: S310 - the runner's own address of the API
            url,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/json",
                "User-Agent": "lancens",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        attempt = 0
        while True:
            try:
                with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                    return json.loads(answer.read() or b"null"), answer.headers
            except urllib.error.HTTPError as error:
                pause = self._pause(error, attempt, repeatable or method == "GET")
                if pause is None:
                    raise self._refusal(where, error) from None
            except ValueError:
                raise GitHubError(f"{where}: the answer is no JSON") from None
            except (OSError, http.client.HTTPException) as error:
                pause = self._retry.wait(attempt) if repeatable or method == "GET" else None
                if pause is None:
                    reason = display.printable(str(getattr(error, "reason", error)))
                    raise GitHubError(f"{where}: no answer: {scrub(reason, [self._token])}") from None
            self._retry.sleep(pause)
            attempt += 1

    def _pause(self, error: urllib.error.HTTPError, attempt: int, repeatable: bool) -> float | None:
        """Return how long to wait before the request is sent again, None when it must not be."""
        asked = error.headers.get("Retry-After")
        limited = error.code == 429 or (error.code == 403 and asked is not None)
        if limited or (repeatable and error.code in _GATEWAY_FAILURES):
            return self._retry.wait(attempt, asked)
        return None

    def _refusal(self, where: str, error: urllib.error.HTTPError) -> GitHubError:
        try:
            document = json.loads(error.read())
            said = str(document.get("message", "")) if isinstance(document, dict) else ""
        except (ValueError, OSError, http.client.HTTPException):
            said = ""
        text = f"{where}: {error.code}"
        if said:
            text += f": {display.shorten(display.printable(said), _LONGEST_MESSAGE)}"
        remedy = _remedy(error)
        return GitHubError(scrub(f"{text}; {remedy}" if remedy else text, [self._token]), error.code)


def _remedy(error: urllib.error.HTTPError) -> str:
    if error.headers.get("X-RateLimit-Remaining") == "0":
        return "the token's requests of this hour are used up: run again later"
    match error.code:
        case 401:
            return "check the input `token`"
        case 403 | 404:
            return "check the job's `permissions` (see docs/github-action.md) and the input `token`"
        case 301 | 302 | 307 | 308:
            return "it redirects, which is not followed: was the repository renamed?"
        case _:
            return ""
