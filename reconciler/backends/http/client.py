"""Send HTTP requests to one service: pooled, with time-outs and safe retries."""

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
    ResponseTooLargeError,
    ServiceLimits,
    TrafficMeter,
    has_too_many_objects,
    read_content,
    timed_session,
)
from reconciler.backends.http.rate_limit import RateLimit
from reconciler.backends.http.refusals import (
    ForeignAnswerError,
    Refusal,
    UnknownRouteError,
    VendorError,
    decode,
    error_type,
    is_html,
    redacted_excerpt,
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
    """Return a path with each of ``segments`` percent-encoded, slashes included.

    So is one of dots, which a proxy would leave out.
    """
    return "".join(
        f"/{quote(segment, safe='') if segment.strip('.') else segment.replace('.', '%2E')}" for segment in segments
    )


def _refusal_of(answer: Response) -> Refusal:
    body = None if has_too_many_objects(answer.content) else decode(answer.content)
    return Refusal(answer.status_code, body, answer.text, answer.headers)


@dataclass(frozen=True, slots=True)
class TaggedValue(Generic[ValueT]):
    """A parsed response and its ETag; None if the service sends none."""

    value: ValueT
    etag: str | None


@dataclass(frozen=True, slots=True)
class Paging:
    """The protocol by which a service returns lists in pages.

    Args:
        token_parameter: the query parameter for the token of a page.
        next_token_key: the key in a response of the token of the next page.
        first_token: the token that requests the first page; None to send none.
        entry_type: the type of each entry; another type is an error.
        identity: returns a key of an entry, to recognise repeated ones.
        distinct: yield only the first of the entries with the same key.
        may_omit_list: whether a response without the list is an empty page.
        resume: returns the token for the next request, given the token and the entries of a page.
    """

    token_parameter: str
    next_token_key: str
    first_token: str | None = None
    entry_type: type = object
    identity: Callable[[Any], Hashable] = repr
    distinct: bool = False
    may_omit_list: bool = False
    resume: Callable[[str, Sequence[Any]], str] = lambda token, _: token


class RequestOptions(TypedDict, total=False):
    """The optional parts of a request.

    ``query`` is percent-encoded. ``body`` is sent as JSON, ``form`` as a web form (OAuth token requests), ``headers``
    beside those of every request. ``errors`` maps statuses to the errors of this call, such as
    ``{404: TableNotFoundError}``. ``repeatable``: whether the request is safe to send again even if it was carried out;
    None: GET and HEAD are. ``before_repeat`` is called before each retry and may raise, for example because another
    client changed the object meanwhile.
    """

    query: Mapping[str, str] | None
    body: object
    form: Mapping[str, str] | None
    headers: Mapping[str, str] | None
    errors: Mapping[int, type[errors.BackendError]]
    repeatable: bool | None
    before_repeat: Callable[[], object]


class TokenSource:
    """Provides the bearer token, here a fixed one. Thread-safe."""

    def __init__(self, token: str | None = None) -> None:
        self._token = token

    def token(self) -> str | None:
        """Return the token to send now; None to send none.

        Raises:
            BackendError: the token server gave none.
        """
        return self._token

    def renew(self, rejected: str | None) -> bool:
        """Replace the token ``rejected`` if possible; return whether there is a new one.

        The service just refused ``rejected``. This is called at most once a request. If another thread has replaced it
        already, the result is True.
        """
        return False

    def close(self) -> None:
        """Close the connections to the token server."""


class HttpClient:
    """Sends requests to one service. Safe to use from several threads.

    Args:
        impl: the backend's name; every error begins with it.
        endpoint: the URL that all paths are appended to.
        timeouts: seconds, for the connection and for each wait for data.
        limit: the rate limit of the service; None for one of this client alone.
        retry: the limits of retries. A request is retried only if that cannot carry it out twice: it was throttled
            (429, 503 with ``Retry-After``), there was no connection, or it is ``repeatable`` and the connection broke
            or a gateway failed (502, 503, 504).
        tokens: provides the bearer token; renewed once if a request gets 401 or 419.
        headers: sent with every request.
        authority: a PEM file of the certificates to trust instead of the environment's.
        certificate: the PEM files of the client's certificate and key.
        sign: signs each prepared request; returns the secrets that errors must not show.
        on_response: is called with the headers of each successful response.
        secrets: texts that errors must not show, in addition to the token.
        translate: reads a vendor's error body; returns None if it does not know the format.
        endpoint_key, token_key: the configuration keys that errors tell the user to check; no ``token_key`` where
            the translator says what to do about a refused login.
        pool_size: the most connections; a request waits for a free one.
        limits: the limits of response sizes, and of the time of requests and scans.

    Redirects are never followed: they could send the token to another host, or lead to a login page.
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
        on_response: Callable[[Mapping[str, str]], None] | None = None,
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
        self.meter = TrafficMeter(self._limits)
        """Counts requests and bytes, and limits scans."""
        self._impl = impl
        self._timeouts = timeouts
        self._retry = retry or RetryPolicy()
        self._limit = limit or RateLimit(self._retry.clock)
        self._tokens = tokens or TokenSource()
        self._sign = sign
        self._on_response = on_response or (lambda _: None)
        self._secrets = set(secrets)
        self._translate = translate
        self._endpoint_key = endpoint_key
        self._token_key = token_key
        self._session = timed_session(pool_size, self._limits.request_seconds)
        self._bodyless_requests: dict[str, PreparedRequest] = {}
        """Prepared requests without a body, by method, to copy and set the URL of."""
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
        """Close the pooled connections, and those to the token server."""
        self._session.close()
        self._tokens.close()

    def request_json(self, method: str, path: str, *, doing: str, **options: Unpack[RequestOptions]) -> dict[str, Any]:
        """Send a request and return the JSON object of the response.

        Args:
            method: in upper case.
            path: below the endpoint, beginning with a slash, percent-encoded (see :func:`path`) and sent verbatim.
            doing: a description of the call for errors, such as "list the tables of `a$b`".
            options: see :class:`RequestOptions`.

        Raises:
            BackendError: the response is outside 2xx; the translator, ``errors`` and the status decide on the class.
            ServiceUnavailableError: no response came.
            InternalError: the response is not a JSON object.
        """
        return self._json_object(*self._request(method, path, doing, **options))

    def get_if_changed(
        self,
        path: str,
        known: TaggedValue[ValueT] | None,
        parse: Callable[[dict[str, Any]], ValueT],
        *,
        doing: str,
        **options: Unpack[RequestOptions],
    ) -> TaggedValue[ValueT]:
        """Send a GET and return the parsed JSON object, or ``known`` if it is unchanged.

        The request sends the ETag of ``known`` (``If-None-Match``; RFC 9110, section 13.1.2). Otherwise it is as in
        :meth:`request_json`.
        """
        if known is not None and known.etag:
            options["headers"] = {"If-None-Match": known.etag}
        answer, prefix = self._request("GET", path, doing, **options)
        if answer.status_code == _NOT_MODIFIED and known is not None:
            return known
        return TaggedValue(parse(self._json_object(answer, prefix)), answer.headers.get("ETag"))

    def list_entries(
        self, path: str, key: str, paging: Paging, *, doing: str, query: Mapping[str, str]
    ) -> Iterator[Any]:
        """Yield the entries of a paged list, which each GET returns under ``key``.

        Raises:
            NamespaceNotFoundError: the status is 404.
            BackendError: a page cannot be read or has another format, or the list never ends.
        """

        def fetch(token: str | None, number: int) -> tuple[Sequence[Any], str | None]:
            token = paging.first_token if token is None else token
            parameters = query if token is None else {**query, paging.token_parameter: token}
            page = doing if number == 1 else f"{doing}, page {number}"
            answer = self.request_json(
                "GET", path, doing=page, query=parameters, errors={404: errors.NamespaceNotFoundError}
            )
            entries, following = answer.get(key), answer.get(paging.next_token_key)
            if entries is None and paging.may_omit_list and not answer.keys() - {key, paging.next_token_key}:
                entries = []
            if not isinstance(entries, list) or not all(isinstance(entry, paging.entry_type) for entry in entries):
                raise errors.InternalError(
                    f"{self._impl}: {page}: the answer holds no list `{key}`; check that `{self._endpoint_key}` "
                    f"({self.endpoint}) is such a service"
                )
            if following is not None and not isinstance(following, str):
                raise errors.InternalError(f"{self._impl}: {page}: the page token is not text")
            return entries, following and paging.resume(following, entries)

        return paged_entries(f"{self._impl}: {doing}", fetch, paging.identity, distinct=paging.distinct)

    def _json_object(self, answer: Response, prefix: str) -> dict[str, Any]:
        """Return the JSON object of a response, or raise an error that shows its text."""
        if has_too_many_objects(answer.content):
            raise self._error(
                errors.InternalError, f"{prefix}: the answer holds more objects than any list that is read here"
            )
        value = decode(answer.content)
        if isinstance(value, dict):
            return value
        self._reject_web_page(answer, prefix)
        got = self._excerpt(answer) or "an empty answer"
        raise self._error(
            errors.InternalError,
            f"{prefix}: {answer.status_code} with no JSON object but: {got}; check that `{self._endpoint_key}` "
            f"({self.endpoint}) is such a service",
        )

    def _reject_web_page(self, answer: Response, prefix: str) -> None:
        if is_html(answer.content, answer.headers.get("Content-Type", "")):
            raise self._error(
                ForeignAnswerError,
                f"{prefix}: {answer.status_code} with {self._excerpt(answer)}, which is not the service's; a proxy or "
                f"a login page answers at {self.endpoint}: check `{self._endpoint_key}` and the proxy settings",
            )

    def send(self, method: str, path: str, *, doing: str, **options: Unpack[RequestOptions]) -> None:
        """Send a request and ignore the body; any 2xx but a web page is success.

        See :meth:`request_json`.
        """
        self._reject_web_page(*self._request(method, path, doing, **options))

    def _request(self, method: str, path: str, doing: str, **options: Unpack[RequestOptions]) -> tuple[Response, str]:
        """Send a request until it succeeds; return the response and a prefix for errors."""
        query, headers, repeatable = options.get("query"), options.get("headers"), options.get("repeatable")
        url = self.endpoint + path + (f"?{urlencode(query, quote_via=quote, safe='')}" if query else "")
        prefix = f"{self._impl}: {doing}"
        repeatable = method in _READS if repeatable is None else repeatable
        attempts = Attempts(self._retry, self._limit)
        renewed = False
        while True:
            self.meter.check(prefix)
            attempts.begin()
            if attempts.repeats and "before_repeat" in options:
                options["before_repeat"]()
            token = self._tokens.token()
            if token is not None:
                self._secrets.add(token)
            answer = self._send(self._prepare(method, url, token, options), prefix)
            if isinstance(answer, NoAnswer):
                goes_on = (answer.was_never_sent or (answer.is_transient and repeatable)) and attempts.wait_to_retry()
            elif 200 <= answer.status_code < 300 or (answer.status_code == _NOT_MODIFIED and headers):
                attempts.accepted()
                self._on_response(answer.headers)
                return answer, prefix
            else:
                if not renewed and self._refuses_token(answer):
                    renewed = True
                    if self._tokens.renew(token):
                        continue
                retry_after = answer.headers.get("Retry-After")
                goes_on = attempts.may_retry(answer.status_code, retry_after, repeatable=repeatable)
            if not goes_on:
                tries = f" after {attempts.repeats + 1} tries" if attempts.repeats else ""
                if isinstance(answer, NoAnswer):
                    remedy = answer.remedy(self._endpoint_key, repeatable=repeatable)
                    raise self._error(errors.ServiceUnavailableError, f"{prefix}: {answer.problem}{tries}; {remedy}")
                raise self._refusal_error(
                    answer, f"{prefix}: {answer.status_code}{tries}", options.get("errors", {}), token
                )

    def _refuses_token(self, answer: Response) -> bool:
        """Return whether a response refuses the token, by its status or error body."""
        if answer.status_code in _TOKEN_REFUSED:
            return True
        if answer.status_code != _FORBIDDEN or self._translate is None:
            return False
        vendor = self._translate(_refusal_of(answer))
        return vendor is not None and vendor.kind is errors.UnauthenticatedError

    def _prepare(self, method: str, url: str, token: str | None, options: RequestOptions) -> PreparedRequest:
        body, form = options.get("body"), options.get("form")
        if token is not None and not (token.isascii() and token.isprintable()):
            raise self._error(
                errors.InvalidInputError, f"{self._impl}: `{self._token_key}` holds what no header can carry"
            )
        if body is None and form is None:
            # Checking an address and the headers of all requests takes requests a third of the time of a small GET.
            if method not in self._bodyless_requests:
                self._bodyless_requests[method] = self._new_request(method, None, None)
            prepared = self._bodyless_requests[method].copy()
        else:
            prepared = self._new_request(method, body, form)
        prepared.headers.update(options.get("headers") or {})
        if token is not None:
            prepared.headers["Authorization"] = f"Bearer {token}"
        # requests decodes what need not be encoded (%2E becomes a dot), which changes names in some servers' paths.
        prepared.url = url
        if self._sign is not None:
            self._secrets.update(self._sign(prepared))
        return prepared

    def _new_request(self, method: str, body: object, form: Mapping[str, str] | None) -> PreparedRequest:
        """Return a prepared request to the endpoint itself; the caller sets the path."""
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

        self.meter.count_request()
        try:
            answer = self._session.send(request, timeout=self._timeouts, allow_redirects=False, **self._environment)
            # What `Response.content` gives from now on; requests itself would read without an end.
            answer._content = read_content(answer, self._limits.answer_bytes)  # noqa: SLF001
        except ResponseTooLargeError as error:
            raise self._error(errors.InternalError, f"{prefix}: {error}") from None
        except (RequestException, HTTPError, UnicodeError) as error:
            return NoAnswer(error, self.endpoint, self._timeouts, self._limits.request_seconds)
        self.meter.count_bytes(len(answer.content))
        return answer

    def _refusal_error(
        self, answer: Response, text: str, expected: Mapping[int, type[errors.BackendError]], token: str | None
    ) -> errors.BackendError:
        """Return the error for a response outside 2xx; its message begins with ``text``."""
        refusal = _refusal_of(answer)
        vendor = self._translate(refusal) if self._translate and refusal.body is not None else None
        kind = error_type(refusal, vendor, expected)
        detail = redacted_excerpt(tuple(self._secrets), vendor.message) if vendor else self._excerpt(answer)
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
            ended = _expiry_of(token)
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
        return redacted_excerpt(tuple(self._secrets), answer.text, answer.headers.get("Content-Type", ""))


def _expiry_of(token: str) -> datetime | None:
    """Return when a JSON Web Token expires (RFC 7519, 4.1.4); None for other tokens."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
        return None
