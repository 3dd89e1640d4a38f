"""The identifiers of requests, checked against what a catalog can hold."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.model.capabilities import Capabilities
from reconciler.model.errors import InvalidInputError
from reconciler.model.limits import folded, name_problem, table_depth_problem
from reconciler.model.names import Identifier, join


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
