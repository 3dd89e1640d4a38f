"""The state of one run, which the commands share."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING

from reconciler.action.api import GitHub
from reconciler.action.approval import ConfigChanges, marker
from reconciler.action.comments import put_comment
from reconciler.action.context import PullRequest, StepContext
from reconciler.action.events import Trust
from reconciler.action.inputs import Command, CommentWhen, InputError, Inputs, PlanKey
from reconciler.action.outcome import FailureReason, RefusedError
from reconciler.action.workflow import annotate, annotate_plan, mask, verbatim
from reconciler.model import display
from reconciler.model.errors import LancensError, ManifestError
from reconciler.model.redaction import is_sensitive_key, scrub
from reconciler.planner.entries import Key
from reconciler.planner.plan import Plan

if TYPE_CHECKING:
    from reconciler.manifest import Manifest, Policy
    from reconciler.pipeline.session import SparkOptions


_DIGITS_IN_NAME = 8
# Shorter values would match by chance and stop plans that do not hold them.
_SHORTEST_SECRET = 8
# The current and previous folder: a relative `root` of a manifest resolves to it.
_FOLDERS = frozenset({"PWD", "OLDPWD"})
# Paths of secrets are not secret: AWS_WEB_IDENTITY_TOKEN_FILE, CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE, TOKEN_PATH.
_PATHS = re.compile(r".*_(?:FILE|FILES|PATH|DIR|SOCK)(?:_OVERRIDE)?|GOOGLE_APPLICATION_CREDENTIALS", re.IGNORECASE)


class Secrets:
    """The values of environment variables named like secrets (``DB_PASSWORD``).

    No output of the Action may hold one: the runner masks secrets in logs, but not in comments, summaries and
    artifacts.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._names = {
            value: name
            for name, value in environment.items()
            if is_sensitive_key(name)
            and name not in _FOLDERS
            and not _PATHS.fullmatch(name)
            and len(value) >= _SHORTEST_SECRET
        }

    def scrub(self, text: str) -> str:
        """Return ``text`` with every secret replaced."""
        return scrub(text, self._names)

    def check(self, title: str, document: str) -> None:
        """Refuse a JSON ``document``, called ``title``, that holds a secret.

        Raises:
            RefusedError: naming the variable, without its value.
        """
        for value, name in self._names.items():
            if any(json.dumps(value, ensure_ascii=escaped)[1:-1] in document for escaped in (False, True)):
                raise RefusedError(
                    FailureReason.REFUSED,
                    f"{title} would show the value of the environment variable {name}. Secrets belong in a "
                    "catalog's `config` or in a property whose key says so, such as `password`. Nothing was shown or "
                    "changed.",
                )


