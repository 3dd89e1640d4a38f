"""Read all that a plan asks of a table's dataset while it is opened once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple

from reconciler.model.columns import Schema
from reconciler.model.live import Storage
from reconciler.model.tags import FoundTags
from reconciler.storage.dataset_writes import addition_problem
from reconciler.storage.pylance import or_none
from reconciler.storage.reading import describe_dataset, examine
from reconciler.storage.tags import tags_in


class TableContent(NamedTuple):
    """The content of a table's location.

    ``tags`` is None without tags in question; ``problem`` is why columns cannot be added, None if they can.
    """

    storage: Storage
    tags: FoundTags | None = None
    problem: str | None = None


def probe_table(
    location: str,
    options: Mapping[str, str],
    desired_tags: Mapping[str, str],
    recorded_tags: Collection[str],
    columns_to_add: Callable[[Storage], Schema],
) -> TableContent:
    """Return what :func:`probe` and :func:`find_tags` return, and why columns cannot be added.

    ``columns_to_add`` returns the columns that apply would add to a dataset.
    """
    from reconciler.arrow_types import to_arrow_schema

    def read(dataset: Any) -> TableContent:
        storage = describe_dataset(location, dataset)
        tags = tags_in(dataset, desired_tags, recorded_tags) if desired_tags or recorded_tags else None
        columns = columns_to_add(storage)
        problem = or_none(partial(addition_problem, dataset, to_arrow_schema(columns))) if columns else None
        return TableContent(storage, tags, problem)

    content = examine(location, options, read)
    return TableContent(content) if isinstance(content, Storage) else content
