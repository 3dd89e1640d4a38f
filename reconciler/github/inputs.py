"""The inputs of the Action, as ``action.yml`` hands them over: one environment variable each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.errors import LancensError
from reconciler.state import DEFAULT_PARALLELISM

__all__ = ["DEFAULT_LABEL", "Command", "CommentWhen", "FailOn", "InputError", "Inputs", "read_inputs"]

DEFAULT_LABEL = "default"

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What the runner and this step hold themselves: inputs, tokens of the job, addresses that give out more of them.
_RUNNERS_OWN = re.compile(
    r"(?:INPUT|ACTIONS|GITHUB|RUNNER|LANCENS_ACTION)_|(?:LANCENS_PATH|LANCENS_PYTHON)$", re.IGNORECASE
)
_BOOLEANS = {"true": True, "false": False}
_MOST_PARALLEL = 256


class InputError(LancensError):
    """An input of the Action cannot be used."""


class Command(StrEnum):
    """What a step is asked to do."""

    PLAN = "plan"
    APPLY = "apply"
    DRIFT = "drift"
    AUDIT = "audit"
    VALIDATE = "validate"


class CommentWhen(StrEnum):
    """When a pull request gets a comment; drift treats its issue alike."""

    CHANGES_ONLY = "changes-only"
    ALWAYS = "always"
    NEVER = "never"


class FailOn(StrEnum):
    """How grave a finding of an audit has to be for the step to fail."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the workflow asks for; ``plan_file`` and ``history`` are empty where none is given.

    ``environment`` holds the variables that a manifest may read, ``allow_hosts`` the hosts it may name, empty for any.
    """

    command: Command
    manifests: tuple[str, ...] = ("lancens.yaml",)
    select: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: frozenset[str] = frozenset()
    allow_hosts: tuple[str, ...] = ()
    allow_outside: bool = False
    plan_file: str = ""
    require_approved_plan: bool = True
    allow_mass_removal: bool = False
    skip_blocked: bool = False
    comment: CommentWhen = CommentWhen.CHANGES_ONLY
    label: str = DEFAULT_LABEL
    parallelism: int = DEFAULT_PARALLELISM
    fail_on_drift: bool = False
    fail_on: FailOn = FailOn.NEVER
    history: str = ""
    token: str = field(default="", repr=False)


def read_inputs(environment: Mapping[str, str]) -> Inputs:
    """Return the inputs in ``environment``; one that is empty or not there has its default.

    Raises:
        InputError: one cannot be used. Values are not repeated in the message: a variable may hold a secret.
    """
    given = _Given(environment)
    inputs = Inputs(
        command=Command(given.choice("command", [*Command], Command.PLAN)),
        manifests=given.lines("manifest") or ("lancens.yaml",),
        select=given.lines("select"),
        variables=given.pairs("variables"),
        environment=given.names("environment"),
        allow_hosts=given.lines("allow-hosts"),
        allow_outside=given.boolean("allow-outside", False),
        plan_file=given.text("plan-file"),
        require_approved_plan=given.boolean("require-approved-plan", True),
        allow_mass_removal=given.boolean("allow-mass-removal", False),
        skip_blocked=given.boolean("skip-blocked", False),
        comment=CommentWhen(given.choice("comment", [*CommentWhen], CommentWhen.CHANGES_ONLY)),
        label=given.label(),
        parallelism=given.parallelism(),
        fail_on_drift=given.boolean("fail-on-drift", False),
        fail_on=FailOn(given.choice("fail-on", [*FailOn], FailOn.NEVER)),
        history=given.text("history"),
        token=given.text("token"),
    )
    if inputs.plan_file and inputs.command is not Command.APPLY:
        raise InputError(f"input `plan-file` goes with `command: apply`, not with `{inputs.command}`")
    if inputs.history and inputs.command is not Command.AUDIT:
        raise InputError(f"input `history` goes with `command: audit`, not with `{inputs.command}`")
    if inputs.select and inputs.command is Command.AUDIT:
        raise InputError("input `select` does not go with `command: audit`, which looks at everything in scope")
    if inputs.plan_file and inputs.select:
        raise InputError("a saved plan is carried out as it is: give `plan-file` or `select`, not both")
    return inputs


class _Given:
    """The environment, asked by the inputs' names."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def text(self, name: str) -> str:
        return self._environment.get(f"INPUT_{name.upper().replace('-', '_')}", "").strip()

    def lines(self, name: str) -> tuple[str, ...]:
        return tuple(line.strip() for line in self.text(name).splitlines() if line.strip())

    def names(self, name: str) -> frozenset[str]:
        """Return the names of environment variables, one a line or separated by commas or spaces."""
        found = frozenset(self.text(name).replace(",", " ").split())
        for one in sorted(found):
            if not _VARIABLE.fullmatch(one):
                raise InputError(f"input `{name}`: expected names of environment variables, and no values")
            if _RUNNERS_OWN.match(one):
                raise InputError(f"input `{name}`: {one} is the runner's own, and no manifest gets it")
        return found

    def choice(self, name: str, choices: list[str], default: str) -> str:
        text = self.text(name) or default
        if text not in choices:
            raise InputError(f"input `{name}` is none of {', '.join(choices)}")
        return text

    def boolean(self, name: str, default: bool) -> bool:
        text = self.text(name).lower()
        if text and text not in _BOOLEANS:
            raise InputError(f"input `{name}` is neither true nor false")
        return _BOOLEANS.get(text, default)

    def pairs(self, name: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for number, line in enumerate(self.lines(name), start=1):
            key, separator, value = line.partition("=")
            if not separator or not key:
                raise InputError(f"input `{name}`, line {number}: expected NAME=VALUE")
            found[key] = value
        return found

    def label(self) -> str:
        text = self.text("label") or DEFAULT_LABEL
        if not _LABEL.fullmatch(text):
            raise InputError("input `label`: expected up to 64 letters, digits, `.`, `_` and `-`")
        return text

    def parallelism(self) -> int:
        text = self.text("parallelism") or "8"
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST_PARALLEL):
            raise InputError(f"input `parallelism`: expected a number from 1 to {_MOST_PARALLEL}")
        return int(text)
