"""Structs and properties, there and back; no server is needed."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.backends.hive.entries import (
    alter_catalog,
    alter_database,
    live_catalog,
    live_database,
    new_catalog,
    new_database,
)
from reconciler.backends.hive.gen.ttypes import Catalog
from reconciler.model.errors import InvalidInputError
from reconciler.model.live import PropertyChanges

NAME = ("cat", "db")

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
catalog_properties = st.dictionaries(
    st.sampled_from(["catalog.description", "tier", "a\nb", 'properties: {"']) | text, text, max_size=4
).map(lambda properties: {**properties, "catalog.location-uri": "/lake/cat"})
database_properties = st.dictionaries(
    st.sampled_from(["database.description", "database.owner", "tier"]) | text, text, max_size=4
).map(
    lambda properties: {
        **{key: value for key, value in properties.items() if key != "database.owner-type"},
        "database.location-uri": "/lake/cat/db",
    }
)


@given(catalog_properties)
@example({"catalog.description": 'properties: {"a": "b"}', "catalog.location-uri": "/lake/cat"})
@example({"catalog.description": "two\nproperties: {", "catalog.location-uri": "/lake/cat"})
def test_the_properties_of_a_catalog_come_back_as_given(properties: dict[str, str]) -> None:
    assert live_catalog(("cat",), new_catalog("cat", properties)).properties == properties


@given(catalog_properties, catalog_properties, st.sets(text))
def test_altering_a_catalog_is_a_merge(before: dict[str, str], new: dict[str, str], gone: set[str]) -> None:
    changes = PropertyChanges(new, frozenset(gone | before.keys()) - new.keys())
    altered = alter_catalog(new_catalog("cat", before), changes)
    assert live_catalog(("cat",), altered).properties == changes.applied_to(before)
    assert altered.description  # a server takes an empty one for none given


@pytest.mark.parametrize(
    "description",
    ["plain", 'properties: {"a"', "properties: {1: 2}", 'properties: {"a": 1}', 'properties: {"a": "b"}\n', ""],
)
def test_what_a_person_wrote_is_no_properties(description: str) -> None:
    found = live_catalog(("cat",), Catalog(name="cat", description=description, locationUri="/lake"))
    expected = {"catalog.location-uri": "/lake", "catalog.description": description}
    assert found.properties == {key: value for key, value in expected.items() if value}


@given(database_properties)
def test_the_properties_of_a_database_come_back_as_given(properties: dict[str, str]) -> None:
    assert live_database(NAME, new_database(NAME, properties)).properties == properties


@given(database_properties, database_properties, st.sets(text))
def test_altering_a_database_is_a_merge(before: dict[str, str], new: dict[str, str], gone: set[str]) -> None:
    changes = PropertyChanges(new, frozenset(gone | before.keys()) - new.keys())
    database = new_database(NAME, before)
    alter_database(database, changes)
    assert live_database(NAME, database).properties == changes.applied_to(before)


def test_a_database_keeps_its_location_when_it_loses_the_property() -> None:
    database = new_database(NAME, {"database.location-uri": "/lake"})
    alter_database(database, PropertyChanges(remove=frozenset({"database.location-uri"})))
    assert database.locationUri == "/lake"


@pytest.mark.parametrize("key", ["database.description", "database.owner", "database.location-uri"])
def test_an_empty_field_is_refused(key: str) -> None:
    with pytest.raises(InvalidInputError, match=f"`{key}` is empty"):
        new_database(NAME, {key: ""})


@pytest.mark.parametrize("key", ["catalog.description", "catalog.location-uri"])
def test_an_empty_field_of_a_catalog_is_refused(key: str) -> None:
    with pytest.raises(InvalidInputError, match=f"`{key}` is empty"):
        new_catalog("cat", {key: ""})
