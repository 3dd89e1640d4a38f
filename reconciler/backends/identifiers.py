"""Names and depths checked against what a catalog can hold: those of requests, and those of manifests."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.errors import InvalidInputError
from reconciler.names import Identifier, check_name, join
from reconciler.state import Capabilities

__all__ = [
    "folded",
    "name_problem",
    "namespace_identifier",
    "property_problem",
    "require_kept",
    "table_depth_problem",
    "table_identifier",
]


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


def require_kept(impl: str, asked: Sequence[str], kept: Sequence[str]) -> None:
    """Return when a service keeps an object under the name it was asked by.

    Some fold names to lower case, and answer to either form. Under the other one the object would be found missing,
    made again and the one that is there removed, by every apply.

    Raises:
        InvalidInputError: it keeps another name; the text says what to write.
    """
    if tuple(asked) != tuple(kept):
        raise InvalidInputError(
            f"{impl}: the service keeps `{join(asked)}` as `{join(kept)}`: write `{kept[-1]}` in place of `{asked[-1]}`"
        )


def table_depth_problem(capabilities: Capabilities, depth: int) -> str | None:
    """Return why no table can stand below ``depth`` namespaces, as the end of a sentence; None when one can."""
    fewest, most = capabilities.table_depths
    if depth >= fewest and (most is None or depth <= most):
        return None
    expected = f"{fewest}" if fewest == most else f"{fewest} or more" if most is None else f"{fewest} to {most}"
    return f"below {depth} level{'' if depth == 1 else 's'} of namespaces, expected {expected}"


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
    problem = table_depth_problem(capabilities, len(identifier) - 1)
    if problem is not None:
        raise InvalidInputError(f"{impl}: table `{join(identifier)}` is {problem}")
    return identifier


def _checked(impl: str, capabilities: Capabilities, names: Sequence[str] | None) -> Identifier:
    identifier = tuple(folded(capabilities, name) for name in names or ())
    for name in identifier:
        reason = name_problem(capabilities, name)
        if reason is not None:
            raise InvalidInputError(f"{impl}: `{name}` in `{join(identifier)}`: {reason}")
    return identifier
