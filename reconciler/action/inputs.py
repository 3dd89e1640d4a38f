"""The inputs of the Action, as ``action.yml`` hands them over: one environment variable each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.errors import LancensError

DEFAULT_LABEL = "default"

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What the runner and this step hold themselves: inputs, tokens of the job, addresses that give out more of them.
_RUNNERS_OWN = re.compile(
    r"(?:INPUT|ACTIONS|GITHUB|RUNNER|LANCENS_ACTION)_|LANCENS_(?:MATRIX|PATH|PYTHON|STARTED)$", re.IGNORECASE
)
_BOOLEANS = {"true": True, "false": False}
_MOST_PARALLEL = 256
_LONGEST_STALE = 36_500
_MOST_DIGITS = 10


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


class Engine(StrEnum):
    """Where catalogs are compared with the manifest; the plan is the same."""

    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the workflow asks for; ``plan_file``, ``master`` and ``history`` are empty where none is given.

    ``environment`` holds the variables that a manifest may read, ``allow_hosts`` the hosts it may name, empty for any.
    """

    command: Command
    manifests: tuple[str, ...] = ("lancens.yaml",)
    select: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    var_files: tuple[str, ...] = ()
    environment: frozenset[str] = frozenset()
    allow_hosts: tuple[str, ...] = ()
    allow_outside: bool = False
    plan_file: str = ""
    require_approved_plan: bool = True
    adopt: bool = False
    take_over: bool = False
    allow_mass_removal: bool = False
    skip_blocked: bool = False
    no_probe: bool = False
    comment: CommentWhen = CommentWhen.CHANGES_ONLY
    label: str = DEFAULT_LABEL
    parallelism: int = DEFAULT_PARALLELISM
    engine: Engine = Engine.LOCAL
    master: str = ""
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    fail_on_drift: bool = False
    fail_on_unmanaged: bool = False
    fail_on: FailOn = FailOn.NEVER
    rules: tuple[str, ...] = ()
    skip_rules: tuple[str, ...] = ()
    stale_after: int | None = None
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
        var_files=given.lines("var-file"),
        environment=given.names("environment"),
        allow_hosts=given.lines("allow-hosts"),
        allow_outside=given.boolean("allow-outside", False),
        plan_file=given.text("plan-file"),
        require_approved_plan=given.boolean("require-approved-plan", True),
        adopt=given.boolean("adopt", False),
        take_over=given.boolean("take-over", False),
        allow_mass_removal=given.boolean("allow-mass-removal", False),
        skip_blocked=given.boolean("skip-blocked", False),
        no_probe=given.boolean("no-probe", False),
        comment=CommentWhen(given.choice("comment", [*CommentWhen], CommentWhen.CHANGES_ONLY)),
        label=given.label(),
        parallelism=given.number("parallelism", _MOST_PARALLEL) or DEFAULT_PARALLELISM,
        engine=Engine(given.choice("engine", [*Engine], Engine.LOCAL)),
        master=given.text("master"),
        spark_conf=given.pairs("spark-conf"),
        fail_on_drift=given.boolean("fail-on-drift", False),
        fail_on_unmanaged=given.boolean("fail-on-unmanaged", False),
        fail_on=FailOn(given.choice("fail-on", [*FailOn], FailOn.NEVER)),
        rules=given.words("rules"),
        skip_rules=given.words("skip-rules"),
        stale_after=given.number("stale-after", _LONGEST_STALE),
        history=given.text("history"),
        token=given.text("token"),
    )
    _check_together(inputs)
    return inputs


def _check_together(inputs: Inputs) -> None:
    """Refuse what the command would not look at: a workflow that asks for it expects something else.

    Raises:
        InputError: naming the first such input.
    """
    command, on_spark = inputs.command, inputs.engine is Engine.SPARK
    if inputs.plan_file and command is not Command.APPLY:
        raise InputError(f"input `plan-file` goes with `command: apply`, not with `{command}`")
    of_an_audit: Mapping[str, object] = {
        "history": inputs.history,
        "rules": inputs.rules,
        "skip-rules": inputs.skip_rules,
        "stale-after": inputs.stale_after,
    }
    for name, value in of_an_audit.items():
        if value and command is not Command.AUDIT:
            raise InputError(f"input `{name}` goes with `command: audit`, not with `{command}`")
    if inputs.fail_on_unmanaged and command is not Command.DRIFT:
        raise InputError(f"input `fail-on-unmanaged` goes with `command: drift`, not with `{command}`")
    of_a_plan: Mapping[str, object] = {
        "select": inputs.select,
        "adopt": inputs.adopt,
        "take-over": inputs.take_over,
        "engine": on_spark,
    }
    for name, value in of_a_plan.items():
        if value and command is Command.AUDIT:
            raise InputError(f"input `{name}` does not go with `command: audit`, which plans nothing")
        if value and inputs.plan_file:
            raise InputError(f"a saved plan is carried out as it is: give `plan-file` or `{name}`, not both")
    if (inputs.master or inputs.spark_conf) and not (on_spark or command is Command.AUDIT):
        raise InputError("inputs `master` and `spark-conf` go with `engine: spark`, or with `command: audit`")


class _Given:
    """The environment, asked by the inputs' names."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def text(self, name: str) -> str:
        return self._environment.get(f"INPUT_{name.upper().replace('-', '_')}", "").strip()

    def lines(self, name: str) -> tuple[str, ...]:
        return tuple(line.strip() for line in self.text(name).splitlines() if line.strip())

    def words(self, name: str) -> tuple[str, ...]:
        """Return what stands one a line, or is separated by commas or spaces."""
        return tuple(self.text(name).replace(",", " ").split())

    def names(self, name: str) -> frozenset[str]:
        """Return the names of environment variables, one a line or separated by commas or spaces."""
        found = frozenset(self.words(name))
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

    def number(self, name: str, most: int) -> int | None:
        text = self.text(name)
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS and 1 <= int(text) <= most):
            raise InputError(f"input `{name}`: expected a number from 1 to {most}")
        return int(text)
