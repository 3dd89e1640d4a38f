"""Comparing, checking and showing locations."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import lance
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reconciler import storage
from reconciler.model import locations

PATHS = st.lists(st.text("ab é%#+.", min_size=1, max_size=4), min_size=1, max_size=3).map("/".join)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:///data/a.lance", "/data/a.lance"),
        ("file:/data/a.lance", "/data/a.lance"),
        ("file://localhost/data/a.lance", "/data/a.lance"),
        ("FILE:///data/a.lance", "/data/a.lance"),
        ("/data//a.lance/", "/data/a.lance"),
        ("s3a://bucket/a", "s3://bucket/a/"),
        ("s3n://bucket//a", "S3://bucket/a"),
        ("file:///data/a%20b", "/data/a b"),
        ("s3://bucket/a%20b", "s3://bucket/a b"),
        ("gs://bucket", "gs://bucket/"),
        ("/", "//"),
        ("/data/x/../a", "/data/a"),
        ("/data/./a/.", "/data/a"),
        ("/../a", "/a"),
        ("file:///data/x/%2e%2e/a", "/data/a"),
        ("s3://bucket/x/../a", "s3://bucket/a"),
        ("s3://bucket/../../a", "s3://bucket/a"),
        ("../x/../a", "../a"),
    ],
)
def test_these_are_one_place(one: str, other: str) -> None:
    assert locations.same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/data/a", "/data/A"),
        ("s3://bucket/a", "gs://bucket/a"),
        ("s3://bucket/a", "s3://other/a"),
        ("/data/a%20b", "/data/a b"),
        ("/data/a", "data/a"),
        ("../a", "a"),
        ("../../a", "../a"),
        ("/data/..a", "/data/a"),
        ("s3://bucket/../other/a", "s3://other/a"),
        ("/data/a", None),
    ],
)
def test_these_are_two_places(one: str, other: str | None) -> None:
    assert not locations.same(one, other)
    assert locations.same(None, None)


@given(PATHS)
def test_normalising_twice_is_normalising_once(path: str) -> None:
    for location in (f"/{path}", f"relative/{path}"):
        assert locations.normalise(locations.normalise(location)) == locations.normalise(location)


@given(PATHS)
def test_a_path_and_its_uri_are_one_place(path: str) -> None:
    assert locations.same(f"/{path}", f"file:///{quote(path)}")


@pytest.mark.parametrize(
    ("root", "location", "inside"),
    [
        ("/lake", "/lake/a.lance", True),
        ("/lake/", "file:///lake/x/a.lance", True),
        ("s3a://b/lake", "s3://b/lake/a", True),
        ("/", "/a", True),
        ("/lake", "/lake", False),
        ("/lake", "/lakeside/a", False),
        ("/lake", "/lake/../etc/a", False),
        ("/lake", "file:///lake/%2e%2e/etc/a", False),
        ("/lake", "/lake/x/../a", False),
        ("s3://b/lake", "s3://b/lake/../lake/a", False),
        ("s3://b/lake", "s3://b/lake/x/.\n./a", False),
        ("s3://b/lake", "s3://c/lake/a", False),
    ],
)
def test_what_lies_under_a_root(root: str, location: str, inside: bool) -> None:
    assert locations.is_under(root, location) is inside


@pytest.mark.parametrize(
    ("location", "base", "expected"),
    [
        ("lake", "/home/me", "/home/me/lake"),
        ("./lake/./a", "/home/me/", "/home/me/lake/a"),
        ("../lake", "/home/me", "/home/lake"),
        ("../../../../lake", "/home/me", "/lake"),
        (".", "/home/me", "/home/me"),
        ("/lake", "/home/me", "/lake"),
        ("s3://b/lake", "/home/me", "s3://b/lake"),
        ("C:\\lake", "/home/me", "C:\\lake"),
    ],
)
def test_relative_paths_are_relative_to_their_base(location: str, base: str, expected: str) -> None:
    assert locations.absolute(location, base) == expected


@pytest.mark.parametrize(
    "location", ["/lake/a b", "lake", "s3://bucket/a", "abfss://container@account.dfs.core.windows.net/a", "file:/a?b"]
)
def test_locations_that_can_be(location: str) -> None:
    assert locations.problem(location) is None


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("", "empty"),
        (" ", "empty"),
        ("/a\nb", "control characters"),
        ("s3://key:secret@bucket/a", "user information"),
        ("https://user@host/a", "user information"),
        ("abfss://user:secret@account/a", "user information"),
        ("https://host/a?sig=abc", "query or fragment"),
        ("s3://bucket/a#b", "query or fragment"),
        ("s3://bucket/a?ddbTableName=locks", "query or fragment"),
        ("s3+ddb://bucket/a?ddbTableName=locks&sig=abc", "query or fragment"),
        ("s3+ddb://bucket/a?ddbTableName=locks#b", "query or fragment"),
        ("s3+ddb://key:secret@bucket/a?ddbTableName=locks", "user information"),
        ("file:./lake", "whole path"),
        ("file:lake", "whole path"),
    ],
)
def test_locations_that_cannot_be(location: str, reason: str) -> None:
    assert reason in (locations.problem(location) or "")
    assert reason in (locations.table_problem(location) or "")


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/lake/a?b", "/lake/a?b"),
        ("s3://bucket/a", "s3://bucket/a"),
        ("s3://bucket/a\nb", "s3://bucket/ab"),
        ("s3://key:secret@bucket/a", "s3://(redacted)@bucket/a"),
        ("https://host/a?sig=abc", "https://host/a?(redacted)"),
        ("https://u:p@host/a?sig=abc#x", "https://(redacted)@host/a?(redacted)"),
        ("s3+ddb://bucket/a?ddbTableName=locks", "s3+ddb://bucket/a?ddbTableName=locks"),
        ("s3+ddb://bucket/a?ddbTableName=locks&sig=abc", "s3+ddb://bucket/a?(redacted)"),
        ("s3+ddb://key:secret@bucket/a?ddbTableName=locks", "s3+ddb://(redacted)@bucket/a?(redacted)"),
        ("abfss://container@account/a", "abfss://container@account/a"),
        ("abfss://container:secret@account/a", "abfss://(redacted)@account/a"),
    ],
)
def test_what_is_shown_of_a_location(location: str, shown: str) -> None:
    assert locations.redact(location) == shown


@given(st.text(max_size=30), st.text("abcdef0123456789", min_size=8, max_size=12))
def test_no_query_or_password_is_ever_shown(text: str, secret: str) -> None:
    assume(secret not in text)
    assert secret not in locations.redact(f"https://user:{secret}@host/{text}?sig={secret}")


def test_names_are_joined_below_a_root() -> None:
    assert locations.join("s3://b/lake/", "a", "b.lance") == "s3://b/lake/a/b.lance"


def test_a_new_place_is_told_from_others_and_leads_home() -> None:
    one, other = (locations.new_place_in("s3://b/lake/") for _ in range(2))
    assert one != other
    assert locations.is_under("s3://b/lake", one)
    assert locations.is_new_place(one.rpartition("/")[2])
    assert locations.home_of(one) == "s3://b/lake"
    assert not locations.is_new_place(".lancens_reports")
    assert locations.home_of("s3://b/lake/.hidden") == "s3://b/lake/.hidden"


@pytest.mark.parametrize(
    "form",
    [
        "{}", "file:{}", "FILE://{}", "File-Object-Store://{}", "file-object-store:{}", "file+uring://host{}",
        "FILE+URING:{}", "file://host{}", "file://localhost{}", "fi\tle://{}", " file://{}", "\x01file-object-store://{}",
        "file-object-store\r\n://{}", "file:\\\\{}", "file://{}?x", "file-object-store://{}#x", "file://{}\x1f",
    ],
)  # fmt: skip
def test_a_place_on_this_machine_is_known_in_every_form_that_pylance_takes(form: str, tmp_path: Path) -> None:
    place = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": [1]}), place)
    location = form.format(place)
    assert lance.dataset(location).count_rows() == 1
    assert locations.normalise(location) == place
    assert str(storage.local_path(location)) == place
