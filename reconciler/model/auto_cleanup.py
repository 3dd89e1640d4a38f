"""Lance's automatic clean-up: which commit would delete old versions of a dataset, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.model import locations

PREFIX = "lance.auto_cleanup."
"""The prefix of all keys of the clean-up, which later pylance may add to."""

INTERVAL = f"{PREFIX}interval"
"""The key of a dataset's configuration that turns the clean-up on."""

_OLDER_THAN, _RETAIN = f"{PREFIX}older_than", f"{PREFIX}retain_versions"

KEYS = (INTERVAL, _OLDER_THAN, _RETAIN)
"""The keys that decide when the clean-up runs and what it removes."""

UNBOUND_REMEDY = (
    "make the change yourself with pylance, which cleans up if the dataset is set to, or keep the data on this machine "
    f"or in {', '.join(f'`{scheme}`' for scheme in sorted(locations.CONDITIONAL))}, and plan again"
)
"""The remedy for a reason of :func:`why_unbound`."""

CLEANUP_REMEDY = (
    f"delete the key (`lance.dataset(...).delete_config_keys(['{INTERVAL}'])`), make the change yourself with "
    "pylance, which cleans up, or let another writer commit that version, and plan again"
)
"""The remedy for a reason of :meth:`AutoCleanup.reason`."""

_NUMBER = re.compile(r"\+?[0-9]{1,20}", re.ASCII)


@dataclass(frozen=True, slots=True)
class AutoCleanup:
    """The clean-up interval of a dataset at ``version``: each commit whose version it divides cleans up.

    Versions younger than ``older_than`` are kept, and the latest ``retain_versions``, where they are given.
    """

    interval: str
    version: int
    older_than: str | None = None
    retain_versions: str | None = None

    @classmethod
    def of(cls, config: Mapping[str, str], version: int) -> AutoCleanup | None:
        """Return the clean-up that a dataset's configuration sets, None where it is off."""
        if INTERVAL not in config:
            return None
        return cls(config[INTERVAL], version, config.get(_OLDER_THAN), config.get(_RETAIN))

    @property
    def each(self) -> int:
        """The number of commits between clean-ups; 0 if any commit may clean up.

        pylance 14 cleans up at every commit for 0, and never for a text that is not a number; a later one may.
        """
        return int(self.interval) if _NUMBER.fullmatch(self.interval) else 0

    @property
    def next_due(self) -> int:
        """The first version after this one whose commit may clean up."""
        each = self.each or 1
        return (self.version // each + 1) * each

    def reason(self, commits: int) -> str | None:
        """Return why lancens does not make the next ``commits`` commits; None if none of them may clean up."""
        if self.next_due > self.version + commits:
            return None
        return (
            f"the commit of version {self.next_due} may delete old versions of the dataset, whose "
            f"`{INTERVAL}` is {self.interval[:40]!r}; lancens never triggers that"
        )


def why_unbound(location: str) -> str | None:
    """Return why lancens commits nothing to a dataset at ``location``; None if it can."""
    scheme = locations.scheme(locations.pylance_uri(location))
    # Data in the memory of this process has no other writers.
    if locations.path_of(location) is not None or scheme == "shared-memory" or scheme in locations.CONDITIONAL:
        return None
    return (
        f"pylance 14 cannot tell in `{scheme}` which version a commit becomes, and the commit of some versions "
        f"may delete old ones (`{INTERVAL}`)"
    )
