"""GitHub's REST and GraphQL API, as far as the Action needs it.

https://docs.github.com/en/rest. Lists are read to their last page, transient failures are retried, and an error names
the call and the remedy, never the token.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Any, Self, TypeVar

from requests import RequestException, Response, Session
from requests.adapters import HTTPAdapter
from urllib3 import Retry
from urllib3.exceptions import MaxRetryError

from reconciler.model import display
from reconciler.model.errors import LancensError
from reconciler.model.redaction import scrub

_TIMEOUT_SECONDS = 30.0
_LONGEST_PAUSE = 120.0
_RETRIES = 3
_PAGE_SIZE = 100
_LONGEST_MESSAGE = 300
_HEADERS = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": "lancens",
}

JsonT = TypeVar("JsonT", dict[str, Any], list[Any])


class GitHubError(LancensError):
    """A call to GitHub failed."""


class _Retries(Retry):
    """Retries of transient failures and rate limits, with exponential backoff.

    https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api: a secondary limit is a 403. GitHub
    did not act on a request over a limit, so any method is retried, after the pause that GitHub asks for.
    """

    @classmethod
    def of(cls, methods: Collection[str] | None) -> Self:
        """Return a policy that retries ``methods`` (None: all) after any failure."""
        return cls(
            _RETRIES,
            other=0,
            allowed_methods=methods,
            status_forcelist=(500, 502, 503, 504),
            backoff_factor=1,
            raise_on_status=False,
        )

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        """Return whether a request answered with ``status_code`` is retried."""
        limited = status_code == 429 or (status_code == 403 and has_retry_after)
        return limited or super().is_retry(method, status_code)

    def increment(self, *args: Any, **details: Any) -> Self:
        """Return the policy after one more failure.

        Raises:
            MaxRetryError: the retries are used up, or GitHub asks for a longer pause than a step can wait.
        """
        response = details.get("response")
        if response is not None and (self.get_retry_after(response) or 0) > _LONGEST_PAUSE:
            raise MaxRetryError(details["_pool"], args[1])
        return super().increment(*args, **details)


class GitHub:
    """One repository, with the token of the step.

    Proxies and certificate bundles come from the usual environment variables. Redirects are never followed.
    """

    def __init__(self, api_url: str, graphql_url: str, repository: str, token: str) -> None:
        self._repository = f"{api_url.rstrip('/')}/repos/{repository}"
        self._graphql = graphql_url
        self._token = token

    def get(self, path: str) -> dict[str, Any]:
        """Return the object at ``path`` below the repository."""
        return self._json("GET", path, dict)[0]

    def pages(self, path: str, **query: str) -> Iterator[Any]:
        """Yield every item of a list, until GitHub names no next page."""
        number, has_next = 0, True
        while has_next:
            number += 1
            params = {**query, "per_page": str(_PAGE_SIZE), "page": str(number)}
            page, has_next = self._json("GET", path, list, params=params)
            yield from page

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object, and return it; not retried when the outcome is unknown."""
        return self._json("POST", path, dict, json=body)[0]

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Set fields of an object, and return it."""
        return self._json("PATCH", path, dict, json=body)[0]

    def graphql(self, query: str, **variables: str) -> Any:
        """Return the data of a query, which must not be a mutation: it may be retried."""
        response, _ = self._json("POST", None, dict, json={"query": query, "variables": variables})
        if response.get("errors") or not isinstance(response.get("data"), dict):
            errors = display.printable(json.dumps(response.get("errors")))
            raise GitHubError(f"GitHub: the GraphQL query failed: {errors[:_LONGEST_MESSAGE]}")
        return response["data"]

    @cached_property
    def login(self) -> str:
        """Return the login of the authenticated user."""
        # The REST call for this, /user, is closed to the tokens of apps and workflows.
        return str(self.graphql("query { viewer { login } }")["viewer"]["login"])

    @cached_property
    def _session(self) -> Session:
        session = Session()
        session.headers.update({**_HEADERS, "Authorization": f"Bearer {self._token}"})
        session.auth = lambda request: request  # otherwise requests sends the credentials of .netrc
        for prefix in ("https://", "http://"):
            session.mount(prefix, HTTPAdapter(max_retries=_Retries.of({"GET", "PATCH"})))
        # Only queries are sent here, and repeating one is safe.
        session.mount(self._graphql, HTTPAdapter(max_retries=_Retries.of(None)))
        return session

    def _json(self, method: str, path: str | None, kind: type[JsonT], **content: Any) -> tuple[JsonT, bool]:
        """Return the JSON of a response, a ``kind``, and whether a next page exists.

        ``path`` is None for the GraphQL API.

        Raises:
            GitHubError: no answer arrived, or an error, or JSON of another kind.
        """
        call = "the GraphQL query" if path is None else f"{method} {path}"
        if not self._token:
            raise GitHubError(f"GitHub: {call}: no token; set the input `token`")
        if not (self._token.isascii() and self._token.isprintable()):
            raise GitHubError(f"GitHub: {call}: the input `token` must be printable ASCII")
        url = self._graphql if path is None else self._repository + path
        try:
            response = self._session.request(method, url, timeout=_TIMEOUT_SECONDS, allow_redirects=False, **content)
        except RequestException as error:
            problem = f"no answer from {url}: {error}; check GITHUB_API_URL and the proxy settings"
        else:
            document = _parse_json(response)
            if not 200 <= response.status_code < 300:
                problem = _describe_error(response, document)
            elif isinstance(document, kind):
                return document, "next" in response.links
            else:
                problem = f"{response.status_code} with no JSON {kind.__name__}; check GITHUB_API_URL"
        raise GitHubError(display.printable(scrub(f"GitHub: {call}: {problem}", (self._token,))))


def _parse_json(response: Response) -> Any:
    """Return the JSON of a response; None if it has none."""
    try:
        return response.json()
    except ValueError:
        return None


def _describe_error(response: Response, document: Any) -> str:
    """Return the status of an error response, GitHub's message and the remedy."""
    text, message = str(response.status_code), document.get("message") if isinstance(document, dict) else None
    if isinstance(message, str):
        text = f"{text}: {display.shorten(message, _LONGEST_MESSAGE)}"
    if response.headers.get("X-RateLimit-Remaining") == "0" or "Retry-After" in response.headers:
        return f"{text}; GitHub limits the token's requests: run again later"
    match response.status_code:
        case 401:
            return f"{text}; check the input `token`"
        case 403 | 404:
            return f"{text}; check the job's `permissions` (see docs/github-action.md) and the input `token`"
        case 301 | 302 | 307 | 308:
            return f"{text}: the redirect is not followed; was the repository renamed?"
        case _:
            return text
