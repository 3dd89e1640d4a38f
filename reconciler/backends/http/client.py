"""The HTTP client: one session, one pool, time-outs always, only safe retries."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack
from urllib.parse import quote, urlencode

from reconciler.backends.http.limits import (
    Scans,
    ServiceLimits,
    TooMuchError,
    content_of,
    holds_too_much,
    timed_session,
)
from reconciler.backends.http.rate_limit import RateLimit
from reconciler.backends.http.refusals import (
    ForeignAnswerError,
    Refusal,
    UnknownRouteError,
    VendorError,
    decode,
    excerpt_without,
    is_html,
    kind_of,
    redirect_target,
)
from reconciler.backends.http.retry import Attempts, NoAnswer, RetryPolicy
from reconciler.backends.paging import paged_entries
from reconciler.model import errors
from reconciler.model.redaction import scrub

if TYPE_CHECKING:
    from requests import PreparedRequest, Response


DEFAULT_POOL_SIZE = 32

ValueT = TypeVar("ValueT")

_READS = frozenset({"GET", "HEAD"})
_NOT_MODIFIED = 304
_FORBIDDEN = 403
_TOKEN_REFUSED = frozenset({401, 419})


def path(*segments: str) -> str:
    """Return the path of ``segments``, each percent-encoded, slashes included.

    So is one of dots, which a proxy would leave out.
    """
    return "".join(
        f"/{quote(segment, safe='') if segment.strip('.') else segment.replace('.', '%2E')}" for segment in segments
    )


def _refusal_of(answer: Response) -> Refusal:
    body = None if holds_too_much(answer.content) else decode(answer.content)
    return Refusal(answer.status_code, body, answer.text, answer.headers)


@dataclass(frozen=True, slots=True)
class Tagged(Generic[ValueT]):
    """A value and its ETag, None where the service sends none."""

    value: ValueT
    etag: str | None


@dataclass(frozen=True, slots=True)
class Pages:
    """How a service gives lists in pages.

    Args:
        asked: the parameter of the query that holds a page's token.
        answered: the key of the answer that holds the token of the next page.
        first: the token to ask for the first page with; None to send none.
        entry: the type of an entry.
        identity: what two entries share when they are the same.
        distinct: yield only the first of the entries that share it.
        may_leave_out_list: whether an answer that holds nothing else is an empty page.
        resume: the token to ask for the next page with, by the answered token and the entries of the page.
    """

    asked: str
    answered: str
    first: str | None = None
    entry: type = object
    identity: Callable[[Any], Hashable] = repr
    distinct: bool = False
    may_leave_out_list: bool = False
    resume: Callable[[str, Sequence[Any]], str] = lambda token, _: token


class RequestOptions(TypedDict, total=False):
    """The parts of a request beside its method and path.

    ``query`` is appended to the path, percent-encoded there. ``body`` is sent as JSON when not None, ``form`` as a web
    form instead (OAuth token requests), ``headers`` beside those of every request. ``errors`` is what statuses mean to
    this call, such as ``{404: TableNotFoundError}``. ``repeatable``: whether it can be sent again whatever happened to
    it; None for what its method says. ``before_repeat`` is called before it is, and may raise: somebody else may have
    changed the object while the service made it wait.
    """

    query: Mapping[str, str] | None
    body: object
    form: Mapping[str, str] | None
    headers: Mapping[str, str] | None
    errors: Mapping[int, type[errors.BackendError]]
    repeatable: bool | None
    before_repeat: Callable[[], object]


class TokenSource:
    """The fixed token of a configuration; subclasses get theirs. Thread-safe."""

    def __init__(self, token: str | None = None) -> None:
        self._token = token

    def token(self) -> str | None:
        """Return the token to send now; None to send none.

        Raises:
            BackendError: one is needed and none could be got.
        """
        return self._token

    def renew(self, rejected: str | None) -> bool:
        """Return whether :meth:`token` now gives another token than ``rejected``.

        The service just refused that one. Called at most once a request. A thread that finds ``rejected`` already
        replaced returns True at once.
        """
        return False

    def close(self) -> None:
        """Close the connections that tokens are got over."""


class HttpClient:
    """Sends requests to one service. Safe to use from several threads.

    Args:
        impl: the backend's name; every error begins with it.
        endpoint: the address all paths are below, with no trailing slash needed.
        timeouts: seconds, for the connection and for each wait for data.
        limit: paces all requests to the service; None for one of this client alone.
        retry: when a request is sent again. That happens only where nothing can be done
            twice: the service said so (429, 503 with ``Retry-After``), no connection came about, or the request is a
            GET or HEAD, or said to be ``repeatable``, and the connection broke or a gateway failed (502, 503, 504).
        tokens: gives the bearer token; asked for another one once when a request is answered with 401 or 419.
        headers: sent with every request.
        authority: a PEM file of the certificates to trust instead of the environment's.
        certificate: the PEM files of the client's certificate and key.
        sign: adds to each request what shows who sends it, after everything else; returns what no error may show.
        answered: is called with the headers of each answer that is no error.
        secrets: texts that no error may show, beside the token.
        translate: reads the vendor's error bodies; None from it means that it does not know this one.
        endpoint_key, token_key: the configuration keys that errors tell the user to check; no ``token_key`` where
            the translator says what to do about a refused login.
        pool_size: how many connections there are at most; they are opened when needed, and a request waits for one.
        limits: how large an answer may be, how long a request and a scan may take.

    Redirects are never followed: a token must not travel to another host, nor a login page be read as an answer.
    Cookies and ``.netrc`` are not used. Proxies and certificate bundles come from the usual environment
    variables, read once.
    """

    def __init__(
        self,
        *,
        impl: str,
        endpoint: str,
        timeouts: tuple[float, float],
        retry: RetryPolicy | None = None,
        limit: RateLimit | None = None,
        tokens: TokenSource | None = None,
        headers: Mapping[str, str] | None = None,
        authority: str | None = None,
        certificate: str | tuple[str, str] | None = None,
        sign: Callable[[PreparedRequest], Collection[str]] | None = None,
        answered: Callable[[Mapping[str, str]], None] | None = None,
        secrets: Iterable[str] = (),
        translate: Callable[[Refusal], VendorError | None] | None = None,
        endpoint_key: str = "endpoint",
        token_key: str | None = "auth_token",  # noqa: S107 - the name of a configuration key
        pool_size: int = DEFAULT_POOL_SIZE,
        limits: ServiceLimits | None = None,
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
        """The address that all paths are below."""
        self._limits = limits or ServiceLimits()
        self.scans = Scans(self._limits)
        """Counts and limits what is sent and read."""
        self._impl = impl
        self._timeouts = timeouts
        self._retry = retry or RetryPolicy()
        self._limit = limit or RateLimit(self._retry.clock)
        self._tokens = tokens or TokenSource()
        self._sign = sign
        self._answered = answered or (lambda _: None)
        self._secrets = set(secrets)
        self._translate = translate
        self._endpoint_key = endpoint_key
        self._token_key = token_key
        self._session = timed_session(pool_size, self._limits.request_seconds)
        self._empty: dict[str, PreparedRequest] = {}
        """Requests without a body, by method, ready to be sent to an address."""
        self._session.headers.update(
            {
                "Accept": "application/json",
                "Accept-Encoding": "gzip, deflate",
                "User-Agent": "lancens",
                **(headers or {}),
            }
        )
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._environment = self._session.merge_environment_settings(self.endpoint, {}, True, authority, certificate)

    def close(self) -> None:
        """Close the pooled connections, and those that tokens are got over."""
        self._session.close()
        self._tokens.close()

    def json(self, method: str, path: str, *, doing: str, **sent: Unpack[RequestOptions]) -> dict[str, Any]:
        """Send a request and return the JSON object it is answered with.

        Args:
            method: in upper case.
            path: below the endpoint, beginning with a slash, percent-encoded (see :func:`path`) and sent verbatim.
            doing: what the call is for, in words that end an error's prefix: "list the tables of `a$b`".
            sent: see :class:`RequestOptions`.

        Raises:
            BackendError: what the translator, ``errors`` or the status say; ServiceUnavailableError when no
                answer came; InternalError when it is not a JSON object.
        """
        return self._value(*self._answer(method, path, doing, **sent))

    def reread(
        self,
        path: str,
        known: Tagged[ValueT] | None,
        parse: Callable[[dict[str, Any]], ValueT],
        *,
        doing: str,
        **sent: Unpack[RequestOptions],
    ) -> Tagged[ValueT]:
        """Return the parsed JSON object of a GET, or ``known`` if it did not change.

        That is asked of the service by the ETag of ``known`` (RFC 9110, section 13.1.2). Everything else is as in
        :meth:`json`.
        """
        if known is not None and known.etag:
            sent["headers"] = {"If-None-Match": known.etag}
        answer, prefix = self._answer("GET", path, doing, **sent)
        if answer.status_code == _NOT_MODIFIED and known is not None:
            return known
        return Tagged(parse(self._value(answer, prefix)), answer.headers.get("ETag"))

    def pages(self, path: str, key: str, pages: Pages, *, doing: str, query: Mapping[str, str]) -> Iterator[Any]:
        """Yield the entries of every page of the list that a GET answers under ``key``.

        Raises:
            NamespaceNotFoundError: the service answers 404.
            BackendError: a page cannot be read, is no such list, or the list never ends.
        """

        def fetch(token: str | None, number: int) -> tuple[Sequence[Any], str | None]:
            token = pages.first if token is None else token
            parameters = query if token is None else {**query, pages.asked: token}
            page = doing if number == 1 else f"{doing}, page {number}"
            answer = self.json("GET", path, doing=page, query=parameters, errors={404: errors.NamespaceNotFoundError})
            entries, following = answer.get(key), answer.get(pages.answered)
            if entries is None and pages.may_leave_out_list and not answer.keys() - {key, pages.answered}:
                entries = []
            if not isinstance(entries, list) or not all(isinstance(entry, pages.entry) for entry in entries):
                raise errors.InternalError(
                    f"{self._impl}: {page}: the answer holds no list `{key}`; check that `{self._endpoint_key}` "
                    f"({self.endpoint}) is such a service"
                )
            if following is not None and not isinstance(following, str):
                raise errors.InternalError(f"{self._impl}: {page}: the page token is not text")
            return entries, following and pages.resume(following, entries)

        return paged_entries(f"{self._impl}: {doing}", fetch, pages.identity, distinct=pages.distinct)

    def _value(self, answer: Response, prefix: str) -> dict[str, Any]:
        """Return the JSON object an answer holds, or say what it holds instead."""
        if holds_too_much(answer.content):
            raise self._error(
                errors.InternalError, f"{prefix}: the answer holds more objects than any list that is read here"
            )
        value = decode(answer.content)
        if isinstance(value, dict):
            return value
        self._refuse_page(answer, prefix)
        got = self._excerpt(answer) or "an empty answer"
        raise self._error(
            errors.InternalError,
            f"{prefix}: {answer.status_code} with no JSON object but: {got}; check that `{self._endpoint_key}` "
            f"({self.endpoint}) is such a service",
        )

    def _refuse_page(self, answer: Response, prefix: str) -> None:
        if is_html(answer.content, answer.headers.get("Content-Type", "")):
            raise self._error(
                ForeignAnswerError,
                f"{prefix}: {answer.status_code} with {self._excerpt(answer)}, which is not the service's; a proxy or "
                f"a login page answers at {self.endpoint}: check `{self._endpoint_key}` and the proxy settings",
            )

    def done(self, method: str, path: str, *, doing: str, **sent: Unpack[RequestOptions]) -> None:
        """Send a request for its effect; any 2xx but a web page is success.

        See :meth:`json`.
        """
        self._refuse_page(*self._answer(method, path, doing, **sent))

    def _answer(self, method: str, path: str, doing: str, **sent: Unpack[RequestOptions]) -> tuple[Response, str]:
        """Return a 2xx answer, or the 304 asked for, and the prefix of errors about it."""
        query, headers, repeatable = sent.get("query"), sent.get("headers"), sent.get("repeatable")
        url = self.endpoint + path + (f"?{urlencode(query, quote_via=quote, safe='')}" if query else "")
        prefix = f"{self._impl}: {doing}"
        repeatable = method in _READS if repeatable is None else repeatable
        attempts = Attempts(self._retry, self._limit)
        renewed = False
        while True:
            self.scans.check(prefix)
            attempts.begin()
            if attempts.repeats and "before_repeat" in sent:
                sent["before_repeat"]()
            token = self._tokens.token()
            if token is not None:
                self._secrets.add(token)
            answer = self._send(self._prepare(method, url, token, sent), prefix)
            if isinstance(answer, NoAnswer):
                goes_on = (answer.was_never_sent or (answer.may_pass and repeatable)) and attempts.again_after_failure()
            elif 200 <= answer.status_code < 300 or (answer.status_code == _NOT_MODIFIED and headers):
                attempts.accepted()
                self._answered(answer.headers)
                return answer, prefix
            else:
                if not renewed and self._refuses_token(answer):
                    renewed = True
                    if self._tokens.renew(token):
                        continue
                retry_after = answer.headers.get("Retry-After")
                goes_on = attempts.again_after(answer.status_code, retry_after, repeatable=repeatable)
            if not goes_on:
                tries = f" after {attempts.repeats + 1} tries" if attempts.repeats else ""
                if isinstance(answer, NoAnswer):
                    remedy = answer.remedy(self._endpoint_key, repeatable=repeatable)
                    raise self._error(errors.ServiceUnavailableError, f"{prefix}: {answer.problem}{tries}; {remedy}")
                raise self._refused(answer, f"{prefix}: {answer.status_code}{tries}", sent.get("errors", {}), token)

    def _refuses_token(self, answer: Response) -> bool:
        """Return whether the status or the service says that the token is not valid."""
        if answer.status_code in _TOKEN_REFUSED:
            return True
        if answer.status_code != _FORBIDDEN or self._translate is None:
            return False
        vendor = self._translate(_refusal_of(answer))
        return vendor is not None and vendor.kind is errors.UnauthenticatedError

    def _prepare(self, method: str, url: str, token: str | None, sent: RequestOptions) -> PreparedRequest:
        body, form = sent.get("body"), sent.get("form")
        if token is not None and not (token.isascii() and token.isprintable()):
            raise self._error(
                errors.InvalidInputError, f"{self._impl}: `{self._token_key}` holds what no header can carry"
            )
        if body is None and form is None:
            # Checking an address and the headers of all requests takes requests a third of the time of a small GET.
            if method not in self._empty:
                self._empty[method] = self._prepared(method, None, None)
            prepared = self._empty[method].copy()
        else:
            prepared = self._prepared(method, body, form)
        prepared.headers.update(sent.get("headers") or {})
        if token is not None:
            prepared.headers["Authorization"] = f"Bearer {token}"
        # requests decodes what need not be encoded (%2E becomes a dot), which changes names in some servers' paths.
        prepared.url = url
        if self._sign is not None:
            self._secrets.update(self._sign(prepared))
        return prepared

    def _prepared(self, method: str, body: object, form: Mapping[str, str] | None) -> PreparedRequest:
        """Return a request to the endpoint, which goes to some address below it."""
        from requests import Request
        from requests.exceptions import InvalidHeader, InvalidURL

        try:
            # With an `auth` of its own, which adds nothing, .netrc is not read.
            request = Request(method, self.endpoint, json=body, data=form, auth=lambda prepared: prepared)
            return self._session.prepare_request(request)
        except InvalidHeader:
            raise self._error(
                errors.InvalidInputError, f"{self._impl}: a header holds what no header can carry"
            ) from None
        except (InvalidURL, UnicodeError) as error:
            raise self._error(errors.InvalidInputError, f"{self._impl}: no request can be made: {error}") from None

    def _send(self, request: PreparedRequest, prefix: str) -> Response | NoAnswer:
        from requests.exceptions import RequestException
        from urllib3.exceptions import HTTPError

        self.scans.sends()
        try:
            answer = self._session.send(request, timeout=self._timeouts, allow_redirects=False, **self._environment)
            # What `Response.content` gives from now on; requests itself would read without an end.
            answer._content = content_of(answer, self._limits.answer_bytes)  # noqa: SLF001
        except TooMuchError as error:
            raise self._error(errors.InternalError, f"{prefix}: {error}") from None
        except (RequestException, HTTPError, UnicodeError) as error:
            return NoAnswer(error, self.endpoint, self._timeouts, self._limits.request_seconds)
        self.scans.took(len(answer.content))
        return answer

    def _refused(
        self, answer: Response, text: str, expected: Mapping[int, type[errors.BackendError]], token: str | None
    ) -> errors.BackendError:
        """Return the error of a refusal; ``text`` begins it."""
        refusal = _refusal_of(answer)
        vendor = self._translate(refusal) if self._translate and refusal.body is not None else None
        kind = kind_of(refusal, vendor, expected)
        detail = excerpt_without(tuple(self._secrets), vendor.message) if vendor else self._excerpt(answer)
        if 300 <= answer.status_code < 400:
            text += f": it redirects to {redirect_target(refusal)}, which is not followed"
        elif detail:
            text += f": {detail}"
        remedy = self._remedy(kind, refusal, token)
        return self._error(kind, f"{text}; {remedy}" if remedy else text)

    def _remedy(self, kind: type[errors.BackendError], refusal: Refusal, token: str | None) -> str:
        if 300 <= refusal.status < 400:
            return "check " + " and ".join(f"`{key}`" for key in (self._endpoint_key, self._token_key) if key)
        if issubclass(kind, errors.UnauthenticatedError) and self._token_key:
            if token is None:
                return f"set `{self._token_key}`"
            ended = _end_of(token)
            if ended is not None and ended.timestamp() < self._retry.clock.now():
                return f"renew `{self._token_key}`: it expired at {ended:%Y-%m-%d %H:%M:%S} UTC"
            return f"check `{self._token_key}`: it is not accepted"
        if issubclass(kind, errors.PermissionDeniedError) and self._token_key:
            return f"grant the owner of `{self._token_key}` what is missing, or use another one"
        if issubclass(kind, errors.ThrottlingError):
            return "run again later, or with less parallelism"
        if issubclass(kind, errors.ServiceUnavailableError):
            return f"check that the service at {self.endpoint} is up, and run again"
        if issubclass(kind, UnknownRouteError):
            return f"there is no such service at {self.endpoint}: check `{self._endpoint_key}`"
        return ""

    def _error(self, kind: type[errors.BackendError], text: str) -> errors.BackendError:
        return kind(self._without_secrets(text))

    def _without_secrets(self, text: str) -> str:
        return scrub(text, tuple(self._secrets))

    def _excerpt(self, answer: Response) -> str:
        return excerpt_without(tuple(self._secrets), answer.text, answer.headers.get("Content-Type", ""))


def _end_of(token: str) -> datetime | None:
    """Return when a JSON Web Token ends (RFC 7519, section 4.1.4), None for another."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
        return None
