"""GitHub's REST and GraphQL API, as far as the Action needs it.

https://docs.github.com/en/rest. Lists are read to their last page, what may pass is tried again, and an error names
the call and what to do about it, never the token.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

from reconciler import display
from reconciler.backends.http import HttpClient, Refusal, RetryPolicy, StaticToken, VendorError
from reconciler.errors import BackendError, LancensError

__all__ = ["GitHub", "GitHubError"]

_TIMEOUT_SECONDS = 30.0
_PAGE_SIZE = 100
_LONGEST_MESSAGE = 300
_HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}


class GitHubError(LancensError):
    """GitHub did not do what it was asked to."""


class GitHub:
    """One repository, with the token of the step.

    Proxies come from the usual environment variables.
    """

    def __init__(
        self, *, api_url: str, graphql_url: str, repository: str, token: str, retry: RetryPolicy | None = None
    ) -> None:
        # A secondary rate limit is a 403; https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
        self._retry = replace(
            retry or RetryPolicy(), not_begun=frozenset({403}), may_pass=frozenset({500, 502, 503, 504})
        )
        self._token = token
        self._rest = self._client(f"{api_url.rstrip('/')}/repos/{repository}", "GITHUB_API_URL")
        self._graphql = self._client(graphql_url, "GITHUB_GRAPHQL_URL")

    def _client(self, endpoint: str, key: str) -> HttpClient:
        return HttpClient(
            impl="GitHub",
            endpoint=endpoint,
            connect_timeout=_TIMEOUT_SECONDS,
            read_timeout=_TIMEOUT_SECONDS,
            retry=self._retry,
            tokens=StaticToken(self._token),
            headers=_HEADERS,
            translate=_translate,
            remedy=_remedy,
            endpoint_key=key,
            token_key="token",  # noqa: S106 - the name of the input
        )

    def get(self, path: str) -> dict[str, Any]:
        """Return what is at ``path`` below the repository."""
        with self._calling(f"GET {path}") as doing:
            return self._rest.json("GET", path, doing=doing)

    def pages(self, path: str, **query: str) -> Iterator[Any]:
        """Yield every item of a list, page after page until GitHub names no next one."""
        with self._calling(f"GET {path}") as doing:
            for page in self._rest.pages(path, doing=doing, query={**query, "per_page": str(_PAGE_SIZE)}):
                yield from page

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create something; sent once only when what became of it is not known."""
        with self._calling(f"POST {path}") as doing:
            return self._rest.json("POST", path, doing=doing, body=body)

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Set fields of something."""
        with self._calling(f"PATCH {path}") as doing:
            return self._rest.json("PATCH", path, doing=doing, body=body, repeatable=True)

    def graphql(self, query: str, **variables: str) -> Any:
        """Return the data of a query (no mutation)."""
        with self._calling("the GraphQL query") as doing:
            body = {"query": query, "variables": variables}
            answer = self._graphql.json("POST", "", doing=doing, body=body, repeatable=True)
        if answer.get("errors") or not isinstance(answer.get("data"), dict):
            said = display.printable(json.dumps(answer.get("errors")))
            raise GitHubError(f"GitHub: the GraphQL query failed: {said[:_LONGEST_MESSAGE]}")
        return answer["data"]

    @cached_property
    def login(self) -> str:
        """Whom the token speaks for, such as ``github-actions[bot]``."""
        # The REST call for this, /user, is closed to the tokens of apps and workflows.
        return str(self.graphql("query { viewer { login } }")["viewer"]["login"])

    @contextmanager
    def _calling(self, doing: str) -> Iterator[str]:
        """Give what a call is for, and turn what comes of it into an error of GitHub."""
        if not self._token:
            raise GitHubError(f"GitHub: {doing}: no token; give the input `token`")
        try:
            yield doing
        except BackendError as error:
            raise GitHubError(str(error)) from None


def _translate(refusal: Refusal) -> VendorError | None:
    said = refusal.body.get("message") if isinstance(refusal.body, dict) else None
    return VendorError(display.shorten(display.printable(said), _LONGEST_MESSAGE)) if isinstance(said, str) else None


def _remedy(refusal: Refusal) -> str:
    if refusal.headers.get("X-RateLimit-Remaining") == "0":
        return "the token's requests of this hour are used up: run again later"
    match refusal.status:
        case 401:
            return "check the input `token`"
        case 403 | 404:
            return "check the job's `permissions` (see docs/github-action.md) and the input `token`"
        case 301 | 302 | 307 | 308:
            return "was the repository renamed?"
        case _:
            return ""
