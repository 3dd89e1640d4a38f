"""Comparing a table's schema with the one its manifest gives."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.redaction import redact_value
from reconciler.state import Column, Evolve, Schema

__all__ = ["SchemaDifference", "compare"]


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """``added`` columns are missing from the data; ``faults`` are differences that nothing can mend."""

    added: Schema
    faults: tuple[str, ...]


def compare(desired: Schema, found: Schema, evolve: Evolve) -> SchemaDifference:
    """Return what separates ``found`` (the data) from ``desired`` (the manifest); the order of columns does not count.

    Under ``Evolve.ADDITIVE`` missing nullable columns can be added; everything else is a fault.
    """
    live = {field.name: field for field in found}
    faults: list[str] = []
    added: list[Column] = []
    for field in desired:
        there = live.pop(field.name, None)
        if there is None:
            if evolve is not Evolve.ADDITIVE:
                faults.append(f"column `{field.name}` ({field.type}) is not in the data")
            elif not field.nullable:
                faults.append(f"column `{field.name}` is not in the data and only nullable columns can be added")
            else:
                added.append(field)
        elif not _agrees(field, there):
            faults.append(f"column `{field.name}` is {_text(there)} in the data, {_text(field)} in the manifest")
    faults += [f"column `{name}` ({field.type}) is in the data but not in the manifest" for name, field in live.items()]
    return SchemaDifference(tuple(added), tuple(faults))


def _agrees(desired: Column, found: Column) -> bool:
    """Return whether the data has what is desired; metadata that engines add beside the named keys does not count."""
    return (desired.type, desired.nullable) == (found.type, found.nullable) and all(
        found.metadata.get(key) == value for key, value in desired.metadata.items()
    )


def _text(field: Column) -> str:
    text = f"`{field.type}`" + ("" if field.nullable else " not null")
    if field.metadata:
        text += " with metadata " + ", ".join(
            f"{key}={redact_value(key, value)}" for key, value in field.metadata.items()
        )
    return text
