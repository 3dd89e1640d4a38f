"""What AWS answers instead of what was asked: each with its code of the specification and one clear line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from reconciler.backends import registry
from reconciler.backends.glue import GlueBackend
from reconciler.backends.glue.aws_errors import translated
from reconciler.backends.http.rate_limit import RateLimit
from reconciler.model.errors import (
    BackendError,
    ConcurrentModificationError,
    ErrorCode,
    InternalError,
    InvalidInputError,
    PermissionDeniedError,
    ServiceUnavailableError,
    ThrottlingError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from reconciler.model.live import PropertyChanges
from tests.catalogs.glue.conftest import Connect
from tests.catalogs.glue.seeding import databases, lance_table, tables
from tests.clock import simulated_time
from tests.servers.glue import GlueServer
from tests.servers.process import free_port


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    """Let no request wait before it is sent again."""
    with simulated_time():
        yield


def _refused(backend: GlueBackend) -> BackendError:
    with pytest.raises(BackendError) as raised:
        backend.load_namespace(("web",))
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("glue: ")
    return raised.value


def test_a_role_of_a_web_identity_is_named() -> None:
    message = "Not authorized to perform sts:AssumeRoleWithWebIdentity"
    with (
        pytest.raises(PermissionDeniedError, match=r"^glue: AssumeRoleWithWebIdentity: .* sts:AssumeRoleWithWebId"),
        translated("GetCatalogs", "the root catalog", (), {}, None),
    ):
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": message}}, "AssumeRoleWithWebIdentity")


ROWS: list[tuple[str, int, type[BackendError], str]] = [
    ("AccessDeniedException", 15, PermissionDeniedError, "the credentials lack glue:GetDatabase; the least policy"),
    ("ExpiredTokenException", 16, UnauthenticatedError, "the credentials have expired; renew them"),
    ("ExpiredToken", 16, UnauthenticatedError, "the credentials have expired; renew them"),
    ("UnrecognizedClientException", 16, UnauthenticatedError, "AWS does not know these credentials"),
    ("InvalidClientTokenId", 16, UnauthenticatedError, "AWS does not know these credentials"),
    ("InvalidSignatureException", 16, UnauthenticatedError, "the signature does not fit; check the secret key"),
    ("IncompleteSignature", 16, UnauthenticatedError, "the signature is incomplete"),
    ("MissingAuthenticationTokenException", 16, UnauthenticatedError, "the request was not signed"),
    ("RequestExpired", 16, UnauthenticatedError, "check this machine's clock"),
    ("OptInRequired", 16, UnauthenticatedError, "the account is not enabled for this region"),
    ("InvalidInputException", 13, InvalidInputError, "InvalidInputException: what AWS says"),
    ("ValidationException", 13, InvalidInputError, "ValidationException: what AWS says"),
    ("ResourceNumberLimitExceededException", 13, InvalidInputError, "what AWS says"),
    ("ConcurrentModificationException", 14, ConcurrentModificationError, "what AWS says"),
    ("GlueEncryptionException", 15, PermissionDeniedError, "what AWS says"),
    ("OperationNotSupportedException", 0, UnsupportedOperationError, "what AWS says"),
    ("OperationTimeoutException", 17, ServiceUnavailableError, "what AWS says"),
    ("InternalServiceException", 17, ServiceUnavailableError, "what AWS says"),
    ("FederationSourceException", 17, ServiceUnavailableError, "what AWS says"),
    ("ResourceNotReadyException", 17, ServiceUnavailableError, "what AWS says"),
    ("SomethingNewException", 18, InternalError, "SomethingNewException: what AWS says"),
]


@pytest.mark.parametrize(("code", "number", "kind", "text"), ROWS, ids=[row[0] for row in ROWS])
def test_each_answer_has_its_code_and_one_line(
    glue: GlueServer, backend: GlueBackend, code: str, number: int, kind: type[BackendError], text: str
) -> None:
    glue.fail("glue:GetDatabase", code, "what AWS says")
    error = _refused(backend)
    assert type(error) is kind
    assert error.code == ErrorCode(number)
    assert text in str(error)
    assert "GetDatabase on `web`" in str(error)


# As IAM's and Lake Formation's pages on troubleshooting have them.
_WHO = "User: arn:aws:iam::123456789012:user/dev is not authorized to perform: glue:GetDatabase on resource: "
_WHAT = "arn:aws:glue:eu-west-1:123456789012:database/web"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            f"{_WHO}{_WHAT} with an explicit deny in a service control policy",
            "with an explicit deny in a service control policy; change that policy",
        ),
        (
            f"{_WHO}{_WHAT} because no VPC endpoint policy allows the glue:GetDatabase action",
            "because no VPC endpoint policy allows it; change that policy",
        ),
        (
            f"{_WHO}{_WHAT} because no resource-based policy allows the glue:GetDatabase action",
            "because no resource-based policy allows it; change that policy",
        ),
        (
            f"{_WHO}{_WHAT} because no identity-based policy allows the glue:GetDatabase action",
            "the credentials lack glue:GetDatabase on database/web; the least policy is in docs/catalogs/glue.md",
        ),
        (
            "Insufficient Lake Formation permission(s): Required Describe on web",
            "Lake Formation denies access: Required Describe on web; grant its permissions beside IAM's",
        ),
    ],
)
def test_who_denies_is_told(glue: GlueServer, backend: GlueBackend, said: str, told: str) -> None:
    glue.fail("glue:GetDatabase", "AccessDeniedException", said)
    error = str(_refused(backend))
    assert error.startswith("glue: GetDatabase on `web`: ")
    assert error.endswith(told)


_ROLE = "role_arn = arn:aws:iam::1:role/x\nsource_profile = base\n"
_TOKEN_FILE = "role_arn = arn:aws:iam::1:role/x\nweb_identity_token_file = /no/token\n"
_BASE = "[profile base]\naws_access_key_id = AKIABASE\naws_secret_access_key = base\n"


@pytest.mark.parametrize(
    ("config", "kind", "told"),
    [
        ("[profile me]\nrole_arn = arn:aws:iam::1:role/x\n", UnauthenticatedError, "missing: source_profile"),
        ("[profile me]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = me\n", InvalidInputError, "Infinite loop"),
        ("[profile me]\nsso_session = s\n", InvalidInputError, "sso"),
        ("[profile me\n", InvalidInputError, "config file"),
        (f"[profile me]\n{_ROLE}mfa_serial = arn:aws:iam::1:mfa/me\n{_BASE}", UnauthenticatedError, "an MFA device"),
        (f"[profile me]\n{_ROLE}[profile base]\n{_ROLE}mfa_serial = a\n", UnauthenticatedError, "an MFA device"),
        (f"[profile me]\n{_TOKEN_FILE}", InvalidInputError, "directory: `/no/token`"),
        ("[profile me]\ncredential_process = echo hi\n", UnauthenticatedError, "the AWS credentials: Expecting"),
        ("[profile me]\ncredential_process = false\n", UnauthenticatedError, "custom-process"),
        ("[profile me]\nlogin_session = arn:aws:sts::1:assumed-role/x/y\n", UnauthenticatedError, "botocore[crt]"),
    ],
)
def test_a_profile_that_cannot_be_used_is_told(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    glue: GlueServer,
    config: str,
    kind: type[BackendError],
    told: str,
) -> None:
    (tmp_path / "config").write_text(config)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "me")
    backend = GlueBackend(region="eu-west-1", endpoint=glue.config()["endpoint"])
    error = _refused(backend)
    assert type(error) is kind, error
    assert told in str(error)


def test_a_503_is_given_up_though_the_service_accepts_other_requests(
    glue: GlueServer, backend: GlueBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = RateLimit.refused

    def refused_beside_another(limit: RateLimit, sent_at: float, retry_after: float | None = None) -> None:
        refused(limit, sent_at, retry_after)
        limit.accepted(limit.wait())

    monkeypatch.setattr(RateLimit, "refused", refused_beside_another)
    glue.fail("glue:GetDatabase", "ServiceUnavailable", times=300, status=503)
    assert isinstance(_refused(backend), ServiceUnavailableError)


def test_throttling_without_end_is_given_up(glue: GlueServer, backend: GlueBackend) -> None:
    glue.fail("glue:GetDatabase", "ThrottlingException", "Rate exceeded", times=999)
    error = _refused(backend)
    assert isinstance(error, ThrottlingError)
    attempts = glue.counts()["GetDatabase"]
    assert f"throttled after {attempts} attempts" in str(error)
    assert 60 < attempts < 80  # five minutes, most of them at five seconds each
    glue.reset()


def test_nothing_listens(connect: Connect) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    error = _refused(connect(endpoint=endpoint))
    assert isinstance(error, ServiceUnavailableError)
    assert f"no answer from {endpoint}/: " in str(error)
    assert "check `region`, `endpoint`" in str(error)


@pytest.mark.parametrize("raw", ["this is not JSON", '["a", "list"]', '{"Database": 7}', ""])
def test_an_answer_that_glue_would_not_give(glue: GlueServer, backend: GlueBackend, raw: str) -> None:
    glue.answer("glue:GetDatabase", raw, times=5)
    error = _refused(backend)
    assert isinstance(error, InternalError)
    assert "is the endpoint a Glue service?" in str(error)


PAGE = "<html><head><title>Sign in</title></head></html>"


@pytest.mark.parametrize(
    ("call", "write"),
    [
        ("CreateTable", lambda backend: backend.insert_table(("web", "t2"), "s3://lake/t2.lance", {})),
        ("DeleteTable", lambda backend: backend.remove_table(("web", "t"))),
        ("UpdateTable", lambda backend: backend.alter_table(("web", "t"), PropertyChanges({"a": "b"}))),
        ("CreateDatabase", lambda backend: backend.insert_namespace(("new",), {})),
        ("UpdateDatabase", lambda backend: backend.alter_namespace(("web",), PropertyChanges({"a": "b"}))),
        ("DeleteDatabase", lambda backend: backend.remove_namespace(("empty",))),
        ("GetTables", lambda backend: backend.scan()),
    ],
)
def test_a_web_page_is_never_taken_for_the_answer(
    glue: GlueServer, backend: GlueBackend, call: str, write: Callable[[GlueBackend], object]
) -> None:
    """botocore reads a page as the empty answer that CreateTable and its like have."""
    databases(glue, ["web", "empty"])
    tables(glue, "web", [lance_table("t")])
    glue.answer(f"glue:{call}", PAGE, times=10)
    with pytest.raises(ServiceUnavailableError, match=f"{call} on .*: a web page titled `Sign in`"):
        write(backend)


def test_text_that_is_no_json_is_no_answer_to_a_write(glue: GlueServer, backend: GlueBackend) -> None:
    databases(glue, ["web"])
    glue.answer("glue:CreateTable", "OK", times=5)
    with pytest.raises(InternalError, match="is the endpoint a Glue service"):
        backend.insert_table(("web", "t2"), "s3://lake/t2.lance", {})


@pytest.mark.parametrize("raw", ['{"CatalogList": ' + "[" * 20_000 + "]" * 20_000 + "}", '{"CatalogList": [[]]}', "{}"])
def test_an_answer_without_sense_is_an_error_of_the_service(glue: GlueServer, backend: GlueBackend, raw: str) -> None:
    for call in (backend.scan, lambda: backend.load_namespace(("web", "eu"))):
        glue.answer("glue:GetCatalogs", raw, times=5)
        with pytest.raises(BackendError, match="GetCatalogs on the root catalog: "):
            call()


def test_without_a_region(glue: GlueServer) -> None:
    config = {key: value for key, value in glue.config().items() if key not in ("region", "endpoint")}
    backend = registry.connect("glue", config)
    with pytest.raises(InvalidInputError, match="set `region` or AWS_DEFAULT_REGION"):
        backend.scan()


def test_without_credentials(glue: GlueServer) -> None:
    backend = registry.connect("glue", {"endpoint": glue.endpoint, "region": "us-east-1"})
    with pytest.raises(UnauthenticatedError, match="set `access_key_id` and"):
        backend.scan()


def test_a_region_that_does_not_exist(glue: GlueServer, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {key: value for key, value in glue.config(region="eu-wst-1").items() if key != "endpoint"}
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{free_port()}")
    backend = registry.connect("glue", config)
    with pytest.raises(ServiceUnavailableError, match=r"glue\.eu-wst-1\.amazonaws\.com|check `region`"):
        backend.alter_namespace(("web",), PropertyChanges({"a": "b"}))


BAD_CONFIGS = [
    ({"region": "Ireland"}, "`region`: `Ireland` is not a region; one of AWS looks like `eu-west-1`"),
    ({"endpoint": "glue.example.com"}, "`endpoint`: must be an http:// or https:// address"),
    ({"endpoint": "https://me:pw@glue.example.com"}, "`endpoint`: cannot hold user information"),
    ({"catalog_id": "sales"}, "`catalog_id`: `sales` is not a catalog; one of AWS is `ACCOUNT` or `ACCOUNT:name`"),
    ({"access_key_id": "AKIA"}, "`access_key_id` and `secret_access_key` are given together or not at all"),
    ({"session_token": "t"}, "`session_token` needs `access_key_id` and `secret_access_key`"),
    ({"assume_role_arn": "admin"}, "`assume_role_arn`: a role's ARN looks like"),
    ({"assume_role_session_name": "ci"}, "`assume_role_session_name` needs `assume_role_arn`"),
    ({"assume_role_arn": "arn:aws:iam::123456789012:role/r", "assume_role_timeout_sec": "60"}, "expected 900 or more"),
    (
        {"assume_role_arn": "arn:aws:iam::123456789012:role/r", "assume_role_timeout_sec": "soon"},
        "expected a whole number",
    ),
    ({"assume_role_arn": "arn:aws:iam::123456789012:role/r", "assume_role_session_name": "a b"}, "2 to 64 letters"),
    ({"regoin": "eu-west-1"}, "unknown key `regoin`; did you mean `region`?"),
]


@pytest.mark.parametrize(("config", "text"), BAD_CONFIGS, ids=[text for _, text in BAD_CONFIGS])
def test_a_configuration_that_cannot_be(config: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        registry.connect("glue", config)
    assert text in str(raised.value)
    assert "pw" not in str(raised.value)
