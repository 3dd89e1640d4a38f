"""Options and arguments that several commands share, and their completion."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from reconciler.cli.recent import remembered_addresses
from reconciler.cli.results import print_line, print_progress
from reconciler.cli.without_pandas import show_pandas
from reconciler.model import display
from reconciler.model.concurrency import DEFAULT_PARALLELISM, MOST_PARALLELISM
from reconciler.model.errors import ConfigError, LancensError, pip_requirement
from reconciler.model.secret_forms import REDACTED
from reconciler.output import FORMATS
from reconciler.pipeline.progress import is_quiet

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from reconciler.manifest import Manifest, Policy
    from reconciler.pipeline.session import SparkOptions
    from reconciler.planner.plan import Plan

DEFAULT_MANIFEST = "lancens.yaml"
"""The manifest of a command that names none."""

_MOST_COMPLETED = 500
_NAMES_MANIFEST = ("lancens list ", "lancens release ")
"""How commands begin that take globs as arguments, and the manifest as an option."""

Option: TypeAlias = Callable[[Callable[..., None]], Callable[..., None]]
"""A decorator that adds options to a command."""


_EXAMPLES = {"config": ", such as `root=./lake`"}


def parse_pairs(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Return ``key=value`` arguments as a mapping; a click callback.

    Raises:
        BadParameter: an argument has no key or no `=`.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            # The text may hold a secret, so the message leaves it out.
            raise click.BadParameter(
                f"expected `key=value`{_EXAMPLES.get(parameter.name or '', '')}", context, parameter
            )
        pairs[key] = value
    return pairs


def combine_options(name: str, make: Callable[..., object], *options: Option) -> Option:
    """Return a decorator that adds ``options`` and passes ``make(**values)``.

    The command receives it as the argument ``name``. The parameters of ``make`` are the names of the options' values;
    options with other names reach the command as usual.
    """
    parameters = signature(make).parameters

    def add_options(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def call_with_combined(**values: Any) -> None:
            combined = {option: values.pop(option) for option in parameters if option in values}
            command(**{name: make(**combined)}, **values)

        decorated: Callable[..., None] = call_with_combined
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return add_options


# ---- completion ------------------------------------------------------------------------------------------------------


def complete_impl(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the implementations that begin with ``incomplete``."""
    from reconciler.backends import registry

    return [name for name in registry.names() if name.startswith(incomplete)]


def complete_address(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return addresses in the manifest, or of the last plan or list, that begin with ``incomplete``.

    They are cut after the next `/`. No catalog is read.
    """
    from reconciler.operations.manifests import load

    values = context.params
    files = values.get("var_files") or _NO_FILES
    variables = {**files.values, **(values.get("own_variables") or {})}
    paths = [tuple(address.split("/")) for address in remembered_addresses()]
    with suppress(LancensError, OSError):
        manifest = load(*(values.get("manifests") or (DEFAULT_MANIFEST,)), variables=variables)
        for desired in (catalog.desired for catalog in manifest.catalogs.values()):
            paths += [(desired.name, *names) for names in (("**",), *desired.namespaces, *desired.tables)]
    level = incomplete.count("/")
    addresses = {"/".join(path[: level + 1]) + ("/" if len(path) > level + 1 else "") for path in paths}
    addresses = {address for address in addresses if address.startswith(incomplete)}
    return sorted(addresses)[:_MOST_COMPLETED]


def complete_target(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return addresses that begin with ``incomplete``, and have the shell add files."""
    from click.shell_completion import CompletionItem

    addresses = complete_address(context, parameter, incomplete)
    return [CompletionItem(incomplete, type="file"), *map(CompletionItem, addresses)]  # bash drops what precedes files


# ---- the manifest of a command ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _VariableFiles:
    """The files of ``--var-file``, and the variables in them."""

    paths: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)


_NO_FILES = _VariableFiles()


