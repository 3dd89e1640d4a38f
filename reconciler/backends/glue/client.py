"""Create boto3 clients, and send their requests within limits."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import requests
from boto3 import Session
from botocore.awsrequest import AWSPreparedRequest, AWSRequest, AWSResponse
from botocore.config import Config
from botocore.credentials import CredentialProvider, CredentialResolver, RefreshableCredentials
from botocore.exceptions import HTTPClientError
from botocore.session import get_session
from botocore.utils import parse_timestamp
from urllib3.exceptions import HTTPError

from reconciler.backends.aws_login import credential_errors, session_without_questions
from reconciler.backends.glue.aws_errors import NoAnswerError, is_throttled
from reconciler.backends.glue.config import GlueConfig
from reconciler.backends.http.limits import (
    ResponseTooLargeError,
    TrafficMeter,
    WaitLimits,
    has_too_many_objects,
    read_content,
    timed_session,
)
from reconciler.backends.http.rate_limit import RateLimit
from reconciler.backends.http.refusals import excerpt, is_html
from reconciler.backends.http.retry import UNAVAILABLE, Attempts, NoAnswer, RetryPolicy
from reconciler.model.errors import InternalError, UnauthenticatedError

if TYPE_CHECKING:
    from mypy_boto3_glue import GlueClient
    from mypy_boto3_sts.type_defs import AssumeRoleRequestTypeDef


_CONNECTIONS = 32
_CONNECT_SECONDS = 10
READ_SECONDS = 60
# Retries are lancens' own: botocore 1.44's adaptive mode uses only 56% of a limit of 10 writes a second.
_SETTINGS = Config(retries={"mode": "standard", "total_max_attempts": 1})
_MAX_RETRIES = 4
_TRANSIENT_STATUSES = frozenset({500, 502, 504})
_ATTEMPTS = "lancens_attempts"
_CHECK = "check `region`, `endpoint` and the network"
# botocore renews credentials this long before they expire; shorter sessions use a fraction of their lifetime.
_RENEW_SECONDS = 900
_RENEW_AT_LEAST_SECONDS = 600
_YEAR_9999 = 253_370_764_800


def connect(config: GlueConfig, meter: TrafficMeter, limit: RateLimit) -> tuple[GlueClient, GlueClient, Sender]:
    """Return a Glue client that retries, one that does not, and their sender.

    A configured role is assumed first. All requests to Glue share ``limit``.

    Raises:
        UnauthenticatedError: STS answered with credentials that have ended already, or there are none to be had.
        InvalidInputError: a file that AWS's configuration names cannot be read.
        BotoCoreError, ClientError: see ``refusals``.
    """
    base = session_without_questions("glue")
    base.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_parse_time)
    session = Session(
        botocore_session=base,
        aws_access_key_id=config.access_key_id,
        aws_secret_access_key=config.secret_access_key.get_secret_value() if config.secret_access_key else None,
        aws_session_token=config.session_token.get_secret_value() if config.session_token else None,
        region_name=config.region,
    )
    with credential_errors("glue"):
        credentials = session.get_credentials()
        if credentials is not None:
            credentials.get_frozen_credentials()
    sender = Sender(config, meter, base.get_config_variable("ca_bundle"), (_CONNECT_SECONDS, READ_SECONDS))
    if config.assume_role_arn is not None:
        session = _as_role(session, config, sender)
    repeating, once = (session.client("glue", endpoint_url=config.endpoint, config=_SETTINGS) for _ in range(2))
    sender.attach(repeating, limit)
    sender.attach(once, limit, repeats=False)
    return repeating, once, sender


def retry_policy(limits: WaitLimits) -> RetryPolicy:
    """Return the limits of retries."""
    return RetryPolicy(_MAX_RETRIES, limits.max_wait)


def _as_role(session: Session, config: GlueConfig, sender: Sender) -> Session:
    """Return a session of the configured role that renews its credentials in time."""

    class Role(CredentialProvider):
        METHOD = "sts-assume-role"

        def load(self) -> RefreshableCredentials:
            return _role_credentials(session, config, sender, self.METHOD)

    assumed = get_session()
    assumed.register_component("credential_provider", CredentialResolver([Role()]))
    return Session(botocore_session=assumed, region_name=session.region_name)


def _role_credentials(session: Session, config: GlueConfig, sender: Sender, method: str) -> RefreshableCredentials:
    lifetime = config.assume_role_timeout_sec
    request: AssumeRoleRequestTypeDef = {
        "RoleArn": config.assume_role_arn or "",
        "RoleSessionName": config.assume_role_session_name,
        "DurationSeconds": lifetime,
    }
    if config.assume_role_external_id is not None:
        request["ExternalId"] = config.assume_role_external_id.get_secret_value()

    def fetch() -> dict[str, str]:
        sts = session.client("sts", region_name=config.assume_role_region or session.region_name, config=_SETTINGS)
        sender.attach(sts, RateLimit())
        answer = sts.assume_role(**request)["Credentials"]
        if answer["Expiration"] <= datetime.now(UTC):
            raise UnauthenticatedError("glue: AssumeRole answered credentials that have ended; check the clock")
        return {
            "access_key": answer["AccessKeyId"],
            "secret_key": answer["SecretAccessKey"],
            "token": answer["SessionToken"],
            "expiry_time": answer["Expiration"].isoformat(),
        }

    return RefreshableCredentials.create_from_metadata(
        fetch(),
        refresh_using=fetch,
        method=method,
        advisory_timeout=min(_RENEW_SECONDS, lifetime // 3),
        mandatory_timeout=min(_RENEW_AT_LEAST_SECONDS, lifetime // 6),
    )


# ---- sending ---------------------------------------------------------------------------------------------------------


class Sender:
    """Sends signed requests of boto3, within limits of bytes, objects and time.

    botocore has no such limits; its event `before-send` lets a handler send the request instead. Thread-safe.

    Args:
        config: holds the limits.
        meter: counts the requests and the bytes of their answers.
        authority: the file of certificates that AWS's configuration names.
        timeouts: seconds, for the connection and for each wait for data.
    """

    def __init__(
        self, config: GlueConfig, meter: TrafficMeter, authority: str | None, timeouts: tuple[float, float]
    ) -> None:
        self._limits = config
        self._meter = meter
        self._authority = authority
        self._timeouts = timeouts
        self._session = timed_session(_CONNECTIONS, self._limits.request_seconds)
        self._session.headers.clear()  # botocore has set and signed its own

    def attach(self, client: Any, limit: RateLimit, *, repeats: bool = True) -> None:
        """Send all requests of a boto3 ``client``, at the rate that ``limit`` allows.

        ``repeats``: whether requests are retried.
        """
        events, service = client.meta.events, client.meta.service_model.service_id.hyphenize()
        # Wait for the rate limit before signing: signatures expire.
        events.register_first(f"request-created.{service}", partial(self._wait_for_turn, limit))
        events.register(f"before-send.{service}", self._send_within_limits)
        events.register(f"needs-retry.{service}", partial(_delay_of_retry, repeats=repeats))

    def _wait_for_turn(self, limit: RateLimit, request: AWSRequest, **_: object) -> None:
        attempts: Attempts = request.context.setdefault(_ATTEMPTS, Attempts(retry_policy(self._limits), limit))
        attempts.begin()

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _send_within_limits(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        """Send a request and return its response; botocore calls this.

        Raises:
            HTTPClientError: no response came, or one that is not AWS's; a retry may succeed.
            NoAnswerError: no response came, and a retry would not help.
            ResponseTooLargeError: the response exceeds its limits.
        """
        self._meter.count_request()
        try:
            answer = self._send(request)
            content = read_content(answer, self._limits.answer_bytes)
        except (requests.RequestException, HTTPError) as error:
            address = request.url.partition("?")[0]
            failure = NoAnswer(error, address, self._timeouts, self._limits.request_seconds)
            no_answer = NoAnswerError(f"{failure.problem}; {_CHECK}")
            if failure.is_transient or failure.was_never_sent:
                raise HTTPClientError(error=no_answer) from None
            raise no_answer from None
        self._meter.count_bytes(len(content))
        if has_too_many_objects(content):
            raise ResponseTooLargeError("the answer holds more objects than any list that is read here")
        problem_of_content = _content_error(answer, content)
        if problem_of_content is not None:
            raise HTTPClientError(error=problem_of_content)
        headers: Any = answer.headers
        return AWSResponse(request.url, answer.status_code, headers, _BufferedContent(content))

    def _send(self, request: AWSPreparedRequest) -> requests.Response:
        body: Any = request.body
        environment = self._session.merge_environment_settings(request.url, {}, True, self._authority, None)
        return self._session.request(
            request.method,
            request.url,
            data=body,
            headers={name: _text(value) for name, value in request.headers.items()},
            auth=lambda prepared: prepared,  # an `auth` that adds nothing keeps .netrc from being read
            timeout=self._timeouts,
            allow_redirects=False,
            **environment,
        )


def _delay_of_retry(
    response: tuple[AWSResponse, dict[str, Any]] | None,
    caught_exception: Exception | None,
    request_dict: dict[str, Any],
    *,
    repeats: bool,
    **_: object,
) -> int | None:
    """Return 0 to let botocore retry at once, None to use the result or error."""
    attempts: Attempts = request_dict["context"][_ATTEMPTS]
    if response is None:
        retries = isinstance(caught_exception, HTTPClientError) and repeats and attempts.wait_to_retry()
    elif is_throttled(response[1]):
        attempts.refused()
        is_unavailable = response[0].status_code == UNAVAILABLE
        retries = repeats and attempts.may_retry_throttled(is_progress_shared=not is_unavailable)
    else:
        attempts.accepted()
        retries = _is_transient(response[0]) and repeats and attempts.wait_to_retry()
    return 0 if retries else None


def _is_transient(answer: AWSResponse) -> bool:
    # moto (5.1) answers an operation that it has not got by 500 with a web page. Glue's own 500 is JSON.
    is_page = answer.status_code == 500 and is_html(answer.content, answer.headers.get("Content-Type", ""))
    return answer.status_code in _TRANSIENT_STATUSES and not is_page


def _parse_time(value: Any) -> Any:
    """Return a time of an entry as it came: nothing reads it, and parsing was half of a scan."""
    is_plain = isinstance(value, int | float) and 0 <= value < _YEAR_9999
    return value if is_plain else parse_timestamp(value)


class _BufferedContent(io.BytesIO):
    """The body of a response, as botocore reads it."""

    def stream(self) -> list[bytes]:
        return [self.getvalue()]


def _text(value: str | bytes) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _content_error(answer: requests.Response, content: bytes) -> Exception | None:
    """Return why the body of a successful response is not AWS's; None if it is.

    botocore takes a web page, or damaged JSON, for the empty answer of a write.
    """
    kind = answer.headers.get("Content-Type", "")
    stripped = content.strip()
    if answer.status_code >= 300 or not stripped or "xml" in kind:  # STS answers XML
        return None
    if stripped[:1] != b"{":
        shown = excerpt(content.decode("utf-8", "replace"), kind)
        if is_html(content, kind):
            return NoAnswerError(
                f"{shown} came, which is not Glue's; a proxy or a login page answers: check `endpoint` and the proxy "
                "settings"
            )
        return NoAnswerError(
            f"the answer cannot be read; is the endpoint a Glue service? It says: {shown}", InternalError
        )
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return NoAnswerError(f"the answer is damaged: its JSON does not end; {_CHECK}")
    return None
