"""Ids of catalogs and entries of Glue, as lancens reads and writes them: no server."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.backends.glue.structures import as_input, id_below, names_in, table_mismatch, with_state
from reconciler.model.live import LiveTable
from tests.servers import glue_model

ACCOUNT = "123456789012"
names = st.from_regex(r"[a-z][a-z0-9_:-]{0,10}", fullmatch=True)
paths = st.lists(names, max_size=4).map(tuple)


@given(paths, paths.filter(bool))
def test_a_catalog_found_below_another_is_where_it_was_put(above: tuple[str, ...], path: tuple[str, ...]) -> None:
    root = f"{ACCOUNT}:{'/'.join(above)}" if above else ACCOUNT
    assert id_below(root, path) == f"{ACCOUNT}:{'/'.join((*above, *path))}"
    assert names_in(id_below(root, path)) == (*above, *path)


def _values(shape: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Return values that an answer of ``shape`` can hold."""
    kind = shape.type_name
    if kind == "structure":
        members = {} if depth > 3 else shape.members
        return st.fixed_dictionaries({}, optional={name: _values(inner, depth + 1) for name, inner in members.items()})
    if kind == "list":
        return st.lists(_values(shape.member, depth + 1), max_size=2)
    if kind == "map":
        return st.dictionaries(st.text(max_size=3), _values(shape.value, depth + 1), max_size=2)
    return {"integer": st.integers(), "long": st.integers(), "boolean": st.booleans()}.get(kind, st.text(max_size=3))


def _shape(name: str) -> Any:
    return botocore.session.get_session().get_service_model("glue").shape_for(name)


@pytest.mark.parametrize(
    ("answered", "taken"), [("Table", "TableInput"), ("Database", "DatabaseInput"), ("Catalog", "CatalogInput")]
)
def test_an_update_sends_back_what_it_takes_and_nothing_else(answered: str, taken: str) -> None:
    shape = _shape(taken)

    @given(_values(_shape(answered)))
    def holds(entry: dict[str, Any]) -> None:
        sent = as_input(entry, shape)
        assert set(sent) == set(entry) & set(shape.members)
        assert not [fault for fault in glue_model.shape_faults(shape, sent) if fault.endswith("is unknown")]
        assert {key: sent[key] for key in ("Parameters", "Description") if key in sent} == {
            key: entry[key] for key in ("Parameters", "Description") if key in entry
        }

    holds()


@given(_values(_shape("Table")), st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3))
def test_a_change_of_a_table_touches_location_and_parameters_only(entry: Any, properties: dict[str, str]) -> None:
    entry.setdefault("Parameters", {})["table_type"] = "LANCE"
    properties.pop("table_type", None)
    changed: Any = with_state(entry, LiveTable(("d", "t"), "s3://lake/t", properties))
    assert changed["Parameters"] == {**properties, "table_type": "LANCE"}
    assert changed["StorageDescriptor"] == {**entry.get("StorageDescriptor", {}), "Location": "s3://lake/t"}
    rest = {"Parameters", "StorageDescriptor"}
    assert {key: value for key, value in changed.items() if key not in rest} == {
        key: value for key, value in entry.items() if key not in rest
    }


@given(_values(_shape("Table")))
def test_any_entry_is_a_lance_table_or_not(entry: Any) -> None:
    marked = entry.get("Parameters", {}).get("table_type", "").lower() == "lance"
    assert table_mismatch(entry) is not None or marked


def test_naming_the_backend_imports_no_boto3() -> None:
    code = "import sys; from reconciler.backends.glue import GlueBackend; sys.exit('boto3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