@dataclass(frozen=True, slots=True)
class CatalogSource:
    """The options that name the catalogs: manifests, or ``--impl`` with ``--config``.

    ``own_variables`` are those of ``--var``, ``var_files`` the files of ``--var-file``.
    """

    manifests: tuple[str, ...]
    own_variables: Mapping[str, str]
    var_files: _VariableFiles
    allow_outside: bool
    allow_host: tuple[str, ...]
    allow_env: tuple[str, ...]
    impl: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.impl is None and self.config:
            raise click.UsageError("--config goes with --impl")
        if self.impl is not None and self.manifests:
            raise click.UsageError("pass a manifest or --impl, not both")
        if self.impl is not None and (self.allow_outside or self.allow_host or self.allow_env):
            raise click.UsageError("--allow-host, --allow-env and --allow-outside go with a manifest, not with --impl")

    @property
    def variables(self) -> Mapping[str, str]:
        """The values of ``--var-file`` and ``--var``, which wins."""
        return {**self.var_files.values, **self.own_variables}

    def next_command(self, command: Sequence[str], plan: Plan) -> str:
        """Return the command line that carries ``plan`` out, with the options that it was made with.

        ``command`` are its first words.
        """
        limit = ["--allow-mass-removal"] if plan.options.mass_removal else []
        return shlex.join([*command, *self._words(plan), *limit])

    def complete_command(self, command: str, plan: Plan) -> str:
        """Return a command of a note on ``plan`` with the manifest and variables of this run."""
        saved = any(path.endswith(".json") for path in self.manifests)
        manifests = plan.manifest.files[:1] if saved else self.manifests
        if manifests == (DEFAULT_MANIFEST,) or f" {shlex.join(manifests)} " in f"{command} ":
            manifests = ()
        named = command.startswith(_NAMES_MANIFEST)
        words = [word for path in manifests for word in (["--manifest", path] if named else [path])]
        return " ".join(filter(None, (command, shlex.join([*words, *self._words(plan)]))))

    def _words(self, plan: Plan) -> list[str]:
        """Return the options with which the manifest of ``plan`` was loaded.

        A variable that has its value of ``lancens.vars.yaml`` anyway is left out; the value of a secret one is an
        ellipsis.
        """
        given = plan.manifest.given
        own = [name for name in self.own_variables if name in given or name in self.var_files.values]
        options = {
            "--var-file": self.var_files.paths,
            "--var": [f"{name}={given.get(name, REDACTED).replace(REDACTED, '…')}" for name in own],
            "--allow-host": self.allow_host,
            "--allow-env": self.allow_env,
        }
        words = [word for option, values in options.items() for value in values for word in (option, value)]
        return [*words, "--allow-outside"] if self.allow_outside else words

    def policy(self, *, checking: bool = False) -> Policy:
        """Return what a manifest may read.

        With ``checking``, it reads no environment variable, and no file but its own.
        """
        from reconciler.manifest import OPEN, VARIABLES_ONLY

        return replace(
            VARIABLES_ONLY if checking else OPEN,
            environment=self.allow_env or None,
            outside=self.allow_outside,
            hosts=self.allow_host or None,
            places_outside=self.allow_outside,
        )

    def load(self, *, checking: bool = False, traced: str | None = None) -> Manifest:
        """Return the manifest, or one made from ``--impl``, and print its warnings.

        ``checking`` is as in :meth:`policy`, ``traced`` as in ``reconciler.load``.

        Raises:
            ManifestError, ConfigError: it cannot be used.
            LancensError: no path was given and there is no default manifest.
        """
        from reconciler.operations.manifests import manifest_of_service

        if self.impl is not None:
            return manifest_of_service(self.impl, self.config)
        if not self.manifests and not Path(DEFAULT_MANIFEST).exists():
            candidates = sorted(path.name for path in Path().glob("*.y*ml") if ".vars." not in path.name)
            example = f", such as {candidates[0]}" if candidates else ""
            raise LancensError(
                f"no {DEFAULT_MANIFEST} in this folder; name a manifest{example}, or write one with `lancens init`, or "
                "that of a live catalog with `lancens import --impl dir --config root=PATH`"
            )
        saved = next((path for path in self.manifests if path.endswith(".json")), None)
        if saved is not None:
            raise LancensError(
                f"{saved} is not a manifest, whose name ends in .yaml or .yml; `lancens show {saved}` and "
                f"`lancens apply {saved}` take saved plans"
            )
        return self.load_files(*(self.manifests or (DEFAULT_MANIFEST,)), checking=checking, traced=traced)

    def load_files(self, *paths: str | Path, checking: bool = False, traced: str | None = None) -> Manifest:
        """Return the manifest in ``paths``, and print its warnings to stderr.

        Raises:
            ManifestError: it cannot be used.
        """
        from reconciler.auditor.suppressed_rules import check_suppressed_rules
        from reconciler.operations.manifests import load

        manifest = load(*paths, variables=self.variables, policy=self.policy(checking=checking), traced=traced)
        check_suppressed_rules(manifest)
        for warning in () if is_quiet() else manifest.warnings:
            print_line(f"Warning: {warning}", err=True)
        return manifest

    def load_at(self, revision: str) -> Manifest | None:
        """Return the manifest as it was at a git revision; print why not if there was no valid one.

        Raises:
            LancensError: git has no such revision.
        """
        from reconciler.operations.revisions import manifest_at

        paths = self.manifests or (DEFAULT_MANIFEST,)
        manifest = manifest_at(revision, paths, variables=self.variables, policy=self.policy())
        if isinstance(manifest, str):
            told = f"{display.printable(revision)} has no valid manifest here, so nothing was pending before"
            print_progress(f"{told}: {display.message(manifest)}")
            return None
        return manifest

    def load_existing(self, select: Sequence[str] = ()) -> Manifest:
        """Return the manifest, and report missing roots of selected catalogs.

        A mistyped root would look like an empty catalog.

        Raises:
            ConfigError: the root of ``--config`` is missing.
        """
        from reconciler.operations.connections import missing_roots
        from reconciler.operations.plan import selected_catalogs

        manifest = self.load()
        for missing in missing_roots(manifest, selected_catalogs(manifest, select)[1]):
            if self.impl is not None:
                raise ConfigError(
                    f"{missing} Nothing was read. Check the path; `lancens apply` of a manifest creates a new root."
                )
            print_line(missing, err=True)
        return manifest


