"""Read and write the tags of datasets. A tag is no version, so nothing here sets off an auto clean-up."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from reconciler.model.live import Storage
from reconciler.model.tags import MAIN_BRANCH, FoundTags, TagTarget
from reconciler.storage.opening import open_dataset
from reconciler.storage.pylance import translated
from reconciler.storage.reading import examine, is_version_gone, list_references


def find_tags(
    location: str, options: Mapping[str, str], wanted: Mapping[str, str], recorded: Collection[str] = ()
) -> FoundTags | Storage:
    """Read those tags of a dataset that are ``wanted`` or ``recorded``.

    Args:
        location, options: of the dataset.
        wanted: target version of each tag in the manifest, by name.
        recorded: names of the tags that lancens set before.

    Returns:
        The tags, and the names of wanted ones whose version does not exist; without a dataset, the state of storage.
    """
    return examine(location, options, partial(tags_in, wanted=wanted, recorded=recorded))


def tags_in(dataset: Any, wanted: Mapping[str, str], recorded: Collection[str]) -> FoundTags:
    """Return what :func:`find_tags` returns for an open ``lance.LanceDataset``."""
    existing = _tags_of(dataset)
    missing = (
        name for name, target in wanted.items() if existing.get(name) != target and not _has_version(dataset, target)
    )
    return FoundTags(
        {name: existing[name] for name in sorted({*wanted, *recorded}) if name in existing}, tuple(missing)
    )


def write_tags(location: str, targets: Mapping[str, str | None], options: Mapping[str, str]) -> None:
    """Set each tag to its target, and remove those whose target is None.

    Raises:
        TableAlreadyExistsError: someone else has just created the tag.
        InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: as :func:`translated`.
    """
    with translated(location, options):
        dataset = open_dataset(location, options)
        existing = _tags_of(dataset)
        for name, text in targets.items():
            target = None if text is None else TagTarget.of(text)
            if target is None:
                if name in existing:
                    dataset.tags.delete(name)
                continue
            write = dataset.tags.update if name in existing else dataset.tags.create
            write(name, (target.branch, target.version))
            dataset.checkout_version(name)  # a clean-up may have removed the version just before


def _tags_of(dataset: Any) -> dict[str, str]:
    return {
        name: str(TagTarget(tag["version"], tag["branch"] or MAIN_BRANCH))
        for name, tag in list_references(dataset.tags).items()
    }


def _has_version(dataset: Any, text: str) -> bool:
    target = TagTarget.of(text)
    try:
        dataset.checkout_version((target.branch, target.version))
    except (OSError, ValueError) as error:
        if not is_version_gone(error):
            raise
        return False
    return True
