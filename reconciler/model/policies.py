"""Find the policies of a table, and what they ask for together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from reconciler.model import ownership
from reconciler.model.desired import DesiredPolicy, DesiredTable, Expectations
from reconciler.model.maintenance import Maintain
from reconciler.model.names import ANY_NAME, Identifier

_MOST_KNOWN = 2**14
"""How many namespaces are remembered: enough for scans, which read one namespace after the other."""

_Candidates: TypeAlias = tuple[tuple[int, re.Pattern[str] | None], ...]
"""Policies by their position, and the pattern of the names that they match; None for all names."""


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """What all policies of a table ask for together; the last policy that sets a key counts.

    Args:
        block: the same in form of a block, with an empty identifier.
        keys: the value of ``lancens.keys``.
        names: the patterns of the policies that set a property.
        writers: the policy behind each value, by keys such as ``properties.owner`` and ``expect.max_versions``.
    """

    block: DesiredTable
    keys: str
    names: tuple[str, ...]
    writers: Mapping[str, DesiredPolicy]

    @classmethod
    def of(cls, policies: Sequence[DesiredPolicy]) -> TablePolicy:
        """Return what ``policies`` ask for, in the order of the manifest."""
        setters = {key: policy for policy in policies for key in policy.properties}
        checkers = {key: policy for policy in policies for key in policy.expect}
        properties = {key: policy.properties[key] for key, policy in setters.items()}
        secret = frozenset(key for key, policy in setters.items() if key in policy.secret_keys)
        used = [policy for policy in policies if any(policy is setter for setter in setters.values())]
        block = DesiredTable(
            id=(),
            source=(used or policies)[-1].source,
            properties=properties,
            secret_keys=secret,
            expect=Expectations(**{key: policy.expect[key] for key, policy in checkers.items()}),
            maintain=Maintain(**{key: value for policy in policies for key, value in policy.maintain.items()}),
        )
        return cls(
            block,
            ownership.encode_keys(properties, secret),
            tuple(dict.fromkeys(policy.pattern for policy in used)),
            {f"properties.{key}": policy for key, policy in setters.items()}
            | {f"expect.{key}": policy for key, policy in checkers.items()},
        )


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of one catalog, matched once for each namespace: there may be a million tables."""

    policies: tuple[DesiredPolicy, ...] = ()
    _known: dict[Identifier, tuple[TablePolicy | None, _Candidates]] = field(default_factory=dict, compare=False)
    _combinations: dict[tuple[int, ...], TablePolicy] = field(default_factory=dict, compare=False)

    def of(self, table: Identifier) -> TablePolicy | None:
        """Return what the policies ask of a table without a block; None if none matches."""
        if not self.policies:
            return None
        known = self._known.get(table[:-1])
        if known is None:
            known = self._match_namespace(table[:-1])
        namespace_policy, candidates = known
        if not candidates:
            return namespace_policy
        name = table[-1]
        return self._combined(tuple(at for at, names in candidates if names is None or names.fullmatch(name)))

    def _match_namespace(self, namespace: Identifier) -> tuple[TablePolicy | None, _Candidates]:
        """Return the policy for all tables of a namespace; or None, and the positions that depend on names."""
        matching = ((at, policy.match.names_in(namespace)) for at, policy in enumerate(self.policies))
        candidates = tuple((at, _any_of(names)) for at, names in matching if names)
        is_same = all(names is None for _, names in candidates)
        known = (self._combined(tuple(at for at, _ in candidates)), ()) if is_same else (None, candidates)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[namespace] = known
        return known

    def _combined(self, positions: tuple[int, ...]) -> TablePolicy | None:
        if positions and positions not in self._combinations:
            self._combinations[positions] = TablePolicy.of([self.policies[at] for at in positions])
        return self._combinations.get(positions)


def _any_of(names: Sequence[re.Pattern[str]]) -> re.Pattern[str] | None:
    if ANY_NAME in names:
        return None
    return names[0] if len(names) == 1 else re.compile("|".join(f"(?:{name.pattern})" for name in names), re.DOTALL)