def _read_variable_files(_: click.Context, __: click.Parameter, paths: tuple[str, ...]) -> _VariableFiles:
    from reconciler.manifest import read_variables

    return _VariableFiles(paths, {name: value for path in paths for name, value in read_variables(path).items()})


_SOURCE_OPTIONS = (
    click.option(
        "--allow-outside",
        is_flag=True,
        help="Allow includes and ${file:…} outside the manifest's folder, and datasets that refer outside the roots.",
    ),
    click.option(
        "--allow-host",
        multiple=True,
        metavar="HOST",
        help="Allow `config` to name only this host, or .example.com for all below one. Can be repeated.",
    ),
    click.option(
        "--allow-env",
        multiple=True,
        metavar="NAME",
        help="Allow ${env:…} to read only this variable; none if empty. Can be repeated.",
    ),
    click.option(
        "--var",
        "own_variables",
        multiple=True,
        callback=parse_pairs,
        metavar="NAME=VALUE",
        help="A value for ${var:NAME}. Can be repeated. Next in order: --var-file, the environment's LANCENS_VAR_NAME, "
        "lancens.vars.yaml beside the manifest.",
    ),
    click.option(
        "--var-file",
        "var_files",
        multiple=True,
        callback=_read_variable_files,
        metavar="FILE",
        help="A YAML file of NAME: VALUE. Can be repeated, the last one wins.",
    ),
)


def source_options(*options: Option) -> Option:
    """Return the options of a :class:`CatalogSource`, received as ``source``.

    ``options`` receive the manifests, or ``--impl`` and ``--config``.
    """
    return combine_options("source", CatalogSource, *options, *_SOURCE_OPTIONS)


