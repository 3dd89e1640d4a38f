"""Identifiers as requests give them, checked against what a catalog can hold."""

from __future__ import annotations

from collections.abc import Sequence

from lance_namespace.errors import InvalidInputError

from reconciler.names import Identifier, check_name, join
from reconciler.state import Capabilities

__all__ = ["namespace_identifier", "table_identifier"]


def namespace_identifier(
    impl: str, capabilities: Capabilities, names: Sequence[str] | None, *, root: bool
) -> Identifier:
    """Return the checked, folded identifier of a namespace; the empty one is the root, where ``root`` admits it.

    Raises:
        InvalidInputError: a name or the depth is not possible, or the root was given where it cannot be.
    """
    identifier = _checked(impl, capabilities, names)
    if not identifier and not root:
        raise InvalidInputError(f"{impl}: the root namespace cannot be created, altered or dropped")
    if capabilities.max_depth is not None and len(identifier) > capabilities.max_depth:
        raise InvalidInputError(
            f"{impl}: namespace `{join(identifier)}` is {len(identifier)} levels deep; "
            f"namespaces have at most {capabilities.max_depth} here"
        )
    return identifier


def table_identifier(impl: str, capabilities: Capabilities, names: Sequence[str] | None) -> Identifier:
    """Return the checked, folded identifier of a table.

    Raises:
        InvalidInputError: a name or the depth is not possible.
    """
    identifier = _checked(impl, capabilities, names)
    if not identifier:
        raise InvalidInputError(f"{impl}: a table needs an identifier")
    fewest, most = capabilities.table_depths
    depth = len(identifier) - 1
    if depth < fewest or (most is not None and depth > most):
        expected = str(fewest) if fewest == most else f"{fewest} or more" if most is None else f"{fewest} to {most}"
        raise InvalidInputError(
            f"{impl}: table `{join(identifier)}` stands below {depth} namespaces; here it is {expected}"
        )
    return identifier


def _checked(impl: str, capabilities: Capabilities, names: Sequence[str] | None) -> Identifier:
    identifier = tuple(name.lower() if capabilities.folds_case else name for name in names or ())
    rule = capabilities.name_rule
    for name in identifier:
        reason = check_name(name)
        if reason is None and rule is not None and not rule.pattern.fullmatch(name):
            reason = rule.meaning
        if reason is not None:
            raise InvalidInputError(f"{impl}: `{name}` in `{join(identifier)}`: {reason}")
    return identifier
