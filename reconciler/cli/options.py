"""Options and arguments that several commands share."""

from __future__ import annotations

import functools
import os
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.completing import DEFAULT_MANIFEST, complete_address, complete_impl
from reconciler.model import display
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.errors import LancensError, PlanFileError
from reconciler.output import FORMATS

if TYPE_CHECKING:
    from reconciler.manifest import Manifest, Policy
    from reconciler.planner.plan import Plan


def pairs(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Turn ``key=value`` arguments into a mapping."""
    found: dict[str, str] = {}
    for item in given:
        key, separator, value = item.partition("=")
        if not separator or not key:
            # The text may hold a secret, so it is not repeated.
            raise click.BadParameter("expected `key=value`", context, parameter)
        found[key] = value
    return found


_OUTSIDE, _HOSTS, _NAMES = "lancens.allow-outside", "lancens.allow-hosts", "lancens.allow-env"


def _kept_as(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return a callback that keeps an option's value for :func:`policy`: every command that loads a manifest has it."""

    def keep(context: click.Context, _: click.Parameter, value: Any) -> None:
        context.meta[key] = value

    return keep


_POLICY_OPTIONS = (
    click.option(
        "--allow-outside",
        is_flag=True,
        expose_value=False,
        callback=_kept_as(_OUTSIDE),
        help="Let includes and ${file:…} lead out of the manifest's folder.",
    ),
    click.option(
        "--allow-host",
        multiple=True,
        metavar="HOST",
        expose_value=False,
        callback=_kept_as(_HOSTS),
        help="Only let `config` name this host, or .example.com for all below one. Can be repeated.",
    ),
    click.option(
        "--allow-env",
        multiple=True,
        metavar="NAME",
        expose_value=False,
        callback=_kept_as(_NAMES),
        help="Only let ${env:…} read this variable, none where it is empty. Can be repeated.",
    ),
)


def policy_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say what a manifest may read and reach to a command that loads one."""
    for option in reversed(_POLICY_OPTIONS):
        command = option(command)
    return command


def manifest_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Add the argument MANIFEST to a command, with :func:`policy_options`."""
    manifests = click.argument("manifests", nargs=-1, metavar="[MANIFEST]...", type=click.Path())
    return manifests(policy_options(command))


def policy(*, checking: bool = False) -> Policy:
    """Return what the command line lets a manifest read and reach; ``checking``: it is only looked at."""
    from reconciler.manifest import CHECKING, OPEN

    meta = click.get_current_context().meta
    return replace(
        CHECKING if checking else OPEN,
        environment=meta.get(_NAMES) or None,
        outside=bool(meta.get(_OUTSIDE)),
        hosts=meta.get(_HOSTS) or None,
    )


_VAR_FILES = "reconciler.cli.var_files"


def _read_var_files(context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> None:
    """Keep what the files say until ``--var``, which comes before them, is read."""
    from reconciler.manifest import read_variables

    context.meta[_VAR_FILES] = {name: value for path in given for name, value in read_variables(path).items()}


def _variables(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    return {**context.meta.get(_VAR_FILES, {}), **pairs(context, parameter, given)}


def variables_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--var`` and ``--var-file`` to a command, which receives both as ``variables``."""
    for option in (
        click.option(
            "--var-file",
            "_var_files",
            multiple=True,
            expose_value=False,
            is_eager=True,
            callback=_read_var_files,
            metavar="FILE",
            help="A YAML file of NAME: VALUE. Can be repeated, the last one wins; --var wins over all.",
        ),
        click.option(
            "--var",
            "variables",
            multiple=True,
            callback=_variables,
            metavar="NAME=VALUE",
            help="A value for ${var:NAME}. Can be repeated.",
        ),
    ):
        command = option(command)
    return command


def select_option(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option ``--select``, of which the help says ``what`` it does."""
    return click.option(
        "--select",
        multiple=True,
        metavar="GLOB",
        shell_complete=complete_address,
        help=f"{what} matches catalog/namespace/table; ** is any number of levels. Can be repeated.",
    )


def impl_option(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the options ``--impl`` and ``--config``, of which the help says ``what`` they are for."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        config = click.option(
            "--config", multiple=True, callback=pairs, metavar="KEY=VALUE", help="With --impl: how to reach it."
        )
        return click.option("--impl", metavar="IMPL", shell_complete=complete_impl, help=what)(config(command))

    return add


def check_impl(impl: str | None, config: Mapping[str, str], manifests: tuple[str, ...]) -> None:
    """Check that a catalog is named by manifests or by ``--impl``, and not by both.

    Raises:
        UsageError: they don't go together.
    """
    if impl is None and config:
        raise click.UsageError("--config goes with --impl")
    if impl is not None and manifests:
        raise click.UsageError("give a manifest or --impl, not both")
    if impl is not None and any(click.get_current_context().meta.get(kept) for kept in (_OUTSIDE, _HOSTS, _NAMES)):
        raise click.UsageError("--allow-host, --allow-env and --allow-outside go with a manifest, not with --impl")


format_option = click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help="How to print the plan.",
)

full_option = click.option("--full", is_flag=True, help="Show every change and whole values, fold nothing.")

journal_option = click.option(
    "--journal", metavar="DIR", default=".lancens", show_default=True, help="Where the journals of the runs are kept."
)

parallelism_option = click.option(
    "--parallelism",
    type=click.IntRange(1, 256),
    default=DEFAULT_PARALLELISM,
    show_default=True,
    help="Requests at once.",
)

_PLAN_OPTIONS = (
    manifest_arguments,
    variables_option,
    select_option("Plan only what"),
    click.option("--adopt", is_flag=True, help="Also mark unowned objects that equal their block as managed."),
    click.option("--take-over", is_flag=True, help="Claim objects that another manifest manages."),
    click.option(
        "--allow-mass-removal", is_flag=True, help="Allow removing more than the manifest's `safety` thresholds."
    ),
    click.option(
        "--no-probe", is_flag=True, help="Do not open the data of tables that are deregistered to say what it holds."
    ),
    parallelism_option,
)


@dataclass(frozen=True, slots=True)
class PlanFlags:
    """What every command that makes a plan takes on its command line."""

    manifests: tuple[str, ...]
    variables: Mapping[str, str]
    select: tuple[str, ...]
    adopt: bool
    take_over: bool
    allow_mass_removal: bool
    no_probe: bool
    parallelism: int


def plan_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of :class:`PlanFlags` to a command, which receives them as its first argument."""

    @functools.wraps(command)
    def collected(**given: Any) -> None:
        own = {flag.name: given.pop(flag.name) for flag in fields(PlanFlags)}
        command(PlanFlags(**own), **given)

    for option in reversed(_PLAN_OPTIONS):
        collected = option(collected)
    return collected


def load_manifest(manifests: tuple[str, ...], variables: Mapping[str, str], *, checking: bool = False) -> Manifest:
    """Return the manifest of the paths given; without one, of ``lancens.yaml`` here.

    ``checking``: nothing of the environment and no file but its own is read for it.

    Raises:
        ManifestError: it cannot be used.
        LancensError: no path was given and there is no default manifest.
    """
    from reconciler.operations.manifests import load

    return load(*_paths(manifests), variables=variables, policy=policy(checking=checking))


def _paths(manifests: tuple[str, ...]) -> tuple[str, ...]:
    if not manifests and not Path(DEFAULT_MANIFEST).exists():
        raise LancensError(
            f"no {DEFAULT_MANIFEST} in this folder; name a manifest, or make one of what is there with "
            "`lancens import --impl dir --config root=PATH`"
        )
    saved = next((path for path in manifests if path.endswith(".json")), None)
    if saved is not None:
        raise LancensError(
            f"{saved} is not a manifest; `lancens show {saved}` and `lancens apply {saved}` take saved plans"
        )
    return manifests or (DEFAULT_MANIFEST,)


def wants_color() -> bool:
    """Return whether stdout should get colour: a terminal, and nobody asked for none (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def say(text: str, *, err: bool = False) -> None:
    """Print one line, in which foreign text stands as it is: on stdout, or on stderr."""
    click.echo(display.message(text), err=err)


def out_option(what: str, **more: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option ``-o``, of which the help says ``what`` is written; `-` is stdout, which is None."""
    return click.option(
        "-o",
        "--out",
        metavar="FILE",
        callback=lambda _context, _parameter, path: None if path == "-" else path,
        help=f"{what} `-` is stdout.",
        **more,
    )


def check_new_manifest(out: str | None, command: str) -> None:
    """Check that ``command`` can write a manifest to ``out``, where that is not stdout.

    Raises:
        UsageError: something is there, or its folder is not.
    """
    if out is None:
        return
    path = Path(out)
    if path.exists():
        raise click.UsageError(
            f"{out} exists; {command} does not overwrite a manifest. `lancens import --append {out}` adds to it"
        )
    if not path.parent.is_dir():
        raise click.UsageError(f"there is no folder {path.parent} to write {path.name} to")


def write_result(text: str, path: str | None = None, *, private: bool = False) -> None:
    """Write a command's result to ``path``, or to stdout; see :func:`write_file`."""
    if path in (None, "-"):
        click.echo(text, nl=not text.endswith("\n"))
        return
    write_file(path, text.encode("utf-8"), private=private)


def write_file(path: str, data: bytes, *, private: bool = False) -> None:
    """Write ``data`` to the file ``path``, which is whole or as it was; a link stays one, and so does a device.

    ``private``: nobody but this user can read it.

    Raises:
        LancensError: it cannot be written.
    """
    target = Path(path).resolve()
    partial = target.with_name(f".{target.name}.partial")
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return
        try:
            partial.unlink(missing_ok=True)
            # A link that somebody left there is not followed.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            with os.fdopen(os.open(partial, flags, 0o600 if private else 0o666), "wb") as opened:
                opened.write(data)
            if target.exists() and not private:
                partial.chmod(stat.S_IMODE(target.stat().st_mode))
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise LancensError(f"{path} cannot be written: {error.strerror}") from None


def read_plan(path: Path) -> Plan:
    """Return the saved plan in a file.

    Raises:
        PlanFileError: naming the file, when it holds no plan that can be used.
    """
    from reconciler.planner.plan import Plan

    try:
        return Plan.from_json(path.read_bytes())
    except PlanFileError as error:
        raise PlanFileError(f"{path}: {error}") from None
