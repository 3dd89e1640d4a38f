"""What the services of vendors ask for beyond the protocol, scripted from their documentation.

Amazon S3 Tables, "Accessing tables using the Amazon S3 Tables Iceberg REST endpoint": `warehouse` is the ARN of the
table bucket, `rest.sigv4-enabled` true, `rest.signing-name` `s3tables`, the prefix is the ARN, percent-encoded. AWS
Glue, "Connecting to the Data Catalog using AWS Glue Iceberg REST endpoint": `rest.signing-name` is `glue`. BigLake,
"Use the BigLake metastore Iceberg REST catalog": `warehouse` is `gs://BUCKET`, `x-goog-user-project` names the project.
Lakekeeper: a warehouse is named `PROJECT/NAME`. Apache Polaris: the header `Polaris-Realm` chooses the realm.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from lance_namespace import DescribeTableRequest

import reconciler
from reconciler.backends.iceberg import IcebergBackend, IcebergConfig
from reconciler.model.errors import (
    BackendError,
    InvalidInputError,
    ManifestError,
    MissingExtraError,
    UnauthenticatedError,
)
from reconciler.namespace import CatalogNamespace
from tests.catalogs.iceberg.scripted import error, scripted_catalog, table
from tests.servers.scripted import Answer, Request, Scripted

ARN = "arn:aws:s3tables:us-east-1:111122223333:bucket/sales-tables"
KEY, SECRET, SESSION = "AKIDEXAMPLE", "wJalrXUtnFEMI-K7MDENG", "session-token-51/x=="
SIGNED = {"rest.sigv4-enabled": "true", "rest.signing-name": "s3tables", "rest.signing-region": "us-east-1"}
KEYS = {"rest.access-key-id": KEY, "rest.secret-access-key": SECRET, "rest.session-token": SESSION}


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The machine's own credentials and region are not the tests'."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


def serve_warehouse(script: Scripted, warehouse: str, prefix: str) -> str:
    """Let the server know one warehouse, with a namespace and a Lance table in it; return where its routes are."""

    def config(request: Request) -> Answer:
        if unquote(request.query.removeprefix("warehouse=")) != warehouse:
            return error(404, "NotFoundException", "The warehouse does not exist")
        return Answer({"defaults": {}, "overrides": {"prefix": prefix}})

    routes = f"/v1/{prefix}/namespaces"
    script.routes["GET /v1/config"] = config
    script.routes[f"GET {routes}"] = lambda request: Answer(
        {"namespaces": [] if "parent=" in request.query else [["a b"]]}
    )
    script.routes[f"GET {routes}/a%20b"] = Answer({"properties": {"owner": "x"}})
    script.routes[f"GET {routes}/a%20b/tables"] = Answer({"identifiers": [{"namespace": ["a b"], "name": "t"}]})
    script.routes[f"GET {routes}/a%20b/tables/t"] = Answer(table("s3://lake/t", **{"storage.region": "eu-west-1"}))
    return routes


# ---- warehouses under another name -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("warehouse", "prefix"),
    [
        (ARN, quote(ARN, safe="")),
        ("gs://sales-bucket", "projects/p1/catalogs/sales-bucket"),
        ("6f0d/sales", "b1c2d3"),
        ("111122223333:s3tablescatalog/sales", "catalogs/111122223333%3As3tablescatalog%2Fsales"),
    ],
)
def test_a_warehouse_with_an_invalid_name_has_an_alias(script: Scripted, warehouse: str, prefix: str) -> None:
    routes = serve_warehouse(script, warehouse, prefix)
    script.routes[f"POST {routes}/a%20b/tables"] = Answer(table("s3://lake/new"))
    backend = IcebergBackend(**{"endpoint": script.url, "warehouses.sales": warehouse, "root": "s3://lake"})
    found = backend.scan()
    assert set(found.namespaces) == {("sales",), ("sales", "a b")}
    assert set(found.tables) == {("sales", "a b", "t")}
    assert backend.child_namespaces(()) == ["sales"]
    assert backend.default_location(("sales", "a b", "new")) == "s3://lake/sales/a b/new"
    backend.insert_table(("sales", "a b", "new"), "s3://lake/new", {})
    assert f"POST {routes}/a%20b/tables" in script.paths()
    assert warehouse in backend.config.identity()
    backend.close()


def test_a_manifest_names_warehouses_in_a_block_or_with_dots(script: Scripted, tmp_path: Path) -> None:
    serve_warehouse(script, ARN, quote(ARN, safe=""))
    digests, path = set(), tmp_path / "lancens.yaml"
    for written in (f"{{sales: '{ARN}'}}", f"\n        sales: {ARN}"):
        path.write_text(
            "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: iceberg\n    config:\n"
            f"      endpoint: {script.url}\n      warehouses: {written}\n"
            "    namespaces:\n      sales: {namespaces: {'a b': {tables: {t: {}}}}}\n"
        )
        made = reconciler.plan(reconciler.load(path))
        assert (made.changes, made.blocked) == ((), ())
        digests.add(reconciler.load(path).digest)
    path.write_text(path.read_text().replace("warehouses: \n        sales:", "warehouses.sales:"))
    assert "warehouses.sales" in path.read_text()
    digests.add(reconciler.load(path).digest)
    assert len(digests) == 1


def test_what_is_said_twice_in_a_block_and_with_dots_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "lancens.yaml"
    path.write_text(
        "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: iceberg\n    config:\n      endpoint: http://127.0.0.1:1\n"
        "      storage: {region: eu}\n      storage.region: us\n"
    )
    with pytest.raises(ManifestError, match=r"lancens.yaml:9:7: `storage.region`"):
        reconciler.load(path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"warehouses": f"a,{ARN}"}, 'give it another name here, such as `warehouses: {sales: "arn:aws:s3tables:'),
        ({"warehouses.a/b": ARN}, "`warehouses.a/b`: a name cannot contain `/`"),
        ({"warehouses.sales": " "}, "`warehouses.sales` names no warehouse"),
        ({"warehouses": "sales", "warehouses.sales": ARN}, "give the same name to two warehouses"),
        ({"warehouses.a": ARN, "warehouses.b": ARN}, "`a` and `b` in `warehouses` are one warehouse"),
        ({"warehouses": "ware", "warehouses.b": "ware"}, "`ware` and `b` in `warehouses` are one warehouse"),
        ({**SIGNED, "auth_token": SECRET}, "two ways to authenticate; give one"),
        ({"rest.signing-region": "eu"}, "set `rest.sigv4-enabled` to true"),
        ({"rest.signing-name": "glue"}, "set `rest.sigv4-enabled` to true"),
        ({**KEYS}, "set `rest.sigv4-enabled` to true"),
        ({**SIGNED, "rest.access-key-id": KEY}, "are given together, or neither"),
        ({**SIGNED, **KEYS, "endpoint": "http://catalog.example"}, "can be read on the way"),
        ({"headers.Authorization": SECRET, "endpoint": "http://catalog.example"}, "can be read on the way"),
    ],
)
def test_what_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        IcebergBackend(**{"endpoint": "http://127.0.0.1:1", **given})
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


def test_s3_tables_chooses_every_location_itself(script: Scripted) -> None:
    """AWS, "Creating an Amazon S3 table": S3 itself generates the warehouse location of a table when it is made."""
    serve_warehouse(script, ARN, "p")
    config = {"endpoint": script.url, "warehouses.sales": ARN, **SIGNED, **KEYS}
    for name, chooses in (("s3tables", True), ("glue", False)):
        backend = IcebergBackend(**{**config, "rest.signing-name": name})
        assert backend.capabilities().chooses_locations is chooses
        backend.close()


# ---- headers ---------------------------------------------------------------------------------------------------------


def test_no_request_goes_where_the_service_sends_clients_on_to(script: Scripted) -> None:
    """Iceberg's clients follow `uri`, `token` and `oauth2-server-uri`; a token here goes where it is configured to."""
    with scripted_catalog() as other:
        serve_warehouse(script, "ware", "ware")
        sent_on = {"uri": other.url, "token": "another-token", "oauth2-server-uri": f"{other.url}/tokens"}
        script.routes["GET /v1/config"] = Answer({"overrides": {"prefix": "ware", **sent_on}})
        backend = IcebergBackend(endpoint=script.url, warehouses="ware", auth_token="token-4410")
        assert ("ware", "a b", "t") in backend.scan().tables
        assert other.requests == []
        assert {one.headers["Authorization"] for one in script.requests} == {"Bearer token-4410"}
        backend.close()


