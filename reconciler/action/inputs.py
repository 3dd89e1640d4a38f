"""Read the inputs of the Action, and make the key that identifies a plan."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from reconciler.model import display
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.errors import LancensError

DEFAULT_LABEL = "default"

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Variables of the runner and of this step: inputs, tokens of the job, addresses that issue tokens.
_RUNNER_VARIABLE = re.compile(
    r"(?:INPUT|ACTIONS|GITHUB|RUNNER|LANCENS_ACTION)_|LANCENS_(?:MATRIX|PATH|PYTHON|STARTED)$", re.IGNORECASE
)
_MOST_DIGITS = 10
_KEY_DIGITS = 16


class InputError(LancensError):
    """An input of the Action cannot be used."""


class Command(StrEnum):
    """The command of a step."""

    PLAN = "plan"
    APPLY = "apply"
    DRIFT = "drift"
    AUDIT = "audit"
    VALIDATE = "validate"


class CommentWhen(StrEnum):
    """When a pull request gets a comment; for `drift`, whether it keeps an issue."""

    CHANGES_ONLY = "changes-only"
    ALWAYS = "always"
    NEVER = "never"


def _parse_lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _parse_words(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _parse_variable_names(text: str) -> frozenset[str]:
    names = frozenset(_parse_words(text))
    for name in sorted(names):
        if not _VARIABLE.fullmatch(name):
            raise ValueError("expected names of environment variables, without values")
        if _RUNNER_VARIABLE.match(name):
            raise ValueError(f"{name} belongs to the runner, and a manifest cannot read it")
    return names


def _parse_pairs(text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for number, line in enumerate(_parse_lines(text), start=1):
        key, separator, value = line.partition("=")
        if not separator or not key:
            raise ValueError(f"expected NAME=VALUE in line {number}")
        pairs[key] = value
    return pairs


def _parse_switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _check_label(text: str) -> str:
    if not _LABEL.fullmatch(text):
        raise ValueError("expected up to 64 letters, digits, `.`, `_` and `-`")
    return text


def _check_digest(text: str) -> str:
    if not _DIGEST.fullmatch(text.lower()):
        raise ValueError("expected the 64 hexadecimal digits of the output `plan-sha256`")
    return text.lower()


def _parse_number(most: int) -> BeforeValidator:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS and 1 <= int(text) <= most):
            raise ValueError(f"expected a number from 1 to {most}")
        return int(text)

    return BeforeValidator(parse)


Lines = Annotated[tuple[str, ...], BeforeValidator(_parse_lines)]
"""Texts on a line each."""
Words = Annotated[tuple[str, ...], BeforeValidator(_parse_words)]
"""Texts on a line each, or separated by commas or spaces."""
Pairs = Annotated[Mapping[str, str], BeforeValidator(_parse_pairs)]
Switch = Annotated[bool, BeforeValidator(_parse_switch)]


class Inputs(BaseModel):
    """The inputs, by their names in ``action.yml`` with `_` for `-`.

    ``environment`` names the variables that a manifest may read, ``allow_hosts`` the hosts it may name (empty: any).
    """

    model_config = ConfigDict(frozen=True)

    command: Command = Command.PLAN
    manifest: Lines = ("lancens.yaml",)
    select: Lines = ()
    exclude: Lines = ()
    variables: Pairs = Field({}, repr=False)
    var_file: Lines = ()
    environment: Annotated[frozenset[str], BeforeValidator(_parse_variable_names)] = frozenset()
    allow_hosts: Lines = ()
    allow_outside: Switch = False
    plan_file: str = ""
    expect_digest: Annotated[str, BeforeValidator(_check_digest)] = ""
    require_approved_plan: Switch = True
    adopt: Switch = False
    take_over: Switch = False
    recreate_lost: Lines = ()
    allow_mass_removal: Switch = False
    skip_blocked: Switch = False
    no_probe: Switch = False
    comment: CommentWhen = CommentWhen.CHANGES_ONLY
    label: Annotated[str, BeforeValidator(_check_label)] = DEFAULT_LABEL
    parallelism: Annotated[int, _parse_number(256)] = DEFAULT_PARALLELISM
    engine: Literal["local", "spark"] = "local"
    master: str = ""
    spark_conf: Pairs = Field({}, repr=False)
    fail_on_drift: Switch = False
    fail_on_unmanaged: Switch = False
    fail_on: Literal["error", "warning", "note", "never"] = "never"
    rules: Words = ()
    skip_rules: Words = ()
    stale_after: Annotated[int, _parse_number(36_500)] = 180
    history: str = ""
    since_last: Switch = False
    token: str = Field("", repr=False)


_COMMAND_OF_INPUT: Mapping[str, Command] = {
    "plan_file": Command.APPLY,
    "expect_digest": Command.APPLY,
    "history": Command.AUDIT,
    "since_last": Command.AUDIT,
    "rules": Command.AUDIT,
    "skip_rules": Command.AUDIT,
    "stale_after": Command.AUDIT,
    "fail_on_unmanaged": Command.DRIFT,
}
_PLAN_OPTIONS = ("select", "exclude", "adopt", "take_over", "recreate_lost")


def read_inputs(environment: Mapping[str, str]) -> Inputs:
    """Return the inputs in ``environment``; an empty or missing one has its default.

    Raises:
        InputError: an input cannot be used. The message never repeats a value, which may be a secret.
    """
    texts = {name: environment.get(f"INPUT_{name.upper()}", "").strip() for name in Inputs.model_fields}
    try:
        inputs = Inputs.model_validate({name: text for name, text in texts.items() if text})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        context = first.get("ctx", {})
        problem = context.get("error") or f"expected {context.get('expected')}"
        raise InputError(f"input `{_input_name(str(first['loc'][0]))}`: {problem}") from None
    _check_combinations(inputs)
    return inputs


def _input_name(field: str) -> str:
    return field.replace("_", "-")


def _check_combinations(inputs: Inputs) -> None:
    """Reject inputs that the command would ignore.

    Raises:
        InputError: naming the first such input.
    """
    explicit, command = inputs.model_dump(exclude_defaults=True), inputs.command
    for name, required in _COMMAND_OF_INPUT.items():
        if name in explicit and command is not required:
            raise InputError(f"input `{_input_name(name)}` goes with `command: {required}`, not with `{command}`")
    for name in _PLAN_OPTIONS:
        if name in explicit and name != "exclude" and command is Command.AUDIT:
            raise InputError(f"input `{_input_name(name)}` does not go with `command: audit`, which plans nothing")
    for name in (*_PLAN_OPTIONS, "engine"):
        if name in explicit and inputs.plan_file:
            raise InputError(f"a saved plan is applied unchanged: give `plan-file` or `{_input_name(name)}`, not both")
    if inputs.expect_digest and not inputs.plan_file:
        raise InputError("input `expect-digest` goes with `plan-file`")
    if inputs.engine != "spark" and {"master", "spark_conf"} & explicit.keys():
        raise InputError("inputs `master` and `spark-conf` go with `engine: spark`")


@dataclass(frozen=True)
class PlanKey:
    """The identity of a plan in its repository: manifests, variables and label.

    A plan finds its comment, issue and artifact by its key, and apply finds the approval. So the step that plans and
    the step that applies need the same manifests, variables and label. Paths are relative to the checkout. Keys are
    public, so they hold no values of variables.
    """

    manifests: tuple[str, ...]
    variables: tuple[str, ...]
    files: tuple[str, ...]
    label: str

    @classmethod
    def of(cls, inputs: Inputs, workspace: Path) -> PlanKey:
        """Return the key of ``inputs``, with real paths relative to ``workspace``."""
        top = os.path.realpath(workspace)

        def normalise(path: str) -> str:
            return Path(os.path.relpath(os.path.realpath(path), top)).as_posix()

        manifests = tuple(sorted(set(map(normalise, inputs.manifest))))
        # The last of two files wins, so their order is part of the key.
        files = tuple(map(normalise, inputs.var_file))
        return cls(manifests, tuple(sorted(inputs.variables)), files, inputs.label)

    def __str__(self) -> str:
        variables = f" with the variables {', '.join(self.variables)}" if self.variables else ""
        files = f" with {', '.join(self.files)}" if self.files else ""
        return display.printable(f"{', '.join(self.manifests)}{variables}{files}, label `{self.label}`,")

    @cached_property
    def digest(self) -> str:
        """A digest of the key, for places where paths and names are not allowed."""
        return digest_of([self.manifests, self.variables, self.files, self.label])


def digest_of(parts: object) -> str:
    """Return a short digest of ``parts``, which can be anything that JSON can hold."""
    return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_DIGITS]
