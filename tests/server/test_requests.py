"""Reading requests: names survive any encoding, and nothing but InvalidInput comes of what cannot be read."""

from __future__ import annotations

import json
from contextlib import suppress
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_namespace.errors import InvalidInputError
from starlette.datastructures import Headers, QueryParams

from reconciler.server.operations import OPERATIONS, Operation
from reconciler.server.requests import identifier_in_path, parse_request

NAMES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="$")).filter(bool), min_size=1, max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMED = {operation.name: operation for operation in OPERATIONS}
JSON_BODY = Headers({"content-type": "application/json"})
OPERATION = st.sampled_from(OPERATIONS)


@given(NAMES)
def test_names_come_back_from_the_path(names: list[str]) -> None:
    joined = "$".join(names)
    assert identifier_in_path(quote(joined, safe=""), QueryParams()) == names
    assert identifier_in_path(quote_plus(joined), QueryParams()) == names


@given(NAMES, st.sampled_from([".", "/", "--", "%", "é"]))
def test_names_come_back_whatever_joins_them(names: list[str], delimiter: str) -> None:
    names = [name.replace(delimiter[0], "_") for name in names]
    path = quote(delimiter.join(names), safe="")
    assert identifier_in_path(path, QueryParams({"delimiter": delimiter})) == names


@given(NAMES)
def test_names_come_back_from_the_query(names: list[str]) -> None:
    query = QueryParams(urlencode({"id": "$".join(names)}))
    request, _ = parse_request(NAMED["CreateTable"], {}, query, Headers(), b"")
    assert getattr(request, "id", None) == names


@pytest.mark.parametrize("names", [["a"] * 65, ["a" * 8193]], ids=["names", "characters"])
def test_an_identifier_longer_than_any_catalogs_is_refused_wherever_it_is(names: list[str]) -> None:
    joined = "$".join(names)
    described, created = NAMED["DescribeTable"], NAMED["CreateTable"]
    with pytest.raises(InvalidInputError, match="an identifier has at most"):
        parse_request(described, {"id": joined}, QueryParams(), JSON_BODY, b"")
    with pytest.raises(InvalidInputError, match="an identifier has at most"):
        parse_request(described, {}, QueryParams(), JSON_BODY, json.dumps({"id": names}).encode())
    with pytest.raises(InvalidInputError, match="an identifier has at most"):
        parse_request(created, {}, QueryParams({"id": joined}), JSON_BODY, b"")


@pytest.mark.parametrize("path", ["%24", "", "$"])
def test_the_delimiter_alone_is_the_root(path: str) -> None:
    assert identifier_in_path(path, QueryParams()) == []


@given(
    OPERATION,
    st.none() | st.text(),
    st.dictionaries(st.text(), st.text(), max_size=4),
    st.binary() | JSON.map(repr).map(str.encode),
)
def test_whatever_comes_is_read_or_refused(
    operation: Operation, path: str | None, query: dict[str, str], body: bytes
) -> None:
    headers = Headers({"content-type": "application/json"})
    route = {} if path is None else dict.fromkeys(("id", "index_name"), quote(path))
    with suppress(InvalidInputError):
        request, data = parse_request(operation, route, QueryParams(urlencode(query)), headers, body)
        assert isinstance(request, operation.request)
        assert data == (body if operation.takes_data else b"")


@pytest.mark.parametrize("field", ["id", "mode", "properties", "location", "set_properties", "page_token", "limit"])
@pytest.mark.parametrize("value", [["secret-1", 2], {"k": ["secret-1"]}, [["secret-1"]], {"secret-1": None}])
def test_no_value_of_a_body_is_repeated_in_a_refusal(field: str, value: object) -> None:
    body = json.dumps({field: value}).encode()
    refusals = 0
    for operation in OPERATIONS:
        if field not in operation.request.model_fields or operation.takes_data:
            continue
        with pytest.raises(InvalidInputError) as refused:
            parse_request(operation, {}, QueryParams(), Headers({"content-type": "application/json"}), body)
        assert f"`{field}`" in str(refused.value)
        assert "secret-1" not in str(refused.value)
        refusals += 1
    assert refusals


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("CreateNamespace", {"id": ["a"], "mode": "overwrite", "properties": {"api_token": "(redacted)"}}),
        ("AlterTable", {"id": ["a", "t"], "set_properties": {"api_token": "(redacted)"}}),
        ("UpdateTableSchemaMetadata", {"id": ["a", "t"], "metadata": {"tier": "gold", "api_token": "(redacted)"}}),
        ("UpdateFieldMetadata", {"updates": [{"path": "c", "metadata": {"tier": None, "api_token": "(redacted)"}}]}),
    ],
)
def test_what_is_shown_instead_of_a_secret_is_not_written_over_it(name: str, body: object) -> None:
    with pytest.raises(InvalidInputError, match="`api_token`"):
        parse_request(NAMED[name], {}, QueryParams(), JSON_BODY, json.dumps(body).encode())


@pytest.mark.parametrize("body", [b"", b"null"])
def test_a_request_without_metadata_does_not_ask_for_none(body: bytes) -> None:
    operation = NAMED["UpdateTableSchemaMetadata"]
    for route in ({}, {"id": "t"}):
        request, _ = parse_request(operation, route, QueryParams(), JSON_BODY, body)
        assert getattr(request, "metadata", {}) is None
    request, _ = parse_request(operation, {"id": "t"}, QueryParams(), JSON_BODY, b"{}")
    assert getattr(request, "metadata", None) == {}
