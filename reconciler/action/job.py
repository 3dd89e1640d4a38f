"""The running step: its inputs and context, manifest and plan."""

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
# "PWD" looks like a password, but a plan may show the current folder: a relative `root` resolves to it.
_FOLDER_VARIABLES = frozenset({"PWD", "OLDPWD"})
# Paths of secrets are not secret: AWS_WEB_IDENTITY_TOKEN_FILE, CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE, TOKEN_PATH.
_PATH_VARIABLE = re.compile(
    r".*_(?:FILE|FILES|PATH|DIR|SOCK)(?:_OVERRIDE)?|GOOGLE_APPLICATION_CREDENTIALS", re.IGNORECASE
)


class Secrets:
    """The values of environment variables named like secrets: ``DB_PASSWORD``.

    No output of the Action may contain one: the runner masks secrets in logs, but not in comments, summaries and
    artifacts.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._names_by_value = {
            value: name
            for name, value in environment.items()
            if is_sensitive_key(name)
            and name not in _FOLDER_VARIABLES
            and not _PATH_VARIABLE.fullmatch(name)
            and len(value) >= _SHORTEST_SECRET
        }

    def scrub(self, text: str) -> str:
        """Return ``text`` with every secret replaced."""
        return scrub(text, self._names_by_value)

    def check(self, title: str, document: str) -> None:
        """Check that a JSON ``document`` contains no secret; the error calls it ``title``.

        Raises:
            RefusedError: it does; the error names the variable, without its value.
        """
        for value, name in self._names_by_value.items():
            if any(json.dumps(value, ensure_ascii=escaped)[1:-1] in document for escaped in (False, True)):
                raise RefusedError(
                    FailureReason.REFUSED,
                    f"{title} would show the value of the environment variable {name}. Secrets belong in a "
                    "catalog's `config` or in a property whose key says so, such as `password`. Nothing was shown or "
                    "changed.",
                )


class Job:
    """The running step: its inputs and context, and what the commands share."""

    def __init__(self, inputs: Inputs, context: StepContext, environment: Mapping[str, str]) -> None:
        self.inputs = inputs
        self.context = context
        self.key = PlanKey.of(inputs, context.workspace)
        self.secrets = Secrets(environment)
        started = environment.get("LANCENS_STARTED", "")  # written by the step that installs lancens, if it ran
        self._install_started = float(started) if re.fullmatch(r"[0-9]+\.[0-9]+", started) else None
        self.config_changes = ConfigChanges()
        """The changes of `config`, shown before the plan, and also if planning fails."""
        self.earlier_manifest: Manifest | None = None
        """The manifest of the base of the pull request, if it is valid."""
        self.current_plan: Plan | None = None
        """The plan that :meth:`plan` made, if it was called."""
        self.removal_notes: Mapping[Key, str] = {}
        """Notes on the data of the tables that the current plan deregisters."""

    @property
    def folder(self) -> Path:
        """The folder of the artifact's files."""
        name = f"{self.inputs.command}-{self.inputs.label}-{self.key.digest[:_DIGITS_IN_NAME]}"
        return self.context.temporary / "lancens" / name

    @cached_property
    def github(self) -> GitHub:
        """GitHub's API for the repository."""
        context = self.context
        return GitHub(context.api_url, context.graphql_url, context.repository, self.inputs.token)

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest; loading it masks the secrets of its configuration in the log.

        Raises:
            ManifestError: it cannot be used.
            InputError: a link in the checkout leads out of it.
        """
        from reconciler.auditor.suppressed_rules import check_suppressed_rules
        from reconciler.operations.manifests import load

        for path in self.inputs.manifest:
            self._check_inside_checkout(path, "manifest")
        manifest = load(*self.inputs.manifest, variables=self.variables, policy=self.manifest_policy())
        check_suppressed_rules(manifest)
        for warning in manifest.warnings:
            annotate("warning", str(warning), title="lancens: manifest")
        for catalog in manifest.catalogs.values() if self._resolves_placeholders else ():
            try:
                secrets = catalog.resolve_config().secrets
            except ManifestError:
                continue  # planning reports it, and validating needs no configuration
            for secret in sorted(secrets):
                mask(secret)
        return manifest

    @property
    def _resolves_placeholders(self) -> bool:
        """Whether placeholders of the manifest may be resolved."""
        return self.context.trust is Trust.FULL and self.inputs.command is not Command.VALIDATE

    def manifest_policy(self) -> Policy:
        """Return what the manifest may read and name in this event."""
        from reconciler.manifest import UNTRUSTED, VARIABLES_ONLY, Policy

        if self.context.trust is not Trust.FULL:
            return UNTRUSTED
        inputs = self.inputs
        schemes = Policy().schemes if self._resolves_placeholders else VARIABLES_ONLY.schemes
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
            self._check_inside_checkout(path, "var-file")
            try:
                values |= read_variables(path)
            except ManifestError:
                raise
            except LancensError as error:
                raise InputError(f"input `var-file`: {error}") from None
        return {**values, **self.inputs.variables}

    def _check_inside_checkout(self, path: str, input_name: str) -> None:
        """Check that ``path`` is no link out of the checkout.

        The author of the commit could have chosen its target. A path that is itself outside, as the workflow names it,
        is accepted.

        Raises:
            InputError: it is such a link, and the input `allow-outside` is not set.
        """
        top = os.path.realpath(self.context.workspace)
        folder, name = os.path.split(os.path.abspath(path))  # noqa: PTH100 - a Path would not take `..` out
        inside = Path(os.path.realpath(folder), name).is_relative_to(top)
        if inside and not self.inputs.allow_outside and not Path(os.path.realpath(path)).is_relative_to(top):
            raise InputError(f"input `{input_name}`: {display.printable(path)} leads out of the checkout")

    def plan(self) -> Plan:
        """Make the current plan, print it, annotate the manifest with it, and return it.

        Raises:
            LancensError: planning failed, or the plan would show a secret of the job.
        """
        from reconciler.operations.plan import describe_removed, shared_options
        from reconciler.output import render
        from reconciler.output.wording import closing_line, read_line

        inputs, started = self.inputs, monotonic()
        manifest = self.manifest  # loaded before `verbatim`, in which the runner ignores masks
        earlier = {"against": self.earlier_manifest} if inputs.engine == "local" else {}
        with self._planning_function() as make_plan:
            plan = make_plan(manifest, **shared_options(inputs), **earlier)
        self.secrets.check("the plan", plan.to_json())
        if not inputs.no_probe:
            self.removal_notes = describe_removed(plan, self.manifest, parallelism=inputs.parallelism)
        with verbatim(closing_line(plan)):
            print(f"{read_line(plan)}  {monotonic() - started:.1f} s")
            if self._install_started is not None:
                print(f"Seconds to the plan, with installing: {time() - self._install_started:.1f}")
            print(render(plan, "text", removed=self.removal_notes))
        annotate_plan(plan, self.manifest.folder, self.context.workspace)
        self.current_plan = plan
        return plan

    @contextmanager
    def _planning_function(self) -> Iterator[Callable[..., Plan]]:
        """Yield the function that makes plans on the engine that the inputs name."""
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
        """The options of Spark, if the inputs name it as the engine."""
        from reconciler.pipeline.session import SparkOptions

        return SparkOptions(self.inputs.master or None, self.inputs.spark_conf)

    @cached_property
    def merged_pull_requests(self) -> Sequence[PullRequest]:
        """The pull requests whose merge made the commit of this run.

        At most one did, unless two have the same head. GitHub also counts a pull request as merged if another one
        contains its head, for instance one that is stacked on it, or a copy from a fork; these are left out.
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
        """The first of :attr:`merged_pull_requests`, or None."""
        return next(iter(self.merged_pull_requests), None)

    def comment(self, kind: str, text: str, *, number: int | None, has_news: bool) -> str:
        """Create or update the comment of ``kind``, and return its address.

        Without a pull request, and with the input ``comment: never``, nothing is written and the address is empty. With
        ``comment: changes-only``, a comment without news is updated but not created.
        """
        when = self.inputs.comment
        if number is None or when is CommentWhen.NEVER:
            return ""
        create = has_news or when is CommentWhen.ALWAYS
        return put_comment(self.github, number, self.marker(kind), text, create=create)

    def marker(self, kind: str) -> str:
        """Return the first line of this step's comments of ``kind``: `plan` or `apply`."""
        return marker(kind, self.key.digest, self.context.step_digest)
