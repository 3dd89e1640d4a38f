"""The one boto3 client of a backend: who it speaks as, how long it waits and how often it tries."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from reconciler.backends.aws_login import credential_faults_told, session_without_questions
from reconciler.backends.glue.sending import Sender
from reconciler.model.errors import UnauthenticatedError

if TYPE_CHECKING:
    from boto3 import Session
    from botocore.config import Config
    from botocore.credentials import RefreshableCredentials
    from mypy_boto3_glue import GlueClient
    from mypy_boto3_sts.type_defs import AssumeRoleRequestTypeDef

    from reconciler.backends.glue.config import GlueConfig
    from reconciler.backends.http.scans import Scans


_CONNECT_SECONDS = 10
READ_SECONDS = 60
_TRIES = 5
# botocore renews credentials this long before they end; a role's shorter session gets a smaller part of its life.
_RENEW_SECONDS = 900
_RENEW_AT_LEAST_SECONDS = 600


def connect(config: GlueConfig, scans: Scans) -> tuple[GlueClient, Sender]:
    """Return a client for Glue and what sends its requests; a role is assumed here, before the first request.

    Raises:
        UnauthenticatedError: STS answered with credentials that have ended already, or there are none to be had.
        InvalidInputError: a file that AWS's configuration names cannot be read.
        BotoCoreError, ClientError: see ``refusals``.
    """
    _keep_credentials_out_of_logs()
    import boto3

    base = session_without_questions("glue")
    session = boto3.Session(
        botocore_session=base,
        aws_access_key_id=config.access_key_id,
        aws_secret_access_key=config.secret_access_key.get_secret_value() if config.secret_access_key else None,
        aws_session_token=config.session_token.get_secret_value() if config.session_token else None,
        region_name=config.region,
    )
    with credential_faults_told("glue"):
        credentials = session.get_credentials()
        if credentials is not None:
            credentials.get_frozen_credentials()
    sender = Sender(config, scans, base.get_config_variable("ca_bundle"), (_CONNECT_SECONDS, READ_SECONDS))
    if config.assume_role_arn is not None:
        session = _as_role(session, config, sender)
    client = session.client("glue", endpoint_url=config.endpoint, config=_settings())
    sender.attach(client)
    return client, sender


def _settings() -> Config:
    from botocore.config import Config

    return Config(retries={"mode": "adaptive", "total_max_attempts": _TRIES})


def _as_role(session: Session, config: GlueConfig, sender: Sender) -> Session:
    """Return a session that speaks as the configured role and renews its credentials before they end."""
    import boto3
    from botocore.credentials import CredentialProvider, CredentialResolver
    from botocore.session import get_session

    class Role(CredentialProvider):
        METHOD = "sts-assume-role"

        def load(self) -> RefreshableCredentials:
            return _role_credentials(session, config, sender, self.METHOD)

    assumed = get_session()
    assumed.register_component("credential_provider", CredentialResolver([Role()]))
    return boto3.Session(botocore_session=assumed, region_name=session.region_name)


def _role_credentials(session: Session, config: GlueConfig, sender: Sender, method: str) -> RefreshableCredentials:
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
        sender.attach(sts)
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