class Job:
    """One run: its inputs and context, and what is computed from them once."""

    def __init__(self, inputs: Inputs, context: StepContext, environment: Mapping[str, str]) -> None:
        self.inputs = inputs
        self.context = context
        self.key = PlanKey.of(inputs, context.workspace)
        self.secrets = Secrets(environment)
        started = environment.get("LANCENS_STARTED", "")  # written by the step that installs lancens, if it ran
        self._begun = float(started) if re.fullmatch(r"[0-9]+\.[0-9]+", started) else None
        self.first = ConfigChanges()
        """The changes of `config`, shown first even when planning fails."""
        self.planned: Plan | None = None
        """The current plan, once it was made."""
        self.removed: Mapping[Key, str] = {}
        """Notes on the data of the tables that the plan deregisters."""

    @property
    def folder(self) -> Path:
        """The folder of the artifact's files."""
        name = f"{self.inputs.command}-{self.inputs.label}-{self.key.digest[:_DIGITS_IN_NAME]}"
        return self.context.temporary / "lancens" / name

    @cached_property
    def github(self) -> GitHub:
        """The repository's API."""
        context = self.context
        return GitHub(context.api_url, context.graphql_url, context.repository, self.inputs.token)

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest; loading it masks the secrets of its configuration in the log.

        Raises:
            ManifestError: it cannot be used.
            InputError: a link in the checkout leads out of it.
        """
        from reconciler.operations.manifests import load

        for path in self.inputs.manifest:
            self._keep_inside(path, "manifest")
        manifest = load(*self.inputs.manifest, variables=self.variables, policy=self._policy())
        for warning in manifest.warnings:
            annotate("warning", str(warning), title="lancens: unused variable")
        for catalog in manifest.catalogs.values() if self._resolves else ():
            try:
                hidden = catalog.resolve_config().secrets
            except ManifestError:
                continue  # planning reports it, and validating needs no configuration
            for secret in sorted(hidden):
                mask(secret)
        return manifest

    @property
    def _resolves(self) -> bool:
        """Whether placeholders of the manifest may be resolved."""
        return self.context.trust is Trust.FULL and self.inputs.command is not Command.VALIDATE

    def _policy(self) -> Policy:
        from reconciler.manifest import CHECKING, UNTRUSTED, Policy

        if self.context.trust is not Trust.FULL:
            return UNTRUSTED
        inputs = self.inputs
        schemes = Policy().schemes if self._resolves else CHECKING.schemes
        outside = inputs.allow_outside
        return Policy(schemes, inputs.environment, outside, inputs.allow_hosts or None, places_outside=outside)

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The values of the manifest's ``${var:…}``.

        Raises:
            LancensError: a file of variables cannot be used, or is a link that leads out of the checkout.
        """
        from reconciler.manifest import read_variables

        values: dict[str, str] = {}
        for path in self.inputs.var_file:
            self._keep_inside(path, "var-file")
            try:
                values |= read_variables(path)
            except ManifestError:
                raise
            except LancensError as error:
                raise InputError(f"input `var-file`: {error}") from None
        return {**values, **self.inputs.variables}

    def _keep_inside(self, path: str, name: str) -> None:
        """Reject a link out of the checkout: the commit's author chose its target."""
        top = os.path.realpath(self.context.workspace)
        folder, last = os.path.split(os.path.abspath(path))  # noqa: PTH100 - a Path would not take `..` out
        inside = Path(os.path.realpath(folder), last).is_relative_to(top)
        if inside and not self.inputs.allow_outside and not Path(os.path.realpath(path)).is_relative_to(top):
            raise InputError(f"input `{name}`: {display.printable(path)} leads out of the checkout")

    def plan(self) -> Plan:
        """Return the current plan, after printing it and annotating the manifest.

        Raises:
            LancensError: planning failed, or the plan would show a secret of the job.
        """
        from reconciler.operations.plan import describe_removed
        from reconciler.output import render
        from reconciler.output.wording import closing_line, read_line

        inputs, started = self.inputs, monotonic()
        manifest = self.manifest  # loaded before `verbatim`, in which the runner ignores masks
        with self._engine() as plan:
            planned = plan(
                manifest,
                select=inputs.select,
                adopt=inputs.adopt,
                take_over=inputs.take_over,
                recreate_lost=inputs.recreate_lost,
                allow_mass_removal=True,
                parallelism=inputs.parallelism,
            )
        self.secrets.check("the plan", planned.to_json())
        if not inputs.no_probe:
            self.removed = describe_removed(planned, self.manifest, parallelism=inputs.parallelism)
        with verbatim(closing_line(planned)):
            print(f"{read_line(planned)}  {monotonic() - started:.1f} s")
            if self._begun is not None:
                print(f"Seconds to the plan, with installing: {time() - self._begun:.1f}")
            print(render(planned, "text", removed=self.removed))
        annotate_plan(planned, self.manifest.folder, self.context.workspace)
        self.planned = planned
        return planned

    @contextmanager
    def _engine(self) -> Iterator[Callable[..., Plan]]:
        """Yield the function that plans, on the engine that the inputs name."""
        if self.inputs.engine == "local":
            from reconciler.operations.plan import plan

            yield plan
            return
        from reconciler.pipeline.engine import plan_on_spark
        from reconciler.pipeline.session import spark_session

        with verbatim("Read on Spark"), spark_session(self.spark_options) as spark:
            yield partial(plan_on_spark, spark)

    @property
    def spark_options(self) -> SparkOptions:
        """Where Spark runs, if the inputs name it as the engine."""
        from reconciler.pipeline.session import SparkOptions

        return SparkOptions(self.inputs.master or None, self.inputs.spark_conf)

    @cached_property
    def merged_pull_requests(self) -> Sequence[PullRequest]:
        """The pull requests whose merge made the commit of this run: none or one, unless two have the same head.

        GitHub also counts a pull request as merged if another one brings its head along: one that the other is stacked
        on, or a copy by a fork.
        """
        context = self.context
        if context.pull_request is not None:
            return (context.pull_request,)
        listed = map(PullRequest.of, self.github.pages(f"/commits/{context.sha}/pulls"))
        merged = [
            candidate
            for candidate in listed
            if candidate.merged and candidate.merge_commit == context.sha and candidate.base == context.branch
        ]
        if len(merged) > 1:
            parents = [parent["sha"] for parent in self.github.get(f"/commits/{context.sha}")["parents"]]
            merged = [candidate for candidate in merged if candidate.head in (context.sha, *parents[1:])] or merged
        return [candidate for candidate in merged if not candidate.from_fork] or merged

    @property
    def applied_commit(self) -> str:
        """The commit that this run applies."""
        pull_request = self.context.pull_request
        return (pull_request and pull_request.merge_commit) or self.context.sha

    @property
    def merged_pull_request(self) -> PullRequest | None:
        """The first of the merged pull requests, or None."""
        return next(iter(self.merged_pull_requests), None)

    def comment(self, kind: str, text: str, *, number: int | None, worth: bool) -> str:
        """Create or update the comment of ``kind`` and return its address.

        With ``comment: changes-only``, a comment that is not ``worth`` reading is updated but never created.
        """
        when = self.inputs.comment
        if number is None or when is CommentWhen.NEVER:
            return ""
        create = worth or when is CommentWhen.ALWAYS
        return put_comment(self.github, number, self.marker(kind), text, create=create)

    def marker(self, kind: str) -> str:
        """Return the first line of the comments of ``kind`` that this step writes."""
        return marker(kind, self.key.digest, self.context.planner)
