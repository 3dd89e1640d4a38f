"""What botocore takes of one answer of AWS: so many bytes and so much time, and no more.

botocore has no limit of its own. Its client is let go on with a session whose connections and answers have one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.backends.http.failures import causes
from reconciler.backends.http.limits import (
    SlowAnswerError,
    TooMuchError,
    answer_class,
    holds_too_much,
    joined,
    too_slow,
)

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse

    from reconciler.backends.glue.config import GlueConfig
    from reconciler.backends.http import Limits
    from reconciler.backends.http.scans import Scans

__all__ = ["bound"]

_CHUNK = 64 * 1024


def bound(client: Any, config: GlueConfig, scans: Scans) -> None:
    """Let a client of boto3 take no more of an answer than ``config`` allows, and count it for ``scans``.

    What it then raises is a ``TooMuchError`` without the service, or a ``SlowAnswerError`` with it; neither is tried
    again.
    """
    from botocore.awsrequest import (
        AWSHTTPConnection,
        AWSHTTPConnectionPool,
        AWSHTTPSConnection,
        AWSHTTPSConnectionPool,
    )

    answer: Any = answer_class(config.request_seconds)

    class PlainConnection(AWSHTTPConnection):
        response_class = answer

    class TlsConnection(AWSHTTPSConnection):
        response_class = answer

    class PlainPool(AWSHTTPConnectionPool):
        ConnectionCls = PlainConnection

    class TlsPool(AWSHTTPSConnectionPool):
        ConnectionCls = TlsConnection

    session = client._endpoint.http_session  # noqa: SLF001 - botocore makes it with no way to say which
    session._pool_classes_by_scheme.update(http=PlainPool, https=TlsPool)  # noqa: SLF001 - the managers' own mapping
    client._endpoint.http_session = _Bounded(session, config.limits, scans)  # noqa: SLF001


class _Bounded:
    """A session of botocore that reads every answer itself."""

    def __init__(self, session: Any, limits: Limits, scans: Scans) -> None:
        self._session = session
        self._limit = limits.answer_bytes
        self._seconds = limits.request_seconds
        self._scans = scans

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        """Send a request and return the answer, read to its end."""
        request.stream_output = True  # it is read here
        self._scans.sends()
        try:
            answer: Any = self._session.send(request)
            try:
                content = joined(answer.raw.stream(_CHUNK, decode_content=False), self._limit)
            except BaseException:
                answer.raw.close()
                raise
        except Exception as error:
            if any(isinstance(cause, SlowAnswerError) for cause in causes(error)):
                raise SlowAnswerError(too_slow(request.url.partition("?")[0], self._seconds)) from None
            raise
        self._scans.took(len(content))
        if holds_too_much(content):
            raise TooMuchError("the answer holds more objects than any list that is read here")
        answer._content = content  # noqa: SLF001 - what its `content` gives from now on
        return answer  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close the pooled connections."""
        self._session.close()
