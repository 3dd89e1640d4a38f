"""What no output shows."""

from __future__ import annotations

import base64
import json
import time
from itertools import product
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.redaction import (
    is_sensitive,
    is_sensitive_key,
    is_stand_in,
    redact_properties,
    redact_value,
    scrub,
)
from reconciler.model.secret_forms import REDACTED

PASSWORD = "p@ss wörd/1+2"


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "db.passwd",
        "dbpassword",
        "pwd",
        "aws_secret_access_key",
        "AccessKeyId",
        "AWSAccessKeyID",
        "access-key",
        "session_token",
        "sessionToken",
        "token",
        "oauth2.credential",
        "private_key",
        "API-KEY",
        "sas_url",
        "SASToken",
        "headers.authorization",
        "Proxy-Authorization",
        "headers.cookie",
        "account_key",
        "storage.azure_storage_account_key",
        "fs.azure.account.oauth2.client.id",
        "spark.hadoop.fs.azure.sas.fixed",
        "connection_string",
        "ConnectionString",
    ],
)
def test_keys_of_secrets(key: str) -> None:
    assert is_sensitive_key(key)


@pytest.mark.parametrize(
    "key",
    [
        "owner",
        "tier",
        "keys",
        "primary_key",
        "key_columns",
        "partition_key",
        "lancens.managed-by",
        "sasquatch",
        "tokenizer",
        "tokenized_by",
        "max_tokens",
        "token_count",
        "eos_token",
        "secretary",
        "passport",
        "compass",
        "authority",
        "account_name",
        "unity.vend_credentials",
    ],
)
def test_keys_of_plain_values(key: str) -> None:
    assert not is_sensitive_key(key)
    assert redact_value(key, "value") == "value"


@pytest.mark.parametrize(
    "value",
    [
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
        "AKIAIOSFODNN7EXAMPLE",
        f"ghp_{'a1B2' * 9}",
        "postgres://app:hunter2@db/shop",
        "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=c2VjcmV0c2VjcmV0;",
        "https://x.blob.core.windows.net/c?sv=2024&sig=abcdefgh%3D",
        "Bearer abcdefghijklmnop",
        "dapi0123456789abcdef0123456789abcdef",
    ],
)
def test_a_value_that_looks_like_a_credential_is_one_whatever_its_key(value: str) -> None:
    assert is_sensitive("note", value)
    assert redact_value("note", value) == REDACTED


@pytest.mark.parametrize("value", ["gold", "s3://lake/a.lance", "https://host:8080/x", "basic", "owner: a@b.example"])
def test_plain_values(value: str) -> None:
    assert redact_value("note", value) == value


@pytest.mark.parametrize("part", ["-eyJ", "eyJaaaaaaaa.", "a://", "a://x:", "-----BEGIN ", "bearer a"])
def test_a_long_value_is_looked_at_in_time(part: str) -> None:
    """One of a megabyte took a quarter of an hour, in which no other thread ran."""
    began = time.process_time()
    is_sensitive("note", part * 40_000)
    assert time.process_time() - began < 3


def test_stand_ins_tell_values_of_one_object_apart_without_showing_them() -> None:
    one = redact_properties({"token": "hunter2", "tier": "gold"}, "lake/a/t")
    other = redact_properties({"token": "hunter3", "tier": "gold"}, "lake/a/t")
    assert one == redact_properties({"token": "hunter2", "tier": "gold"}, "lake/a/t")
    assert one["token"] != other["token"]
    assert is_stand_in(one["token"])
    assert one["tier"] == "gold"
    assert "hunter" not in one["token"] + other["token"]


def test_a_stand_in_tells_nothing_about_another_object_or_key() -> None:
    places = product(["lake/t", "lake/u", "lake/a/t", "prod/t"], ["token", "password"])
    shown = {redact_value(key, "hunter2", address) for address, key in places}
    assert len(shown) == 8


def test_where_nothing_is_compared_there_is_nothing_to_guess_from() -> None:
    assert redact_properties({"token": "hunter2", "secret": "x"}) == {"token": REDACTED, "secret": REDACTED}


