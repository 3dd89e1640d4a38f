"""What a catalog can hold: names, depths and properties checked against what it is able to do."""

from __future__ import annotations

from reconciler.model.capabilities import Capabilities
from reconciler.model.names import check_name


def folded(capabilities: Capabilities, name: str) -> str:
    """Return ``name`` as the catalog keeps it."""
    return name.lower() if capabilities.folds_case else name


def name_problem(capabilities: Capabilities, name: str) -> str | None:
    """Return why the catalog can hold nothing of this name, or None when it can."""
    rule = capabilities.name_rule
    if rule is None or rule.pattern.fullmatch(folded(capabilities, name)):
        return check_name(name)
    return check_name(name) or rule.meaning


def property_problem(capabilities: Capabilities, key: str, value: str) -> str | None:
    """Return why the catalog cannot keep the property ``key`` with ``value``, or None when it can."""
    most = capabilities.longest_property
    for what, text in (("key", key), ("value", value)):
        size = len(text.encode("utf-16-le")) // 2
        if most is not None and size > most:
            return f"its {what} has {size} characters, expected at most {most}"
    return None


def table_depth_problem(capabilities: Capabilities, depth: int) -> str | None:
    """Return why no table can stand below ``depth`` namespaces, as the end of a sentence; None when one can."""
    fewest, most = capabilities.table_depths
    if depth >= fewest and (most is None or depth <= most):
        return None
    expected = f"{fewest}" if fewest == most else f"{fewest} or more" if most is None else f"{fewest} to {most}"
    return f"below {depth} level{'' if depth == 1 else 's'} of namespaces, expected {expected}"
