"""The names a Unity Catalog holds, and how they make up the full name of an object."""

from __future__ import annotations

import re

from reconciler.model.capabilities import NameRule
from reconciler.model.names import Identifier, check_name

NAME_RULE = NameRule(
    re.compile(r"[A-Za-z0-9_@-]{1,255}"),
    "a name in Unity Catalog has letters without accents, digits, `_`, `@` and `-` only",
)


def name_problem(name: str) -> str | None:
    """Return why ``name`` is not a name here, None when it is."""
    problem = check_name(name)
    if problem is None and not NAME_RULE.pattern.fullmatch(name):
        problem = NAME_RULE.meaning
    return problem


def full_name(identifier: Identifier) -> str:
    """Return what the service calls an object, such as ``main.sales.orders``."""
    return ".".join(identifier)
