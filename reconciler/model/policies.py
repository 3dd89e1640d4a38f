"""Find the policies of a table, and what they ask for together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from reconciler.model import ownership
from reconciler.model.desired import DesiredPolicy, DesiredTable, Expectations
from reconciler.model.globs import Globs
from reconciler.model.maintenance import Maintain
from reconciler.model.names import Identifier

_MOST_KNOWN = 2**14
"""How many namespaces are remembered: enough for scans, which read one namespace after the other."""


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


@dataclass(frozen=True)
class Policies:
    """The policies of one catalog, matched once for each namespace where they tell no names apart."""

    policies: tuple[DesiredPolicy, ...] = ()
    _by_namespace: dict[Identifier, tuple[bool, TablePolicy | None]] = field(default_factory=dict, compare=False)
    _combinations: dict[tuple[int, ...], TablePolicy] = field(default_factory=dict, compare=False)

    @cached_property
    def _globs(self) -> Globs:
        policies = enumerate(self.policies)
        return Globs((pattern, at) for at, policy in policies for pattern in policy.match.patterns)

    def of(self, table: Identifier) -> TablePolicy | None:
        """Return what the policies ask of a table without a block; None if none matches."""
        if not self.policies:
            return None
        is_same, policy = self._by_namespace.get(table[:-1]) or self._match_namespace(table)
        return policy if is_same else self._matching(table)

    def _match_namespace(self, table: Identifier) -> tuple[bool, TablePolicy | None]:
        """Return whether all tables beside ``table`` have the same policies, and what these ask for."""
        is_same = not self._globs.tell_names_apart(table[:-1])
        if len(self._by_namespace) >= _MOST_KNOWN:
            self._by_namespace.clear()
        self._by_namespace[table[:-1]] = known = is_same, self._matching(table) if is_same else None
        return known

    def _matching(self, table: Identifier) -> TablePolicy | None:
        positions = tuple(sorted({*self._globs.matching(table)}))
        if positions and positions not in self._combinations:
            self._combinations[positions] = TablePolicy.of([self.policies[at] for at in positions])
        return self._combinations.get(positions)
