"""Schemas by name: a table names one of the lists of columns under `schemas`, in whichever file that is."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from reconciler import load
from reconciler.model.columns import Column, Schema
from reconciler.model.desired import DesiredTable, ExtraColumns
from reconciler.model.errors import ManifestError
from reconciler.model.redaction import redact_properties
from tests.unit.manifest.conftest import Load, Write, manifest

USERS = """\
schemas:
  users:
    - {name: id, type: int64, nullable: false}
    - {name: name, type: utf8, metadata: {unit: none}}
"""
COLUMNS: Schema = (Column("id", "int64", nullable=False), Column("name", "string", metadata={"unit": "none"}))


def tables(write: Write, *texts: str) -> dict[str, DesiredTable]:
    names = ("lancens", "second", "third")[: len(texts)]
    loaded = load(write(**dict(zip(names, texts, strict=True))))
    return {identifier[-1]: table for identifier, table in loaded.catalogs["lake"].desired.tables.items()}


def test_tables_share_a_schema_by_its_name(write: Write) -> None:
    found = tables(write, manifest("tables: {a: {schema: users}, b: {schema: users}, c: {}}") + USERS)
    assert found["a"].schema == COLUMNS
    assert found["a"].schema is found["b"].schema
    assert found["c"].schema is None


def test_the_schemas_of_all_files_are_merged(write: Write) -> None:
    own = "include: [second.yaml]\nschemas: {events: [{name: at, type: 'timestamp[us]'}]}\n"
    found = tables(write, own + manifest("tables: {a: {schema: users}, b: {schema: events}}"), USERS)
    assert found["a"].schema == COLUMNS
    assert found["b"].schema == (Column("at", "timestamp[us]"),)


def test_a_name_may_come_from_a_variable(write: Write) -> None:
    path = write(lancens=manifest('tables: {a: {schema: "${var:kind}"}}') + USERS)
    table = load(path, variables={"kind": "users"}).catalogs["lake"].desired.tables[("a",)]
    assert table.schema == COLUMNS


def test_a_schema_by_name_means_what_its_columns_mean(load_text: Load) -> None:
    inline = "tables: {a: {schema: [{name: id, type: int64, nullable: false}, "
    inline += "{name: name, type: string, metadata: {unit: none}}]}}"
    by_name = load_text(manifest("tables: {a: {schema: users}}") + USERS)
    assert by_name.digest == load_text(manifest(inline)).digest


@pytest.mark.parametrize(("metadata", "times"), [("unit: none", 1), ("password: swordfish", 3)])
def test_the_digest_reads_a_shared_schema_once_unless_it_has_secrets(
    load_text: Load, monkeypatch: pytest.MonkeyPatch, metadata: str, times: int
) -> None:
    columns = f"[{{name: id, type: int64, metadata: {{{metadata}}}}}]"
    addresses: list[object] = []

    def counted(properties: Mapping[str, str], address: str | None = None, *secret: Collection[str]) -> dict[str, str]:
        addresses.extend(filter(None, [address]))
        return redact_properties(properties, address, *secret)

    monkeypatch.setattr("reconciler.manifest.manifest.redact_properties", counted)
    by_name = load_text(
        manifest("tables: {a: {schema: x}, b: {schema: x}, c: {schema: x}}") + f"schemas: {{x: {columns}}}"
    )
    assert len(addresses) == times
    inline = ", ".join(f"{name}: {{schema: {columns}}}" for name in "abc")
    assert by_name.digest == load_text(manifest(f"tables: {{{inline}}}")).digest


def test_extra_columns_are_kept_unless_they_are_a_conflict(write: Write) -> None:
    found = tables(write, manifest("tables: {a: {schema: users}, b: {schema: users, extra_columns: conflict}}") + USERS)
    assert [found[name].extra_columns for name in "ab"] == [ExtraColumns.KEEP, ExtraColumns.CONFLICT]


L = "lancens.yaml"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            manifest("tables: {a: {schema: usrs}}") + USERS,
            [f"{L}:7:26: `schema` in table lake/a is `usrs`, which is not in `schemas`; did you mean `users`?"],
        ),
        (
            manifest("tables: {a: {schema: zzz}}") + USERS,
            [f"{L}:7:26: `schema` in table lake/a is `zzz`, which is not in `schemas`; expected `users`"],
        ),
        (
            manifest("tables: {a: {schema: users}}"),
            [
                (
                    f"{L}:7:26: `schema` in table lake/a is `users`, which is not in `schemas`; "
                    "expected a list of columns, or a name there"
                )
            ],
        ),
        (
            manifest("tables: {a: {schema: users}}")
            + "schemas:\n  users:\n    - {name: id, type: int63, nulable: no}\n",
            [
                f"{L}:10:24: type `int63`: Lance stores no type `int63`; did you mean `int64`?",
                f"{L}:10:31: unknown key `nulable` in a column of schema users; did you mean `nullable`?",
            ],
        ),
        (
            manifest("tables: {}") + "schemas:\n  users: [{name: id, type: int64}, {type: int8}]\n",
            [f"{L}:9:36: a column of schema users has no `name`; expected a name and a type"],
        ),
        (
            manifest("tables: {a: {schema: users}}")
            + "schemas:\n  users: [{name: id, type: int64}, {name: id, type: int8}]\n",
            [f"{L}:9:43: column `id` in schema users is a duplicate, first at {L}:9:18"],
        ),
        (
            manifest("tables: {a: {schema: users, absent: true, extra_columns: conflict}}") + USERS,
            [
                f"{L}:7:18: `schema` in table lake/a contradicts `absent: true`",
                f"{L}:7:47: `extra_columns` in table lake/a contradicts `absent: true`",
            ],
        ),
        (
            manifest("tables: {a: {extra_columns: drop}}"),
            [f"{L}:7:33: `extra_columns` in table lake/a is `drop`, expected `keep` or `conflict`"],
        ),
        (
            manifest("tables: {a: {schema: users}}") + "schemas: users\n",
            [f"{L}:8:10: `schemas` in the manifest is `users`, expected a block of keys"],
        ),
        (
            manifest("tables: {a: {schema: users}}") + "schemas: {users: []}\n",
            [f"{L}:8:18: `schemas.users` in the manifest is empty; expected at least one entry, or no key at all"],
        ),
    ],
)
def test_a_fault_names_its_place_and_the_nearest_name(load_text: Load, text: str, said: list[str]) -> None:
    with pytest.raises(ManifestError) as caught:
        load_text(text)
    assert str(caught.value).splitlines()[: len(said)] == said


def test_a_schema_that_two_files_give_is_a_duplicate(write: Write) -> None:
    with pytest.raises(ManifestError, match=r"second\.yaml:2:3: `schemas/users` .*9:3"):
        tables(write, manifest("tables: {}") + USERS + "include: [second.yaml]\n", USERS)
