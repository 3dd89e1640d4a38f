"""Translate the errors of botocore and Glue."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from reconciler.backends.aws_login import NO_MFA, login_refusal, plain_code, unreadable_file
from reconciler.backends.http.limits import ResponseTooLargeError
from reconciler.backends.http.refusals import is_html, redacted_excerpt
from reconciler.backends.http.retry import THROTTLED, Attempts
from reconciler.model import errors
from reconciler.model.redaction import scrub

if TYPE_CHECKING:
    from botocore.exceptions import BotoCoreError, ClientError


ResultT = TypeVar("ResultT")

_POLICIES = "the least policy is in docs/catalogs/glue.md"
_DENIED_ACTION = re.compile(r"not authorized to perform: ([\w:*]+)(?: on resource: (\S+))?")
# IAM's troubleshooting page: which policy denies, or which would have to allow.
_DENYING_POLICY = re.compile(
    r"with an explicit deny in an? [\w -]+policy|because no [\w -]+policy allows", re.IGNORECASE
)
# What Lake Formation answers through Glue: `Insufficient Lake Formation permission(s): Required Describe on clicks`.
_LAKE_FORMATION = re.compile(r"Lake Formation permission\(s\):? *(.*)", re.IGNORECASE | re.DOTALL)


class RepeatedError(Exception):
    """A retried write was refused; its first attempt may have been carried out."""

    def __init__(self, refusal: errors.BackendError) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


@contextmanager
def accept_repeat_unless(differs: Callable[[], bool]) -> Iterator[None]:
    """Ignore RepeatedError inside if the first attempt of the write succeeded.

    ``differs`` reads the object and returns whether it differs from the written one.

    Raises:
        BackendError: the refusal, if the object differs.
    """
    try:
        yield
    except RepeatedError as repeated:
        if differs():
            raise repeated.refusal from None


def send_prepared_again(
    attempts: Attempts, prepare: Callable[[], tuple[Callable[[], None], ResultT]], *, removes: bool = False
) -> ResultT:
    """Send a write that ``prepare`` returns, preparing it again for each retry.

    ``prepare`` reads the object, and returns a function that sends the write, and the result to return. Other clients
    may change the object between attempts. ``removes``: an object that is missing after a failure was removed by an
    earlier attempt.

    Raises:
        BackendError: raised by ``prepare``, or by the last attempt.
    """
    send, result = prepare()
    while True:
        try:
            send()
            break
        except errors.ThrottlingError:
            if not attempts.may_retry_throttled():
                raise
        except errors.ServiceUnavailableError:
            if not attempts.wait_to_retry():
                raise
        try:
            send, result = prepare()
        except (errors.NamespaceNotFoundError, errors.TableNotFoundError):
            if not removes:
                raise
            break
    return result


class WebPageError(errors.InternalError):
    """The response is a web page, not Glue's."""


class NoAnswerError(Exception):
    """No response came, or one that is not Glue's; ``kind`` is the class to raise."""

    def __init__(self, problem: str, kind: type[errors.BackendError] = errors.ServiceUnavailableError) -> None:
        super().__init__(problem)
        self.kind = kind


# Error codes of Glue and STS, as :func:`plain_code` has them.
_DENIED = ("AccessDenied", "UnauthorizedOperation")
_KINDS: dict[str, type[errors.BackendError]] = {
    **dict.fromkeys(("ConcurrentModification", "VersionMismatch"), errors.ConcurrentModificationError),
    **dict.fromkeys(
        ("InvalidInput", "Validation", "Serialization", "ResourceNumberLimitExceeded"), errors.InvalidInputError
    ),
    "GlueEncryption": errors.PermissionDeniedError,
    **dict.fromkeys(
        ("ConcurrentRunsExceeded", "LimitExceeded", "RequestLimitExceeded", "SlowDown"), errors.ThrottlingError
    ),
    **dict.fromkeys(("RequestThrottled", "Throttled", "Throttling", "TooManyRequests"), errors.ThrottlingError),
    **dict.fromkeys(
        ("OperationNotSupported", "UnsupportedOperation", "UnknownOperation"), errors.UnsupportedOperationError
    ),
    **dict.fromkeys(("InvalidAction", "NotImplemented"), errors.UnsupportedOperationError),
    **dict.fromkeys(("OperationTimeout", "ResourceNotReady", "ServiceUnavailable"), errors.ServiceUnavailableError),
    **dict.fromkeys(("FederationSource", "FederationSourceRetryable"), errors.ServiceUnavailableError),
    **dict.fromkeys(("InternalService", "InternalFailure"), errors.ServiceUnavailableError),
}