def test_another_realm_is_another_catalog() -> None:
    def identity(**headers: str) -> str:
        return IcebergConfig.model_validate({"endpoint": "http://127.0.0.1:1", "headers": headers}).identity()

    assert len({identity(), identity(**{"Polaris-Realm": "a"}), identity(**{"Polaris-Realm": "b"})}) == 3


# ---- options of a table's own ----------------------------------------------------------------------------------------


def test_a_tables_properties_say_how_it_is_opened_and_name_no_host(script: Scripted) -> None:
    config = {"endpoint": script.url, "warehouses": "ware", "storage.region": "us-east-1", "storage.secret": SECRET}
    backend = IcebergBackend(**config)
    routes = serve_warehouse(script, "ware", "ware")
    evil = {"storage.endpoint": "http://evil.example", "storage.allow_http": "true", "storage.region": "eu-west-1"}
    script.routes[f"GET {routes}/a%20b/tables/t"] = Answer(table("s3://lake/t", **evil))
    live = backend.load_table(("ware", "a b", "t"))
    assert backend.table_storage_options(live) == {"aws_region": "eu-west-1", "secret": SECRET}
    asked = DescribeTableRequest(id=["ware", "a b", "t"], vend_credentials=False)
    described = CatalogNamespace(backend).describe_table(asked)
    assert described.storage_options == {"aws_region": "eu-west-1", "secret": SECRET}
    backend.close()


