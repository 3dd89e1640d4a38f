"""What no output shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.redaction import REDACTED, is_sensitive_key, redact_properties, redact_value, scrub


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "db.passwd",
        "aws_secret_access_key",
        "AccessKeyId",
        "access-key",
        "session_token",
        "oauth2.credential",
        "private_key",
        "API-KEY",
        "sas_url",
    ],
)
def test_keys_of_secrets(key: str) -> None:
    assert is_sensitive_key(key)


@pytest.mark.parametrize("key", ["owner", "tier", "keys", "primary_key", "lancens.managed-by", "sasquatch"])
def test_keys_of_plain_values(key: str) -> None:
    assert not is_sensitive_key(key)
    assert redact_value(key, "value") == "value"


def test_stand_ins_tell_values_apart_without_showing_them() -> None:
    shown = redact_properties({"token": "hunter2", "password": "hunter3", "secret": "hunter2", "tier": "gold"})
    assert shown["token"] == shown["secret"] != shown["password"]
    assert shown["tier"] == "gold"
    assert "hunter" not in "".join(shown.values())


@given(st.lists(st.text("abc123", min_size=4, max_size=8), max_size=4), st.text("abc123 ", max_size=30))
def test_no_known_secret_is_left(secrets: list[str], text: str) -> None:
    shown = scrub(f"{text}{''.join(secrets)}", secrets).replace(REDACTED, "|")
    assert all(secret not in shown for secret in secrets)


def test_a_secret_within_a_longer_one_leaves_no_part_of_it() -> None:
    assert scrub("key=abcdefgh", ["abcd", "abcdefgh"]) == f"key={REDACTED}"


def test_short_values_are_no_secrets() -> None:
    assert scrub("port 1 of 2", ["1", "", "of"]) == "port 1 of 2"
