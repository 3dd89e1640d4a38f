"""GitHub's REST and GraphQL API, as far as the Action needs it.

https://docs.github.com/en/rest. Lists are read to their last page, what may pass is tried again, and an error names
the call and what to do about it, never the token.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from reconciler.model import display
from reconciler.model.errors import LancensError
from reconciler.model.redaction import scrub

if TYPE_CHECKING:
    from requests import RequestException, Response, Session


_TIMEOUT_SECONDS = 30.0
_LONGEST_PAUSE = 120.0
_RETRIES = 3
_PAGE_SIZE = 100
_LONGEST_MESSAGE = 300
_MAY_PASS = frozenset({500, 502, 503, 504})
_LIMITED = frozenset({403, 429})
"""https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api: a secondary limit is a 403."""
_HEADERS = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": "lancens",
}

JsonT = TypeVar("JsonT", dict[str, Any], list[Any])


class GitHubError(LancensError):
    """GitHub did not do what it was asked to."""


class GitHub:
    """One repository, with the token of the step.

    Proxies and certificate bundles come from the usual environment variables. Redirects are never followed.
    """

    def __init__(
        self,
        *,
        api_url: str,
        graphql_url: str,
        repository: str,
        token: str,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._repository = f"{api_url.rstrip('/')}/repos/{repository}"
        self._graphql = graphql_url
        self._token = token
        self._sleep = sleep

    def get(self, path: str) -> dict[str, Any]:
        """Return what is at ``path`` below the repository."""
        return self._json("GET", path, dict)[0]

    def pages(self, path: str, **query: str) -> Iterator[Any]:
        """Yield every item of a list, page after page until GitHub names no next one."""
        number, more = 0, True
        while more:
            number += 1
            params = {**query, "per_page": str(_PAGE_SIZE), "page": str(number)}
            page, more = self._json("GET", path, list, params=params)
            yield from page

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create something; sent once only when what became of it is not known."""
        return self._json("POST", path, dict, repeatable=False, json=body)[0]

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Set fields of something."""
        return self._json("PATCH", path, dict, json=body)[0]

    def graphql(self, query: str, **variables: str) -> Any:
        """Return the data of a query (no mutation)."""
        answer, _ = self._json("POST", None, dict, json={"query": query, "variables": variables})
        if answer.get("errors") or not isinstance(answer.get("data"), dict):
            said = display.printable(json.dumps(answer.get("errors")))
            raise GitHubError(f"GitHub: the GraphQL query failed: {said[:_LONGEST_MESSAGE]}")
        return answer["data"]

    @cached_property
    def login(self) -> str:
        """Return the login of the user that the token speaks for, such as ``github-actions[bot]``."""
        # The REST call for this, /user, is closed to the tokens of apps and workflows.
        return str(self.graphql("query { viewer { login } }")["viewer"]["login"])

    @cached_property
    def _session(self) -> Session:
        import requests

        session = requests.Session()
        session.headers.update({**_HEADERS, "Authorization": f"Bearer {self._token}"})
        session.auth = lambda request: request  # without one, requests sends what .netrc has for the host
        return session

    def _json(
        self, method: str, path: str | None, kind: type[JsonT], *, repeatable: bool = True, **content: Any
    ) -> tuple[JsonT, bool]:
        """Return the JSON of an answer, which is of ``kind``, and whether a next page follows."""
        doing = "the GraphQL query" if path is None else f"{method} {path}"
        answer = self._answer(method, path, doing, repeatable, content)
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not isinstance(found, kind):
            raise GitHubError(
                f"GitHub: {doing}: {answer.status_code} with no JSON {kind.__name__}; check GITHUB_API_URL"
            )
        return found, "next" in answer.links

    def _answer(
        self, method: str, path: str | None, doing: str, repeatable: bool, content: Mapping[str, Any]
    ) -> Response:
        """Return an answer that is a success, after as many retries as it takes."""
        from requests import RequestException

        if not self._token:
            raise GitHubError(f"GitHub: {doing}: no token; give the input `token`")
        if not (self._token.isascii() and self._token.isprintable()):
            raise GitHubError(f"GitHub: {doing}: the input `token` holds what no header can carry")
        url = self._graphql if path is None else self._repository + path
        attempt = 0
        while True:
            try:
                answer = self._session.request(method, url, timeout=_TIMEOUT_SECONDS, allow_redirects=False, **content)
            except RequestException as error:
                pause = 2.0**attempt if _may_pass(error, repeatable) else None
                problem = f"no answer from {url}: {error}; check GITHUB_API_URL and the proxy settings"
            else:
                if 200 <= answer.status_code < 300:
                    return answer
                pause, problem = _pause(answer, attempt, repeatable), _refusal(answer)
            if pause is None or attempt == _RETRIES:
                tries = f" after {attempt + 1} tries" if attempt else ""
                raise GitHubError(display.printable(scrub(f"GitHub: {doing}{tries}: {problem}", (self._token,))))
            self._sleep(pause)
            attempt += 1


def _may_pass(error: RequestException, repeatable: bool) -> bool:
    """Return whether a request can be sent again: nothing is done twice, and it may be answered then."""
    from requests import exceptions
    from urllib3.exceptions import NewConnectionError

    if isinstance(error, exceptions.SSLError) or not isinstance(
        error, (exceptions.ConnectionError, exceptions.Timeout)
    ):
        return False
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return repeatable or isinstance(error, exceptions.ConnectTimeout) or isinstance(reason, NewConnectionError)


def _pause(answer: Response, attempt: int, repeatable: bool) -> float | None:
    """Return the seconds after which a refused request is sent again; None where it is not."""
    asked = answer.headers.get("Retry-After", "")
    if answer.status_code == 429 or (answer.status_code in _LIMITED and asked):
        seconds = float(asked) if asked.isdigit() else 2.0**attempt
        return seconds if seconds <= _LONGEST_PAUSE else None
    return 2.0**attempt if repeatable and answer.status_code in _MAY_PASS else None


def _refusal(answer: Response) -> str:
    """Return what GitHub says, and what to do about it."""
    try:
        said = answer.json().get("message")
    except (ValueError, AttributeError):
        said = None
    text = str(answer.status_code)
    if isinstance(said, str):
        text = f"{text}: {display.shorten(said, _LONGEST_MESSAGE)}"
    if answer.headers.get("X-RateLimit-Remaining") == "0":
        return f"{text}; the token's requests of this hour are used up: run again later"
    match answer.status_code:
        case 401:
            return f"{text}; check the input `token`"
        case 403 | 404:
            return f"{text}; check the job's `permissions` (see docs/github-action.md) and the input `token`"
        case 301 | 302 | 307 | 308:
            return f"{text}: the redirect is not followed; was the repository renamed?"
        case _:
            return text
