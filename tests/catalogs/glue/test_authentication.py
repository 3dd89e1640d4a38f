"""As whom the backend speaks: the default chain, static keys, session keys, and a role."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconciler.backends import registry
from reconciler.backends.glue import GlueBackend, GlueConfig
from reconciler.model.errors import PermissionDeniedError, UnauthenticatedError
from tests.catalogs.glue.conftest import Connect
from tests.catalogs.glue.seeding import databases
from tests.servers.glue import ACCESS_KEY, GlueServer

ROLE = "arn:aws:iam::123456789012:role/catalog-reader"
OTHER_ACCOUNT = "arn:aws:iam::210987654321:role/catalog-reader"


@pytest.fixture(autouse=True)
def _sts(glue: GlueServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", glue.endpoint)


def _from_the_environment(glue: GlueServer, monkeypatch: pytest.MonkeyPatch) -> GlueBackend:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "environment-secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    backend = registry.connect("glue", {"endpoint": glue.endpoint})
    assert isinstance(backend, GlueBackend)
    return backend


def test_the_default_chain_of_the_environment(glue: GlueServer, monkeypatch: pytest.MonkeyPatch) -> None:
    _from_the_environment(glue, monkeypatch).scan()
    assert {(call.key, call.region, call.token) for call in glue.calls()} == {("AKIAENVIRONMENT", "eu-west-1", None)}


def test_the_default_chain_of_a_profile(glue: GlueServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    profile = tmp_path / "credentials"
    profile.write_text("[team]\naws_access_key_id = AKIAPROFILE\naws_secret_access_key = profile-secret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profile))
    monkeypatch.setenv("AWS_PROFILE", "team")
    registry.connect("glue", {"endpoint": glue.endpoint, "region": "us-east-1"}).scan()
    assert {call.key for call in glue.calls()} == {"AKIAPROFILE"}


def test_static_keys_win_over_the_environment(
    glue: GlueServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "environment-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "environment-token")
    connect().scan()
    assert {(call.key, call.token) for call in glue.calls()} == {(ACCESS_KEY, None)}


def test_session_keys(glue: GlueServer, connect: Connect) -> None:
    connect(session_token="token-of-a-session").scan()
    assert {(call.key, call.token) for call in glue.calls()} == {(ACCESS_KEY, "token-of-a-session")}


class TestRole:
    def test_it_is_assumed_as_configured(self, glue: GlueServer, connect: Connect) -> None:
        backend = connect(
            assume_role_arn=ROLE,
            assume_role_region="eu-central-1",
            assume_role_external_id="external-7",
            assume_role_session_name="nightly",
            assume_role_timeout_sec="1800",
        )
        assert glue.calls() == []
        backend.scan()
        assumed, *rest = glue.calls()
        assert (assumed.action, assumed.key, assumed.region) == ("sts:AssumeRole", ACCESS_KEY, "eu-central-1")
        asked = {key: assumed.body[key] for key in ("RoleArn", "ExternalId", "RoleSessionName", "DurationSeconds")}
        assert asked == {
            "RoleArn": ROLE,
            "ExternalId": "external-7",
            "RoleSessionName": "nightly",
            "DurationSeconds": "1800",
        }
        assert all(call.key != ACCESS_KEY and call.token and call.region == "us-east-1" for call in rest)

    def test_the_default_chain_assumes_it_too(self, glue: GlueServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "environment-secret")
        registry.connect("glue", {"endpoint": glue.endpoint, "region": "us-east-1", "assume_role_arn": ROLE}).scan()
        assert glue.calls()[0].key == "AKIAENVIRONMENT"
        assert (glue.calls()[0].body["RoleSessionName"], glue.calls()[0].body["DurationSeconds"]) == ("lancens", "3600")

    def test_a_role_of_another_account_sees_that_account(self, glue: GlueServer, connect: Connect) -> None:
        databases(glue, ["ours"])
        backend = connect(assume_role_arn=OTHER_ACCOUNT)
        assert backend.scan().namespaces == {}
        assert "catalog 210987654321" in backend.namespace_id()

    @pytest.mark.parametrize("lifetime", [900, 3600])
    def test_its_credentials_are_renewed_before_they_end(
        self, glue: GlueServer, connect: Connect, lifetime: int
    ) -> None:
        backend = connect(assume_role_arn=ROLE, assume_role_timeout_sec=str(lifetime))
        for _ in range(3):
            backend.scan()
        assert glue.counts()["AssumeRole"] == 1

        glue.reset()
        ends = datetime.now(UTC) + timedelta(seconds=lifetime / 10)
        glue.answer("sts:AssumeRole", _credentials("ASIAENDING", ends))
        backend = connect(assume_role_arn=ROLE, assume_role_timeout_sec=str(lifetime))
        for _ in range(3):
            backend.scan()
        assert glue.counts()["AssumeRole"] == 2
        assert glue.calls()[-1].key != "ASIAENDING"

    def test_a_role_that_may_not_be_assumed(self, glue: GlueServer, connect: Connect) -> None:
        message = (
            f"User: arn:aws:iam::123456789012:user/ci is not authorized to perform: sts:AssumeRole on resource: {ROLE}"
        )
        glue.answer("sts:AssumeRole", _sts_error("AccessDenied", message), status=403)
        with pytest.raises(PermissionDeniedError, match="lack sts:AssumeRole on role/cat"):
            connect(assume_role_arn=ROLE).scan()

    def test_keys_that_sts_does_not_know(self, glue: GlueServer, connect: Connect) -> None:
        glue.answer("sts:AssumeRole", _sts_error("InvalidClientTokenId", "The security token is invalid."), status=403)
        with pytest.raises(UnauthenticatedError, match="AWS does not know these credentials"):
            connect(assume_role_arn=ROLE).scan()


def _credentials(key: str, ends: datetime) -> str:
    return (
        '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
        f"<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"
        f"<Expiration>{ends.isoformat()}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
    )


def _sts_error(code: str, message: str) -> str:
    return (
        '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
        f"<Code>{code}</Code><Message>{message}</Message></Error><RequestId>1</RequestId></ErrorResponse>"
    )


class TestIdentity:
    """Two configurations are one service when they are sure to be."""

    def _identity(self, **config: str) -> str:
        return GlueConfig.model_validate(config).identity()

    def test_region_catalog_and_speaker_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        keys = {"access_key_id": "AKIAONE", "secret_access_key": "s"}
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        assert self._identity() == self._identity(region="eu-west-1") == "eu-west-1, the caller's account"
        assert self._identity(catalog_id="123456789012", **keys) == "eu-west-1, catalog 123456789012"
        assert self._identity(assume_role_arn=ROLE) == self._identity(catalog_id="123456789012")
        assert self._identity(**keys) != self._identity(access_key_id="AKIATWO", secret_access_key="s")
        assert self._identity(region="us-east-1") != self._identity(region="eu-west-1")
        assert self._identity(endpoint="http://a/") == self._identity(endpoint="http://a")

    def test_it_holds_no_key(self) -> None:
        text = self._identity(access_key_id="AKIAONE", secret_access_key="hidden", session_token="hidden-too")
        assert "AKIAONE" not in text
        assert "hidden" not in text
