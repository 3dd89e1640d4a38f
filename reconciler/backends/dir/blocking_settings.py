"""Find settings of ``__manifest`` that block reading it or committing to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.model.auto_cleanup import INTERVAL, KEYS
from reconciler.model.live import UNKNOWN_FEATURES

_NO_FLAGS = re.compile(r"\+?0+")


def unknown_flags(dataset: Any, use: str) -> str | None:
    """Return the feature flags that a ``reader`` or ``writer`` must know, if any.

    lancens knows no feature, so any flag blocks it.
    """
    flags = dataset.metadata.get(f"lance.namespace.manifest.{use}_feature_flags")
    return None if flags is None or _NO_FLAGS.fullmatch(flags) else flags


def blocking_settings(dataset: Any | None) -> dict[str, str]:
    """Return the settings that block commits: unknown features, auto clean-up."""
    if dataset is None:
        return {}
    flags, config = unknown_flags(dataset, "writer"), dataset.config()
    cleanup = {key: config[key] for key in KEYS if key in config} if INTERVAL in config else {}
    return cleanup if flags is None else {UNKNOWN_FEATURES: flags, **cleanup}


def notes_on_settings(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each kind of setting that blocks commits."""
    if UNKNOWN_FEATURES in settings:
        flags = settings[UNKNOWN_FEATURES]
        yield f"a newer pylance wrote `__manifest` (`{UNKNOWN_FEATURES}` is {flags!r:.40}): upgrade lancens to write"
    if INTERVAL in settings:
        yield (
            f"`__manifest` deletes its old versions at some commits (`{INTERVAL}` is {settings[INTERVAL]!r:.40}); the "
            "next plan with changes ends that first"
        )