_MANIFESTS = click.argument("manifests", nargs=-1, metavar="[MANIFEST]...", type=click.Path())

manifest_options = source_options(_MANIFESTS)


def catalog_options(impl_help: str) -> Option:
    """Return :data:`manifest_options` with ``--impl`` and ``--config``."""
    return source_options(
        _MANIFESTS,
        click.option("--impl", metavar="IMPL", shell_complete=complete_impl, help=impl_help),
        click.option(
            "--config", multiple=True, callback=parse_pairs, metavar="KEY=VALUE", help="With --impl: its configuration."
        ),
    )


# ---- single options --------------------------------------------------------------------------------------------------


def select_option(help_start: str) -> Option:
    """Return the option ``--select``."""
    return click.option(
        "--select",
        multiple=True,
        metavar="GLOB",
        shell_complete=complete_address,
        help=f"{help_start} matches catalog/namespace/table; ** is any number of levels. Can be repeated.",
    )


exclude_option = click.option(
    "--exclude",
    multiple=True,
    metavar="GLOB",
    shell_complete=complete_address,
    help="Leave out what matches catalog/namespace/table, selected or not. Can be repeated.",
)


def out_option(help_start: str, **attributes: Any) -> Option:
    """Return the option ``-o``, received as ``out``; None is stdout."""
    return click.option(
        "-o",
        "--out",
        metavar="FILE",
        callback=lambda _context, _parameter, path: None if path == "-" else path,
        help=f"{help_start} `-` is stdout.",
        **attributes,
    )


def format_option(help_text: str, choices: Sequence[str] = ("text", "json")) -> Option:
    """Return the option ``--format``, received as ``form``."""
    return click.option("--format", "form", type=click.Choice(choices), default="text", help=help_text)


def parallelism_option(help_text: str = "Requests at once.") -> Option:
    """Return the option ``--parallelism``."""
    allowed = click.IntRange(1, MOST_PARALLELISM)
    return click.option("--parallelism", type=allowed, default=DEFAULT_PARALLELISM, help=help_text)


@dataclass(frozen=True, slots=True)
class PlanView:
    """How to print a plan: as ``form``, with everything (``full``), or as a ``summary``."""

    form: str = "text"
    full: bool = False
    summary: bool = False

    def __post_init__(self) -> None:
        if self.summary and (self.full or self.form in ("json", "junit")):
            raise click.UsageError("--summary goes with the formats text, markdown and html, and not with --full")


_DETAIL = (
    click.option("--full", is_flag=True, help="Show every change and whole values, fold nothing."),
    click.option("--summary", is_flag=True, help="Show counts by catalog and a line for each object, no details."),
)

plan_view_options = combine_options("view", PlanView, format_option("How to print the plan.", list(FORMATS)), *_DETAIL)
"""The options of a command whose result is a plan, received as ``view``."""

text_view_options = combine_options("view", lambda full, summary: PlanView("text", full, summary), *_DETAIL)
"""The same for a command that prints a plan as text before it does something."""

journal_option = click.option(
    "--journal",
    metavar="DIR|URI",
    default=".lancens",
    help="The folder of the journals, here or in object storage, such as s3://ops/lancens.",
)


# ---- options of plans and of Spark -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanFlags:
    """The options of every command that plans, received as ``flags``."""

    source: CatalogSource
    select: tuple[str, ...]
    exclude: tuple[str, ...]
    adopt: bool
    take_over: bool
    recreate_lost: tuple[str, ...]
    allow_mass_removal: bool
    no_probe: bool
    parallelism: int


