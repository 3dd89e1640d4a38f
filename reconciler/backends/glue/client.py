"""The one boto3 client of a backend: who it speaks as, how long it waits and how often it tries."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from reconciler.backends.aws_login import credential_faults_told, session_without_questions
from reconciler.backends.glue.bounded import bound
from reconciler.backends.glue.refusals import NoAnswerError
from reconciler.backends.http.refusals import excerpt, is_html
from reconciler.errors import UnauthenticatedError

if TYPE_CHECKING:
    from boto3 import Session
    from botocore.awsrequest import AWSResponse
    from botocore.config import Config
    from botocore.credentials import RefreshableCredentials
    from mypy_boto3_glue import GlueClient
    from mypy_boto3_sts.type_defs import AssumeRoleRequestTypeDef

    from reconciler.backends.glue.config import GlueConfig
    from reconciler.backends.http.scans import Scans

__all__ = ["connect"]

_CONNECT_SECONDS = 10
_READ_SECONDS = 60
_TRIES = 5
_CONNECTIONS = 32
# botocore renews credentials this long before they end; a role's shorter session gets a smaller part of its life.
_RENEW_SECONDS = 900
_RENEW_AT_LEAST_SECONDS = 600


def connect(config: GlueConfig, scans: Scans) -> GlueClient:
    """Return a client for Glue that counts its answers for ``scans``; a role is assumed here, before the first request.

    Raises:
        UnauthenticatedError: STS answered with credentials that have ended already, or there are none to be had.
        InvalidInputError: a file that AWS's configuration names cannot be read.
        BotoCoreError, ClientError: see ``refusals``.
    """
    _keep_credentials_out_of_logs()
    import boto3

    session = boto3.Session(
        botocore_session=session_without_questions("glue"),
        aws_access_key_id=config.access_key_id,
        aws_secret_access_key=config.secret_access_key.get_secret_value() if config.secret_access_key else None,
        aws_session_token=config.session_token.get_secret_value() if config.session_token else None,
        region_name=config.region,
    )
    with credential_faults_told("glue"):
        credentials = session.get_credentials()
        if credentials is not None:
            credentials.get_frozen_credentials()
    if config.assume_role_arn is not None:
        session = _as_role(session, config, scans)
    client = session.client("glue", endpoint_url=config.endpoint, config=_settings())
    bound(client, config, scans)
    client.meta.events.register("after-call.glue", _refuse_pages)
    return client


def _refuse_pages(http_response: AWSResponse, **_: object) -> None:
    """Refuse a success that Glue cannot have answered: botocore takes a login page for the empty answer of a write.

    Raises:
        NoAnswerError: saying what came.
    """
    content = http_response.content.strip()
    if http_response.status_code < 300 and content and not (content[:1] == b"{" and content[-1:] == b"}"):
        told = http_response.headers.get("Content-Type", "")
        raise NoAnswerError(excerpt(http_response.text, told), is_page=is_html(content, told))


def _settings() -> Config:
    from botocore.config import Config

    return Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        max_pool_connections=_CONNECTIONS,
        retries={"mode": "adaptive", "total_max_attempts": _TRIES},
    )


def _as_role(session: Session, config: GlueConfig, scans: Scans) -> Session:
    """Return a session that speaks as the configured role and renews its credentials before they end."""
    import boto3
    from botocore.credentials import CredentialProvider, CredentialResolver
    from botocore.session import get_session

    class Role(CredentialProvider):
        METHOD = "sts-assume-role"

        def load(self) -> RefreshableCredentials:
            return _role_credentials(session, config, scans, self.METHOD)

    assumed = get_session()
    assumed.register_component("credential_provider", CredentialResolver([Role()]))
    return boto3.Session(botocore_session=assumed, region_name=session.region_name)


def _role_credentials(session: Session, config: GlueConfig, scans: Scans, method: str) -> RefreshableCredentials:
    from botocore.credentials import RefreshableCredentials

    lifetime = config.assume_role_timeout_sec
    request: AssumeRoleRequestTypeDef = {
        "RoleArn": config.assume_role_arn or "",
        "RoleSessionName": config.assume_role_session_name,
        "DurationSeconds": lifetime,
    }
    if config.assume_role_external_id is not None:
        request["ExternalId"] = config.assume_role_external_id.get_secret_value()

    def fetch() -> dict[str, str]:
        sts = session.client("sts", region_name=config.assume_role_region or session.region_name, config=_settings())
        bound(sts, config, scans)
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


def _keep_credentials_out_of_logs() -> None:
    """Silence what botocore logs of signed requests and of STS's answers, unless somebody has set a level for it."""
    for name, level in (("botocore", logging.INFO), ("botocore.credentials", logging.ERROR)):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(level)
