"""The configuration of a Glue catalog: its address and its credentials."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, TypeAlias

from pydantic import AfterValidator, Field, SecretStr, model_validator

from reconciler.backends.http.config import Endpoint
from reconciler.backends.http.limits import WaitLimits
from reconciler.model.backend_config import BackendConfig, Root
from reconciler.model.redaction import slow_digest

_CATALOG_ID = re.compile(r"\d{12}(:[^/:\s][^:\s]*)?")
_ROLE_ARN = re.compile(r"arn:aws[\w-]*:iam::\d{12}:role/\S+")
_REGION = re.compile(r"[a-z]{2,8}(-[a-z]+)+-\d+")
# What other services with Glue's API call their regions and catalogs, such as `local` and `hive`.
_REGION_ELSEWHERE = re.compile(r"[\w.-]{1,64}", re.ASCII)
_CATALOG_ELSEWHERE = re.compile(r"[^\s/:][^\s/]{0,254}")
_SESSION_NAME = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)

# What AWS STS takes for the life of a role's session.
_SHORTEST_SESSION_SECONDS = 900
_LONGEST_SESSION_SECONDS = 43200


def _like(pattern: re.Pattern[str], problem: str) -> AfterValidator:
    """Return a validator that raises ``problem`` for text other than ``pattern``."""

    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(problem)
        return text

    return AfterValidator(check)


_RoleArn: TypeAlias = Annotated[
    str, _like(_ROLE_ARN, "a role's ARN looks like `arn:aws:iam::123456789012:role/catalog-admin`")
]
_SessionName: TypeAlias = Annotated[
    str, _like(_SESSION_NAME, "a session name has 2 to 64 letters, digits and characters of `_+=,.@-`")
]


class GlueConfig(WaitLimits, BackendConfig):
    """The keys of the specification, "Configuration Properties".

    Without keys and a role, AWS's default credential chain is used; a role is assumed with the credentials that would
    be used without it.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "max_retries": "leave it out: throttled requests and refused connections are retried",
        "profile": "set AWS_PROFILE in the environment, and leave the keys out",
        "profile_name": "set AWS_PROFILE in the environment, and leave the keys out",
        **dict.fromkeys(("database", "databases"), "write `scope: [DATABASE/**]` beside `config`"),
        "retry_mode": "leave it out: retries adapt to the throttling of AWS",
    }
    credentials = frozenset(
        f"assume_role_{key}" for key in ("arn", "external_id", "region", "session_name", "timeout_sec")
    )

    catalog_id: str | None = None
    """The catalog to start from, ``ACCOUNT`` or ``ACCOUNT:name``; the caller's account when left out."""
    endpoint: Endpoint | None = None
    """An address other than that of AWS, such as a VPC endpoint."""
    region: str | None = None
    """The AWS region; otherwise what the environment says."""
    root: Root | None = None
    """The directory or URI that tables go under when neither they nor their database name a location."""
    access_key_id: str | None = Field(default=None, min_length=1, repr=False)
    """The access key; without one, AWS's default credential chain is used."""
    secret_access_key: SecretStr | None = Field(default=None, min_length=1)
    """Goes with `access_key_id`."""
    session_token: SecretStr | None = Field(default=None, min_length=1)
    """Goes with `access_key_id` where that is of a session."""
    assume_role_arn: _RoleArn | None = None
    """A role to assume."""
    assume_role_region: str | None = None
    """The region whose STS gives the role."""
    assume_role_external_id: SecretStr | None = Field(default=None, min_length=2)
    """The external ID that the role's trust policy requires."""
    assume_role_session_name: _SessionName = "lancens"
    """The session's name in the logs of AWS."""
    assume_role_timeout_sec: int = Field(default=3600, ge=_SHORTEST_SESSION_SECONDS, le=_LONGEST_SESSION_SECONDS)
    """How long the role is assumed for, in seconds."""

    @model_validator(mode="after")
    def _check_names(self) -> GlueConfig:
        """Check the names of AWS; a service at an ``endpoint`` may use others."""
        elsewhere = self.endpoint is not None
        region, catalog = (_REGION_ELSEWHERE, _CATALOG_ELSEWHERE) if elsewhere else (_REGION, _CATALOG_ID)
        for key, value in (("region", self.region), ("assume_role_region", self.assume_role_region)):
            if value is not None and not region.fullmatch(value):
                raise ValueError(f"`{key}`: `{value}` is not a region; one of AWS looks like `eu-west-1`")
        if self.catalog_id is not None and not (
            catalog.fullmatch(self.catalog_id) or _CATALOG_ID.fullmatch(self.catalog_id)
        ):
            raise ValueError(
                f"`catalog_id`: `{self.catalog_id}` is not a catalog; one of AWS is `ACCOUNT` or `ACCOUNT:name`, where "
                "ACCOUNT has 12 digits"
            )
        return self

    @model_validator(mode="after")
    def _check_together(self) -> GlueConfig:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueError("`access_key_id` and `secret_access_key` are given together or not at all")
        if self.session_token is not None and self.access_key_id is None:
            raise ValueError("`session_token` needs `access_key_id` and `secret_access_key`")
        if self.assume_role_arn is None:
            extra = sorted(name for name in self.model_fields_set if name.startswith("assume_role_"))
            if extra:
                raise ValueError(f"`{extra[0]}` needs `assume_role_arn`")
        return self

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no text may hold."""
        keys = (self.secret_access_key, self.session_token, self.assume_role_external_id)
        values = [key.get_secret_value() for key in keys if key is not None]
        return (*values, *([self.access_key_id] if self.access_key_id else []), *self.storage.values())

    def identity(self) -> str:
        """Return region or endpoint, and the catalog started from.

        Without ``catalog_id`` it is the caller's account: a role names it, and keys are shown as a digest.
        """
        region = self.region or os.environ.get("AWS_DEFAULT_REGION") or "default region"
        address = f"{region} at {self.endpoint}" if self.endpoint else region
        return f"{address}, {self._root()}"

    def is_identity_literal(self) -> bool:
        """Return whether the environment names no region."""
        return self.region is not None or "AWS_DEFAULT_REGION" not in os.environ

    def _root(self) -> str:
        if self.catalog_id:
            return f"catalog {self.catalog_id}"
        if self.assume_role_arn:
            return f"catalog {self.assume_role_arn.split(':')[4]}"
        if self.access_key_id:
            return f"the account of key {slow_digest(self.access_key_id, 'glue')[:8]}"
        return "the caller's account"
