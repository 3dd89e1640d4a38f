"""Sending what botocore has signed, up to the limits of one answer: bytes, objects and time.

botocore has no such limits. A handler of its event `before-send` may answer in the place of its own connections.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from reconciler.backends.glue.aws_errors import NoAnswerError, UnansweredError
from reconciler.backends.http.failures import NoAnswer
from reconciler.backends.http.limits import TooMuchError, adapter, content_of, holds_too_much
from reconciler.backends.http.refusals import excerpt, is_html

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse
    from requests import Response

    from reconciler.backends.glue.config import GlueConfig
    from reconciler.backends.http.scans import Scans


_CONNECTIONS = 32


class Sender:
    """Sends the requests of botocore's clients. Safe to use from several threads.

    Args:
        config: its limits count.
        scans: count what is sent and read.
        authority: the file of certificates that AWS's configuration names.
        timeouts: seconds, for the connection and for each wait for data.
    """

    def __init__(self, config: GlueConfig, scans: Scans, authority: str | None, timeouts: tuple[float, float]) -> None:
        from requests import Session

        self._limits = config.limits
        self._scans = scans
        self._authority = authority
        self._timeouts = timeouts
        self._session = Session()
        self._session.headers.clear()  # botocore has set and signed its own
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, adapter(_CONNECTIONS, self._limits.request_seconds))

    def attach(self, client: Any) -> None:
        """Send the requests of ``client``, one of boto3's, from now on."""
        client.meta.events.register(f"before-send.{client.meta.service_model.service_id.hyphenize()}", self._answer)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _answer(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        """Return the answer to a request.

        Raises:
            HTTPClientError: none came, or none of AWS's; botocore sends the request again.
            UnansweredError: none came, and none will.
            TooMuchError: it is larger than is taken.
        """
        from botocore.awsrequest import AWSResponse
        from botocore.exceptions import HTTPClientError
        from requests.exceptions import RequestException
        from urllib3.exceptions import HTTPError

        self._scans.sends()
        try:
            answer = self._sent(request)
            content = content_of(answer, self._limits.answer_bytes)
        except (RequestException, HTTPError) as error:
            failure = NoAnswer(error)
            problem = failure.explain(request.url.partition("?")[0], self._timeouts, self._limits.request_seconds)
            told = UnansweredError(problem)
            if failure.may_pass or failure.was_never_sent:
                raise HTTPClientError(error=told) from None
            raise told from None
        self._scans.took(len(content))
        if holds_too_much(content):
            raise TooMuchError("the answer holds more objects than any list that is read here")
        problem_of_content = _problem(answer, content)
        if problem_of_content is not None:
            raise HTTPClientError(error=problem_of_content)
        headers: Any = answer.headers
        return AWSResponse(request.url, answer.status_code, headers, _Content(content))

    def _sent(self, request: AWSPreparedRequest) -> Response:
        body: Any = request.body
        environment = self._session.merge_environment_settings(request.url, {}, True, self._authority, None)
        return self._session.request(
            request.method,
            request.url,
            data=body,
            headers={name: _text(value) for name, value in request.headers.items()},
            auth=lambda prepared: prepared,  # with one of its own, which adds nothing, .netrc is not read
            timeout=self._timeouts,
            allow_redirects=False,
            **environment,
        )


class _Content(io.BytesIO):
    """What was read, in the form in which botocore reads an answer."""

    def stream(self) -> list[bytes]:
        return [self.getvalue()]


def _text(value: str | bytes) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _problem(answer: Response, content: bytes) -> Exception | None:
    """Return what is wrong with a success that AWS cannot have answered; None where nothing is.

    botocore takes a web page, or JSON with a hole in it, for the empty answer of a write.
    """
    told = answer.headers.get("Content-Type", "")
    stripped = content.strip()
    if answer.status_code >= 300 or not stripped or "xml" in told:  # STS answers XML
        return None
    if stripped[:1] != b"{":
        return NoAnswerError(excerpt(content.decode("utf-8", "replace"), told), is_page=is_html(content, told))
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return UnansweredError("the answer is damaged: its JSON does not come to an end")
    return None
