from __future__ import annotations

from reconciler.model.columns import Column
from reconciler.planner.views import FieldChange, ObjectView, field_changes


def test_dictionaries_with_nothing_in_common_are_explained_key_by_key() -> None:
    before = ObjectView(properties={"tier": "silver"})
    after = ObjectView(properties={"db_password": "hunter2", "owner": "ml"})
    fields = field_changes(before, after, "lake/t")
    assert [field.path for field in fields] == ["properties.db_password", "properties.owner", "properties.tier"]
    assert "hunter2" not in str(fields)


def test_a_property_that_starts_with_underscores_is_explained() -> None:
    fields = field_changes(ObjectView(properties={"__kind": "a"}), ObjectView(properties={"__kind": "b"}), "lake/t")
    assert fields == (FieldChange(path="properties.__kind", before="a", after="b"),)


def test_columns_that_were_not_known_before_are_explained_one_by_one() -> None:
    after = ObjectView(columns=(Column(name="user_id", type="int64", nullable=False),))
    assert field_changes(ObjectView(), after, "lake/t") == (FieldChange(path="schema.user_id", after="int64 not null"),)
