"""No credential in any output, plan, journal, error or log, whatever goes wrong."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.backends import registry
from reconciler.model.errors import BackendError
from tests.catalogs.glue.seeding import databases
from tests.cli.running import lancens
from tests.servers.glue import GlueServer

SECRETS = {
    "GLUE_KEY": "AKIAHIDDENHIDDEN",
    "GLUE_SECRET": "hidden-secret-access-key",
    "GLUE_TOKEN": "hidden-session-token",
    "GLUE_EXTERNAL": "hidden-external-id",
    "S3_SECRET": "hidden-storage-secret",
}
MANIFEST = """\
version: 1
name: team
catalogs:
  prod:
    impl: glue
    config:
      region: us-east-1
      endpoint: "${{env:GLUE_ENDPOINT}}"
      access_key_id: "${{env:GLUE_KEY}}"
      secret_access_key: "${{env:GLUE_SECRET}}"
      session_token: "${{env:GLUE_TOKEN}}"
      storage.aws_secret_access_key: "${{env:S3_SECRET}}"
{role}
    namespaces:
      web: {{tables: {{clicks: {{location: "{lake}/clicks.lance", properties: {{api_token: property-secret}}}}}}}}
"""
ROLE = """\
      assume_role_arn: arn:aws:iam::123456789012:role/writer
      assume_role_external_id: "${env:GLUE_EXTERNAL}"
"""
# What AWS answers to a wrong signature: the request that it would have signed, with the session token in it.
QUOTED = "The Canonical String for this request should have been 'POST x-amz-security-token:hidden-session-token'"


@pytest.fixture
def folder(glue: GlueServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GLUE_ENDPOINT", glue.endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", glue.endpoint)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lancens.yaml").write_text(MANIFEST.format(lake=tmp_path, role=""))
    return tmp_path


@pytest.fixture(autouse=True)
def _every_log_line(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    _check(caplog.text)


def _check(*texts: str) -> None:
    for text in texts:
        for secret in (*SECRETS.values(), "property-secret"):
            assert secret not in text


def _temporary_keys(glue: GlueServer) -> set[str]:
    """Return the keys and tokens that STS gave out."""
    used = {value for call in glue.calls() if call.key != SECRETS["GLUE_KEY"] for value in (call.key, call.token)}
    return {value for value in used if value}


@pytest.mark.parametrize("role", ["", ROLE], ids=["keys", "role"])
def test_nothing_shows_through_a_whole_run(
    glue: GlueServer, folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, role: str
) -> None:
    (folder / "lancens.yaml").write_text(MANIFEST.format(lake=folder, role=role))
    commands = (
        ("plan", "-o", "plan.json"),
        ("show", "plan.json"),
        ("plan", "--format", "json"),
        ("apply", "--auto-approve"),
        ("drift",),
        ("import",),
    )
    shown = [lancens(capsys, "--debug", *command) for command in commands]
    assert [done.code for done in shown] == [0] * len(commands)
    texts = [done.out + done.err for done in shown]
    journals = [path.read_text() for path in folder.glob(".lancens/*")]
    assert journals
    texts += [*journals, (folder / "plan.json").read_text(), caplog.text]
    _check(*texts)
    for temporary in _temporary_keys(glue):
        assert not [text for text in texts if temporary in text]
    assert bool(_temporary_keys(glue)) == bool(role)


@pytest.mark.parametrize(
    "code", ["SignatureDoesNotMatch", "InvalidSignatureException", "InvalidInputException", "NewCode"]
)
def test_nothing_shows_when_aws_quotes_the_request(
    glue: GlueServer, folder: Path, capsys: pytest.CaptureFixture[str], code: str
) -> None:
    glue.fail("glue:GetCatalogs", code, QUOTED)
    failed = lancens(capsys, "plan")
    assert failed.code == 1
    assert code in failed.err
    _check(failed.out, failed.err)


def test_nothing_shows_in_the_traceback_of_an_error(glue: GlueServer, folder: Path) -> None:
    config = glue.config(session_token=SECRETS["GLUE_TOKEN"], secret_access_key=SECRETS["GLUE_SECRET"])
    for code in ("SignatureDoesNotMatch", "InvalidInputException", None):
        if code is None:
            glue.answer("glue:GetCatalogs", f"no JSON: {SECRETS['GLUE_TOKEN']}", times=5)
        else:
            glue.fail("glue:GetCatalogs", code, QUOTED)
        with pytest.raises(BackendError) as raised:
            registry.connect("glue", config).scan()
        _check("".join(traceback.format_exception(raised.value)), repr(raised.value))


def test_nothing_shows_when_a_role_cannot_be_renewed(
    glue: GlueServer, folder: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    databases(glue, ["web"])
    config = glue.config(
        access_key_id=SECRETS["GLUE_KEY"],
        secret_access_key=SECRETS["GLUE_SECRET"],
        session_token=SECRETS["GLUE_TOKEN"],
        assume_role_arn="arn:aws:iam::123456789012:role/writer",
        assume_role_external_id=SECRETS["GLUE_EXTERNAL"],
    )
    backend = registry.connect("glue", config)
    backend.scan()
    credentials = backend._service._client()._request_signer._credentials  # type: ignore[attr-defined]
    credentials._time_fetcher = lambda: credentials._expiry_time
    refusal = (
        f"<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code><Message>{QUOTED}</Message></Error></ErrorResponse>"
    )
    glue.answer("sts:AssumeRole", refusal, status=403)
    with pytest.raises(BackendError, match="AssumeRole: the signature does not fit") as raised:
        backend.scan()
    shown = capfd.readouterr()
    _check(shown.out, shown.err, caplog.text, "".join(traceback.format_exception(raised.value)))
    assert "Traceback" not in shown.err