@contextmanager
def translated(
    operation: str,
    subject: str,
    secrets: Collection[str],
    meanings: Mapping[str, errors.BackendError],
    done: str | None,
) -> Iterator[None]:
    """Translate every error of botocore that is raised inside.

    Args:
        operation: the Glue operation called inside, such as ``GetTables``.
        subject: the object, as the user knows it.
        secrets: values that no message may hold.
        meanings: the errors for codes about the object itself.
        done: the error code of a retried request whose first attempt was carried out.

    Raises:
        BackendError: of the fitting type, without a cause, because botocore's texts may quote credentials.
        RepeatedError: a retried request got the code ``done``.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        refusal = _error_of_code(operation, subject, error, secrets, meanings)
        if done is not None and _code(error) == done and _attempts(error) > 1:
            raise RepeatedError(refusal) from None
        raise refusal from None
    except (BotoCoreError, NoAnswerError) as error:
        raise _failure_error(f"glue: {operation} on {subject}", error, secrets) from None
    except ResponseTooLargeError as error:
        raise errors.InternalError(f"glue: {operation} on {subject}: {error}") from None
    except OSError as error:
        if not error.filename:
            raise
        raise unreadable_file("glue", error) from None  # one with a token, read again to renew the credentials
    except _malformed_answer_errors():
        prefix = f"glue: {operation} on {subject}"
        raise errors.InternalError(f"{prefix}: the answer cannot be read; is the endpoint a Glue service?") from None


def is_throttled(parsed: Mapping[str, Any]) -> bool:
    """Return whether a parsed response refuses a request because of the load."""
    status = parsed.get("ResponseMetadata", {}).get("HTTPStatusCode")
    code = str(parsed.get("Error", {}).get("Code", "")).rpartition("#")[2]
    return status in THROTTLED or _KINDS.get(plain_code(code)) is errors.ThrottlingError


def _malformed_answer_errors() -> tuple[type[Exception], ...]:
    """Return the errors that botocore, or reading its result, raises if malformed."""
    from botocore.parsers import ResponseParserError

    return ResponseParserError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "")).rpartition("#")[2]


def _attempts(error: ClientError) -> int:
    metadata: dict[str, Any] = dict(error.response.get("ResponseMetadata", {}))
    return int(metadata.get("RetryAttempts", 0)) + 1


def _error_of_code(
    operation: str,
    subject: str,
    error: ClientError,
    secrets: Collection[str],
    meanings: Mapping[str, errors.BackendError],
) -> errors.BackendError:
    """Return the error for a response with an error code."""
    code = _code(error)
    message = str(error.response.get("Error", {}).get("Message", ""))
    is_sts = error.operation_name.startswith("AssumeRole")
    prefix = f"glue: {error.operation_name if is_sts else f'{operation} on {subject}'}"
    if code in meanings:
        return meanings[code]
    plain, refused = plain_code(code), login_refusal(code, region="the region", signing="check the keys")
    if plain in _DENIED:
        return errors.PermissionDeniedError(
            f"{prefix}: access denied: {_missing_permission(message, error.operation_name, secrets)}"
        )
    if refused is not None:
        return errors.UnauthenticatedError(f"{prefix}: {refused}")
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    failed = WebPageError if is_html(message.encode(), "") else errors.InternalError
    maker = _KINDS.get(plain) or (errors.ServiceUnavailableError if status in (502, 503, 504) else failed)
    if maker is errors.ThrottlingError:
        problem = f"throttled after {_attempts(error)} attempts" if _attempts(error) > 1 else "throttled"
        return errors.ThrottlingError(f"{prefix}: {problem} ({code}); try again later")
    return maker(f"{prefix}: {code or f'HTTP {status}'}: {_one_line(message, secrets)}")


def _missing_permission(message: str, operation: str, secrets: Collection[str]) -> str:
    """Describe the missing permission, the policy that denies it, and the remedy."""
    grants = _LAKE_FORMATION.search(message)
    if grants:
        detail = _one_line(grants[1], secrets)
        return f"Lake Formation denies access{f': {detail}' if detail else ''}; grant its permissions beside IAM's"
    service = "sts" if operation.startswith("AssumeRole") else "glue"
    match = _DENIED_ACTION.search(message)
    action = match[1] if match else f"{service}:{operation}"
    resource = match[2].rstrip(".,;") if match and match[2] else ""
    if resource.startswith("arn:") and resource.count(":") >= 5:
        resource = resource.split(":", 5)[5]
    missing = f"the credentials lack {action}{f' on {resource}' if resource else ''}"
    policy = _DENYING_POLICY.search(message)
    if policy is None or "identity-based policy allows" in policy[0]:
        return f"{missing}; {_POLICIES}"
    return f"{missing}, {policy[0]}{' it' if policy[0].endswith('allows') else ''}; change that policy"


def _failure_error(prefix: str, raised: BotoCoreError | NoAnswerError, secrets: Collection[str]) -> errors.BackendError:
    """Return the error for a request without a response, or with a malformed one."""
    from botocore import exceptions

    error = raised.kwargs.get("error", raised) if isinstance(raised, exceptions.HTTPClientError) else raised
    detail = _one_line(str(error), secrets)
    match error:
        case NoAnswerError():
            return error.kind(f"{prefix}: {scrub(str(error), secrets)}")
        case exceptions.NoCredentialsError():
            hint = "no credentials; set `access_key_id` and `secret_access_key`, a profile, or a role"
            return errors.UnauthenticatedError(f"{prefix}: {hint}")
        case (
            exceptions.PartialCredentialsError()
            | exceptions.CredentialRetrievalError()
            | exceptions.TokenRetrievalError()
            | exceptions.MetadataRetrievalError()
            | exceptions.SSOError()
            | exceptions.LoginError()
            | exceptions.MissingDependencyException()
        ):
            return errors.UnauthenticatedError(f"{prefix}: {detail}")
        case exceptions.RefreshWithMFAUnsupportedError():
            return errors.UnauthenticatedError(f"{prefix}: {NO_MFA}")
        case exceptions.NoRegionError():
            return errors.InvalidInputError(f"{prefix}: no region; set `region` or AWS_DEFAULT_REGION")
        case (
            exceptions.ProfileNotFound()
            | exceptions.InvalidConfigError()
            | exceptions.ConfigNotFound()
            | exceptions.ConfigParseError()
            | exceptions.InvalidRegionError()
            | exceptions.UnknownRegionError()
            | exceptions.InvalidIMDSEndpointError()
            | exceptions.InvalidIMDSEndpointModeError()
            | exceptions.ParamValidationError()
        ):
            return errors.InvalidInputError(f"{prefix}: {detail}")
        case _:
            return errors.InternalError(f"{prefix}: {detail}")


def _one_line(message: str, secrets: Collection[str]) -> str:
    """Return the beginning of a service's text as one line, without secrets.

    A web page is shown by its title.
    """
    return " ".join(redacted_excerpt(secrets, message).split())