# ---- signatures ------------------------------------------------------------------------------------------------------


def signature_problem(request: Request, url: str, service: str, secret: str = SECRET) -> str | None:
    """Return why AWS would not take ``request``, by botocore's own reading of Signature Version 4."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    if scheme != "AWS4-HMAC-SHA256":
        return "MissingAuthenticationTokenException"
    parts = dict(part.strip().split("=", 1) for part in rest.split(","))
    query = f"?{request.query}" if request.query else ""
    signed = {name: headers[name] for name in parts["SignedHeaders"].split(";")}
    again = AWSRequest(request.method, f"{url}{request.path}{query}", signed, request.content)
    again.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(Credentials(KEY, secret, headers.get("x-amz-security-token")), service, "us-east-1")
    expected = auth.signature(auth.string_to_sign(again, auth.canonical_request(again)), again)
    return None if parts["Signature"] == expected else "InvalidSignatureException"


def verified(script: Scripted, service: str, secret: str = SECRET) -> None:
    """Let the server answer only what is signed right."""
    for key, route in list(script.routes.items()):

        def answer(request: Request, route: object = route) -> Answer:
            problem = signature_problem(request, script.url, service, secret)
            if problem is not None:
                detail = f"should have been 'GET x-amz-security-token:{request.headers.get('X-Amz-Security-Token')}'"
                return Answer({"message": detail}, 403, {"x-amzn-ErrorType": f"{problem}:http://internal.amazon.com/"})
            assert isinstance(route, Answer) or callable(route)
            return route if isinstance(route, Answer) else route(request)

        script.routes[key] = answer


@pytest.mark.parametrize("service", ["s3tables", "glue"])
@pytest.mark.parametrize("from_environment", [False, True])
def test_every_request_is_signed(
    script: Scripted, monkeypatch: pytest.MonkeyPatch, service: str, from_environment: bool
) -> None:
    routes = serve_warehouse(script, ARN, quote(ARN, safe=""))
    script.routes[f"POST {routes}/a%20b/tables"] = Answer(table("s3://lake/n w"))
    script.routes[f"POST {routes}"] = Answer({"namespace": ["ü"], "properties": {}})
    script.routes[f"DELETE {routes}/a%20b/tables/t"] = Answer(None, 204)
    verified(script, service)
    config = {"endpoint": script.url, "warehouses.sales": ARN, "rest.sigv4-enabled": "true", "max_retries": "0"}
    if from_environment:
        for name, value in (("ACCESS_KEY_ID", KEY), ("SECRET_ACCESS_KEY", SECRET), ("SESSION_TOKEN", SESSION)):
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    else:
        config |= {**KEYS, "rest.signing-region": "us-east-1"}
    backend = IcebergBackend(**config, **{"rest.signing-name": service})
    assert set(backend.scan().tables) == {("sales", "a b", "t")}
    backend.insert_table(("sales", "a b", "n w"), "s3://lake/n w", {"é": "/?&=+ *~"})
    backend.insert_namespace(("sales", "ü"), {})
    backend.remove_table(("sales", "a b", "t"))
    assert all("X-Amz-Security-Token" in one.headers for one in script.requests)
    backend.close()


def test_a_wrong_key_is_told_and_not_shown(script: Scripted) -> None:
    serve_warehouse(script, ARN, "p")
    verified(script, "s3tables", secret="another")
    backend = IcebergBackend(**{"endpoint": script.url, "warehouses.sales": ARN, "max_retries": "0", **SIGNED, **KEYS})
    with pytest.raises(UnauthenticatedError) as caught:
        backend.scan()
    said = str(caught.value)
    assert said.startswith("iceberg: ")
    assert "`sales`: 403: " in said
    assert "`rest.signing-name`, `rest.signing-region`" in said
    assert "InvalidSignatureException" in said
    assert SECRET not in repr(backend.config)
    assert SESSION not in repr(backend.config)
    backend.close()


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (
            Answer({"message": f"token {SESSION}"}, 403, {"x-amzn-ErrorType": "ExpiredTokenException"}),
            16,
            "have expired",
        ),
        (
            Answer({"Message": "no"}, 403, {"x-amzn-ErrorType": "UnrecognizedClientException"}),
            16,
            "does not know these",
        ),
        (Answer({"message": f"not authorized {SESSION}"}, 403), 15, "not authorized (redacted); grant the caller"),
        (error(403, "ForbiddenException", "Lake Formation"), 15, "Lake Formation; grant the caller what is missing"),
        (Answer({"message": "slow"}, 429, {"x-amzn-ErrorType": "ThrottlingException"}), 21, "slow"),
        (Answer({"message": "bad"}, 400, {"x-amzn-ErrorType": "ValidationException"}), 13, "bad"),
    ],
)
def test_what_aws_refuses_is_reported_by_its_cause(script: Scripted, answer: Answer, kind: int, said: str) -> None:
    script.routes["GET /v1/config"] = answer
    backend = IcebergBackend(**{"endpoint": script.url, "warehouses.sales": ARN, "max_retries": "0", **SIGNED, **KEYS})
    with pytest.raises(BackendError) as caught:
        backend.scan()
    assert caught.value.code == kind
    assert said in str(caught.value)
    assert SESSION not in str(caught.value)
    backend.close()


@pytest.mark.parametrize(
    ("code", "said"), [("AccessDenied", "Not authorized to perform sts"), ("SignatureDoesNotMatch", "clock")]
)
def test_a_role_that_is_refused_is_told(
    script: Scripted,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    code: str,
    said: str,
) -> None:
    (tmp_path / "token").write_text("a.b.c")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", script.url)
    text = f"Not authorized to perform sts:AssumeRoleWithWebIdentity {SECRET if code != 'AccessDenied' else ''}"
    refusal = f"<ErrorResponse><Error><Code>{code}</Code><Message>{text}</Message></Error></ErrorResponse>"
    script.routes["POST /"] = Answer(refusal.encode(), 403, {"Content-Type": "text/xml"})
    backend = IcebergBackend(endpoint=script.url, **{**SIGNED, "warehouses.sales": ARN})
    with pytest.raises(UnauthenticatedError, match=f"AssumeRoleWithWebIdentity: .*{said}") as caught:
        backend.scan()
    assert SECRET not in str(caught.value)
    assert not [one for one in caplog.records if one.levelname != "INFO"]
    backend.close()


def test_without_credentials_region_or_package_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"endpoint": "http://127.0.0.1:1", "warehouses.sales": ARN, "rest.sigv4-enabled": "true"}
    with pytest.raises(UnauthenticatedError, match=r"set `rest.access-key-id`"):
        IcebergBackend(**config)
    with pytest.raises(InvalidInputError, match=r"set `rest.signing-region`"):
        IcebergBackend(**config, **KEYS)
    monkeypatch.setenv("AWS_PROFILE", "mistyped")
    with pytest.raises(UnauthenticatedError, match=r"ProfileNotFound: .*mistyped"):
        IcebergBackend(**config)
    monkeypatch.delenv("AWS_PROFILE")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/no/token")
    backend = IcebergBackend(**config, **{"rest.signing-region": "eu-west-1"})
    with pytest.raises(InvalidInputError, match=r"iceberg: .*: `/no/token`"):
        backend.scan()
    backend.close()
    monkeypatch.setitem(sys.modules, "botocore.credentials", None)
    with pytest.raises(MissingExtraError, match=r"`rest.sigv4-enabled` .*\[glue\]"):
        IcebergBackend(**config, **KEYS)