def test_a_stand_in_is_kept() -> None:
    shown = redact_value("token", "hunter2", "lake/t")
    assert redact_value("token", shown, "lake/other") == shown
    assert redact_value("token", REDACTED, "lake/t") == REDACTED


def test_a_key_can_be_named_as_secret() -> None:
    shown = redact_properties({"tier": "gold", "team": "ml"}, "lake/t", {"tier"})
    assert is_stand_in(shown["tier"])
    assert shown["team"] == "ml"


@given(st.lists(st.text("abc123", min_size=4, max_size=8), max_size=4), st.text("abc123 ", max_size=30))
def test_no_known_secret_is_left(secrets: list[str], text: str) -> None:
    shown = scrub(f"{text}{''.join(secrets)}", secrets).replace(REDACTED, "|")
    assert all(secret not in shown for secret in secrets)


@pytest.mark.parametrize(
    "form",
    [
        quote(PASSWORD),
        quote(PASSWORD, safe=""),
        quote(PASSWORD, safe="").lower(),
        quote_plus(PASSWORD),
        json.dumps(PASSWORD)[1:-1],
        base64.b64encode(PASSWORD.encode()).decode(),
        base64.urlsafe_b64encode(PASSWORD.encode()).decode().rstrip("="),
    ],
)
def test_no_encoded_form_of_a_secret_is_left(form: str) -> None:
    assert scrub(f"GET /x?y={form}&z=1 failed", [PASSWORD]).count(form) == 0


@given(st.binary(max_size=7), st.binary(max_size=7), st.binary(min_size=6, max_size=20), st.booleans())
def test_a_secret_inside_of_something_base64_encoded_leaves_too_little_to_read(
    before: bytes, after: bytes, secret: bytes, url_safe: bool
) -> None:
    text = secret.hex()
    encode = base64.urlsafe_b64encode if url_safe else base64.b64encode
    sent = encode(before + text.encode() + after).decode()
    shown = scrub(f"Basic {sent}", [text])
    assert REDACTED in shown
    assert len(shown) - len("Basic ") - len(REDACTED) < len(sent) - len(text)


def test_a_secret_within_a_longer_one_leaves_no_part_of_it() -> None:
    assert scrub("key=abcdefgh", ["abcd", "abcdefgh"]) == f"key={REDACTED}"


def test_secrets_of_four_characters_are_found_and_shorter_ones_are_everywhere() -> None:
    assert scrub("pin 1234 of 2", ["1234"]) == f"pin {REDACTED} of 2"
    assert scrub("port 1 of 2", ["1", "", "of"]) == "port 1 of 2"


@pytest.mark.parametrize(
    "text",
    [
        'Could not connect to the endpoint URL: "http://me:{}@host:9000/bucket"',
        "error sending request for url (http://{}@host/b?list-type=2)",
        "thrift://me:{}/1@host:9083 refused",
        "proxy HTTPS://me:a@{}@proxy:3128",
        "redirect=https%3A%2F%2Fme%3A{}%40host%2Fx",
        "GET https://acct.blob.core.windows.net/c?sv=1&sig={}&se=2",
        "https://b.s3.amazonaws.com/k?X-Amz-Credential={}&X-Amz-Signature={}",
        "Authorization: Bearer {}",
    ],
)
def test_credentials_nobody_told_us_are_known_by_their_form(text: str) -> None:
    shown = scrub(text.format(*["hunt3r2"] * 2), ())
    assert "hunt3r2" not in shown
    assert scrub(shown, ()) == shown
    assert "host" in shown or "host" not in text


@pytest.mark.parametrize(
    "text",
    [
        "abfss://data@account.dfs.core.windows.net/a: not found",
        "http://host:8080/users/me@example.com: 404",
        "git clone ssh://git@example.com/x",
        "it needs a bearer token: `token`",
        "s3://lake/a.lance?versionId=3: gone",
    ],
)
def test_what_only_looks_like_credentials_stays(text: str) -> None:
    assert scrub(text, ()) == text
