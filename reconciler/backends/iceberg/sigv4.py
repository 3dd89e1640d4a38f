"""Sign requests with AWS Signature Version 4, for S3 Tables and Glue's endpoint.

The keys are those of Iceberg's clients (`rest.sigv4-enabled`, `rest.signing-name`, `rest.signing-region`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from reconciler.backends.aws_login import credential_errors, login_refusal, session_without_questions
from reconciler.backends.http.config import revealed
from reconciler.backends.http.refusals import Refusal, VendorError
from reconciler.backends.iceberg.answers import translate
from reconciler.model import errors

if TYPE_CHECKING:
    from requests import PreparedRequest

    from reconciler.backends.iceberg.config import IcebergConfig


_SIGNED_HEADERS = ("content-type", "x-iceberg-access-delegation")
_SIGNING_KEYS = "`rest.signing-name`, `rest.signing-region`"
_NO_CREDENTIALS = (
    "there are no AWS credentials to sign with; set `rest.access-key-id` and `rest.secret-access-key`, or AWS_PROFILE "
    "or AWS_ACCESS_KEY_ID in the environment, or run where a role gives them"
)
_KINDS: Mapping[str, type[errors.BackendError]] = {
    "AccessDeniedException": errors.PermissionDeniedError,
    "ThrottlingException": errors.ThrottlingError,
    "TooManyRequestsException": errors.ThrottlingError,
    "ValidationException": errors.InvalidInputError,
}


class Signer:
    """Signs the requests of one catalog; renews expiring credentials. Thread-safe.

    Raises:
        MissingExtraError: botocore is not installed.
        InvalidInputError: neither the configuration nor the environment names a region, or a file that AWS's
            configuration names cannot be read.
        UnauthenticatedError: there are no credentials.
    """

    def __init__(self, config: IcebergConfig) -> None:
        try:
            from botocore.credentials import Credentials
            from botocore.exceptions import BotoCoreError
        except ImportError as error:
            raise errors.MissingExtraError("`rest.sigv4-enabled` of impl `iceberg`", "glue") from error
        self._name = config.signing_name
        key, secret = config.access_key_id, revealed(config.secret_access_key)
        try:
            session = session_without_questions("iceberg")
            self._region = config.signing_region or session.get_config_variable("region")
            with credential_errors("iceberg"):
                credentials = (
                    session.get_credentials()
                    if key is None or secret is None
                    else Credentials(key, secret, revealed(config.session_token))
                )
        except BotoCoreError as error:
            raise errors.UnauthenticatedError(f"iceberg: {_NO_CREDENTIALS} ({type(error).__name__}: {error})") from None
        if credentials is None:
            raise errors.UnauthenticatedError(f"iceberg: {_NO_CREDENTIALS}")
        self._credentials = credentials
        if not self._region:
            raise errors.InvalidInputError(
                "iceberg: no region to sign for; set `rest.signing-region`, or AWS_DEFAULT_REGION in the environment"
            )

    def __call__(self, request: PreparedRequest) -> Collection[str]:
        """Sign ``request``; return the secrets that errors must not show.

        The signature covers only headers that no proxy changes on the way.
        """
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ClientError

        prefix = "iceberg: the AWS credentials cannot be renewed"
        try:
            with credential_errors("iceberg"):
                credentials = self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise errors.UnauthenticatedError(f"{prefix} ({type(error).__name__}: {error})") from None
        except ClientError as error:  # STS refuses the role
            refused = login_refusal(error.response["Error"]["Code"], region="the region", signing="check the keys")
            raise errors.UnauthenticatedError(f"{prefix}: {error.operation_name}: {refused or error}") from None
        headers = {name: value for name, value in request.headers.items() if name.lower() in _SIGNED_HEADERS}
        signed = AWSRequest(method=request.method, url=request.url, data=request.body or b"", headers=headers)
        SigV4Auth(credentials, self._name, self._region).add_auth(signed)
        request.headers.update(dict(signed.headers.items()))
        return [text for text in (credentials.secret_key, credentials.token) if text]


def translate_signed(refusal: Refusal) -> VendorError | None:
    """Translate an error body of the catalog, or of AWS in front of it."""
    vendor = translate(refusal)
    body = refusal.body if isinstance(refusal.body, Mapping) else {}
    headers = {name.lower(): value for name, value in refusal.headers.items()}
    named = str(headers.get("x-amzn-errortype") or body.get("__type") or "")
    code = named.partition(":")[0].rpartition("#")[2]
    refused = login_refusal(code, region=_SIGNING_KEYS, signing="set `rest.sigv4-enabled` to true")
    if refused is not None:
        return VendorError(refused, errors.UnauthenticatedError)
    if vendor is None and not body:
        return None
    message = vendor.message if vendor is not None else str(body.get("message") or body.get("Message") or code)
    kind = vendor.kind if vendor is not None and vendor.kind is not None else _KINDS.get(code)
    if refusal.status == 403:
        message += (
            "; grant the caller what is missing, in its policies and, where it governs the tables, in Lake Formation"
        )
    return VendorError(message, kind)
