"""The names under which services keep objects."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.model.errors import InvalidInputError
from reconciler.model.names import join


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