plan_flags = combine_options(
    "flags",
    PlanFlags,
    manifest_options,
    select_option("Plan only what"),
    exclude_option,
    click.option("--adopt", is_flag=True, help="Also mark unowned objects that equal their block as managed."),
    click.option("--take-over", is_flag=True, help="Claim objects that another manifest manages."),
    click.option(
        "--recreate-lost",
        multiple=True,
        metavar="GLOB",
        shell_complete=complete_address,
        help="Make an empty dataset for matching tables whose data is lost. Can be repeated.",
    ),
    click.option(
        "--allow-mass-removal", is_flag=True, help="Allow removing more than the manifest's `safety` thresholds."
    ),
    click.option("--no-probe", is_flag=True, help="Do not open the data of tables to be deregistered."),
    parallelism_option(),
)


def _spark_options(master: str | None, conf: dict[str, str]) -> SparkOptions:
    from reconciler.pipeline.session import SparkOptions

    show_pandas()
    return SparkOptions(master, conf, show_log=bool(click.get_current_context().find_root().params.get("debug")))


def _spark_if_chosen(engine: str, master: str | None, conf: dict[str, str]) -> SparkOptions | None:
    """Return the options of Spark, or None if ``engine`` is `local`.

    Raises:
        UsageError: `local` is combined with options of Spark.
    """
    if engine == "local" and (master or conf):
        raise click.UsageError("--master and --spark-conf are for --engine spark")
    return None if engine == "local" else _spark_options(master, conf)


_PLACE_OF_WORK = "lancens.place-of-work"


def print_place_of_work() -> None:
    """Print where the work is done, if nobody chose; commands call it once their arguments are found to be right."""
    if (text := click.get_current_context().meta.get(_PLACE_OF_WORK)) is not None:
        print_progress(text)


def _choose_spark(sharing: str, engine: str | None, master: str | None, conf: dict[str, str]) -> SparkOptions | None:
    """Return the options of Spark, or None to work in this process.

    Without ``engine``, Spark is used if it is installed. :func:`print_place_of_work` says that then, with ``sharing``.

    Raises:
        UsageError: `local` is combined with options of Spark.
    """
    from reconciler.pipeline.session import is_installed, starts_jvm

    if engine == "local" or master or conf:
        return _spark_if_chosen(engine or "spark", master, conf)
    if engine is None and not is_installed():
        click.get_current_context().meta[_PLACE_OF_WORK] = (
            "PySpark is not installed, so one process does the work. Beyond some 20,000 tables, Spark shares it among "
            f"cores and machines: pip install '{pip_requirement()}[spark]'"
        )
        return None
    options = _spark_options(master, conf)
    if engine is None and starts_jvm(options):
        note = f"{sharing}; --engine local saves the start of Spark, some seconds."
        click.get_current_context().meta[_PLACE_OF_WORK] = note
    return options


_ENGINES = click.Choice(["local", "spark"])
_SPARK = (
    click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[4], spark://HOST:7077, yarn, k8s://…, or sc://HOST:15002 for Spark Connect. "
        "By default, all cores of this machine, or the master of spark-submit.",
    ),
    click.option(
        "--spark-conf",
        "conf",
        multiple=True,
        callback=parse_pairs,
        metavar="KEY=VALUE",
        help="A setting of Spark, such as spark.driver.memory=4g. Can be repeated.",
    ),
)


def engine_options(help_text: str) -> Option:
    """Return the options of a command that uses Spark only on request.

    The command receives ``spark``: the options of Spark, or None to work in this process.
    """
    engine = click.option("--engine", type=_ENGINES, default="local", help=help_text)
    return combine_options("spark", _spark_if_chosen, engine, *_SPARK)


def spark_options(sharing: str) -> Option:
    """Return the options of a command that uses Spark where it is installed.

    The command receives ``spark``, as with :func:`engine_options`. Where nobody chose, ``sharing`` says which work
    Spark does.
    """
    engine = click.option(
        "--engine",
        type=_ENGINES,
        help="Work in this process, or on Spark; by default, on Spark if it is installed. The result is the same.",
    )

    def choose(engine: str | None, master: str | None, conf: dict[str, str]) -> SparkOptions | None:
        return _choose_spark(sharing, engine, master, conf)

    return combine_options("spark", choose, engine, *_SPARK)
