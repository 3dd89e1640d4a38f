"""One run of the Action: what the commands share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING

from reconciler.action.annotations import annotate_plan
from reconciler.action.api import GitHub
from reconciler.action.approval import ConfigChanges, marker
from reconciler.action.comments import put_comment
from reconciler.action.context import PullRequest, StepContext
from reconciler.action.events import Trust
from reconciler.action.inputs import Command, CommentWhen, Engine, InputError, Inputs
from reconciler.action.keys import PlanKey
from reconciler.action.leaks import Secrets
from reconciler.action.workflow import mask, verbatim
from reconciler.model import display
from reconciler.model.errors import LancensError, ManifestError
from reconciler.planner.entries import Key
from reconciler.planner.plan import Plan

if TYPE_CHECKING:
    from reconciler.manifest import Manifest, Policy


_DIGITS_IN_NAME = 8


def _seconds(text: str) -> float | None:
    """Return a time as the step that installs writes it; None where there was no such step."""
    return float(text) if re.fullmatch(r"[0-9]+\.[0-9]+", text) else None


class Job:
    """The inputs, the place it runs at, and what is made of them once."""

    def __init__(self, inputs: Inputs, context: StepContext, environment: Mapping[str, str]) -> None:
        self.inputs = inputs
        self.context = context
        self.key = PlanKey.of(inputs, context.workspace)
        self.secrets = Secrets(environment)
        self._begun = _seconds(environment.get("LANCENS_STARTED", ""))
        self.first = ConfigChanges()
        """What is shown before anything else, as Markdown, whatever becomes of the plan."""
        self.planned: Plan | None = None
        """The plan of now, once it was made."""
        self.removed: Mapping[Key, str] = {}
        """What is to be said of the data of the tables that it deregisters."""

    @property
    def folder(self) -> Path:
        """Where the files of the artifact go."""
        name = f"{self.inputs.command}-{self.inputs.label}-{self.key.digest[:_DIGITS_IN_NAME]}"
        return self.context.temporary / "lancens" / name

    @cached_property
    def github(self) -> GitHub:
        """The repository's API."""
        context = self.context
        return GitHub(
            api_url=context.api_url,
            graphql_url=context.graphql_url,
            repository=context.repository,
            token=self.inputs.token,
        )

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest; the secrets of its configuration are masked in the log from here on.

        Raises:
            ManifestError: it cannot be used.
            InputError: a link in the checkout leads out of it.
        """
        from reconciler.operations.manifests import load

        for path in self.inputs.manifests:
            self._keep_inside(path, "manifest")
        manifest = load(*self.inputs.manifests, variables=self.variables, policy=self._policy())
        for catalog in manifest.catalogs.values() if self._resolves else ():
            try:
                hidden = catalog.resolve_config().secrets
            except ManifestError:
                continue  # planning reports it, and validating does without
            for secret in sorted(hidden):
                mask(secret)
        return manifest

    @property
    def _resolves(self) -> bool:
        """Whether the manifest's values may be looked up at all."""
        return self.context.trust is Trust.FULL and self.inputs.command is not Command.VALIDATE

    def _policy(self) -> Policy:
        from reconciler.manifest import CHECKING, UNTRUSTED, Policy

        if self.context.trust is not Trust.FULL:
            return UNTRUSTED
        inputs = self.inputs
        schemes = Policy().schemes if self._resolves else CHECKING.schemes
        return Policy(schemes, inputs.environment, inputs.allow_outside, inputs.allow_hosts or None)

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """Return what the manifest's ``${var:…}`` stand for.

        Raises:
            LancensError: a file of variables cannot be used; a link in the checkout that leads out of it is none.
        """
        from reconciler.manifest import read_variables

        found: dict[str, str] = {}
        for path in self.inputs.var_files:
            self._keep_inside(path, "var-file")
            try:
                found |= read_variables(path)
            except ManifestError:
                raise
            except LancensError as error:
                raise InputError(f"input `var-file`: {error}") from None
        return {**found, **self.inputs.variables}

    def _keep_inside(self, path: str, name: str) -> None:
        """Refuse a link in the checkout that leads out of it: whoever wrote the commit chose what it leads to."""
        top = os.path.realpath(self.context.workspace)
        folder, last = os.path.split(os.path.abspath(path))  # noqa: PTH100 - a Path would not take `..` out
        inside = Path(os.path.realpath(folder), last).is_relative_to(top)
        if inside and not self.inputs.allow_outside and not Path(os.path.realpath(path)).is_relative_to(top):
            raise InputError(f"input `{name}`: {display.printable(path)} leads out of the checkout")

    def plan(self) -> Plan:
        """Return the plan of now, whatever it removes, after showing it in the log and beside the manifest's lines.

        Raises:
            LancensError: there is no plan, or it would show a secret of the job.
        """
        from reconciler.operations.plan import look_at_removed
        from reconciler.output import render
        from reconciler.output.wording import closing_line, read_line

        inputs, started = self.inputs, monotonic()
        with self._engine() as plan:
            made = plan(
                self.manifest,
                select=inputs.select,
                adopt=inputs.adopt,
                take_over=inputs.take_over,
                allow_mass_removal=True,
                parallelism=inputs.parallelism,
            )
        self.secrets.check(made)
        if not inputs.no_probe:
            self.removed = look_at_removed(made, self.manifest, parallelism=inputs.parallelism)
        with verbatim(closing_line(made)):
            print(f"{read_line(made)}  {monotonic() - started:.1f} s")
            if self._begun is not None:
                print(f"Seconds to the plan, with installing: {time() - self._begun:.1f}")
            print(render(made, "text", removed=self.removed))
        annotate_plan(made, self.manifest.folder, self.context.workspace)
        self.planned = made
        return made

    @contextmanager
    def _engine(self) -> Iterator[Callable[..., Plan]]:
        """Give what makes a plan of a manifest."""
        inputs = self.inputs
        if inputs.engine is Engine.LOCAL:
            from reconciler.operations.plan import plan

            yield plan
            return
        from reconciler.spark.engine import plan_on_spark
        from reconciler.spark.session import SparkOptions, spark_session

        options = SparkOptions(inputs.master or None, inputs.spark_conf)
        with verbatim("Read on Spark"), spark_session(options) as spark:
            yield partial(plan_on_spark, spark)

    @cached_property
    def merged_pull_request(self) -> PullRequest | None:
        """The pull request whose merge made the commit this run is about, None where there is none."""
        context = self.context
        if context.pull_request is not None:
            return context.pull_request
        for document in self.github.pages(f"/commits/{context.sha}/pulls"):
            found = PullRequest.of(document)
            if found.merged and found.merge_commit == context.sha and found.base == context.branch:
                return found
        return None

    def comment(self, kind: str, text: str, *, number: int | None, worth: bool) -> str:
        """Keep the comment of ``kind`` on pull request ``number`` up to date and return its address.

        With ``comment: changes-only`` one that is not ``worth`` reading is not made, though one that is there is still
        brought up to date.
        """
        wanted = self.inputs.comment
        if number is None or wanted is CommentWhen.NEVER:
            return ""
        create = worth or wanted is CommentWhen.ALWAYS
        return put_comment(
            self.github, number, marker(kind, self.key.digest, self.context.planner), text, create=create
        )
