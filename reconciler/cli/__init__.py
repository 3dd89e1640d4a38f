"""The ``lancens`` command: a module for each subcommand, imported when called.

Exit codes: 0 done; 1 any error, wrong usage included; 2 with ``--detailed-exitcode``, when there are changes; 3 when
something is blocked; 130 when interrupted, by Ctrl-C or SIGTERM. The result goes to stdout, everything else to stderr,
and no traceback is shown without ``--debug``.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import click

from reconciler.cli.habits import COMMANDS, option_hint
from reconciler.cli.results import fit
from reconciler.cli.without_pandas import hide_pandas
from reconciler.model import display
from reconciler.model.errors import BackendError, LancensError
from reconciler.model.redaction import scrub

__all__ = ["main"]

_COMMANDS: Mapping[str, str] = {
    "init": "Write a first manifest.",
    "validate": "Check manifests without reading any catalog.",
    "test": "Check what plans of described live states contain.",
    "plan": "Show what apply would change.",
    "apply": "Make the catalogs what the manifest says.",
    "maintain": "Compact datasets, and build and update their indices.",
    "list": "List live tables, with their location and owner.",
    "show": "Show a saved plan, the journal of an apply, or one object.",
    "runs": "List the journals of past applies.",
    "drift": "Report whether the catalogs differ from the manifest.",
    "import": "Write a manifest of live catalogs.",
    "release": "Remove the ownership marks of lancens from objects.",
    "doctor": "Check each catalog: its service, the permissions, and what would fail.",
    "audit": "Check every table and its data, and report findings.",
    "inventory": "Write every live object to a file or dataset.",
    "serve": "Serve catalogs over Lance REST.",
    "schema": "Print the JSON Schema of manifests, plans or audits.",
    "conformance": "Check a catalog against the Lance Namespace operations.",
    "completion": "Print the completion script of a shell.",
}

_HELP = ["-h", "--help"]
_CHOICE_SEPARATOR = "\n\t"  # click prints it before each choice of a missing argument
_EPILOG = """\b
Start here:
  lancens audit --impl dir --config root=./lake
  lancens import --impl dir --config root=./lake -o lancens.yaml
  lancens plan
  lancens apply

\b
In a pipeline:
  lancens plan -o plan.json --detailed-exitcode
  lancens show plan.json --format markdown
  lancens apply plan.json --auto-approve
"""


class _Commands(click.Group):
    """The commands by name, so that ``--help`` imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = f"{cmd_name}_" if cmd_name in ("import", "list") else cmd_name
        command = importlib.import_module(f"reconciler.cli.{module}").command
        assert isinstance(command, click.Command)  # noqa: S101 - a bug in lancens, not bad input
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            hint = COMMANDS.get(args[0]) or display.did_you_mean(
                args[0], _COMMANDS, f"commands: {', '.join(_COMMANDS)}"
            )
            ctx.fail(f"no command `{args[0]}`; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands, epilog=_EPILOG, context_settings={"help_option_names": _HELP, "show_default": True})
@click.version_option(package_name="lancens", prog_name="lancens")
@click.option("--debug", is_flag=True, help="Show tracebacks and the requests made.")
@click.option("--quiet", is_flag=True, help="Print errors and the last line only.")
def _lancens(debug: bool, quiet: bool) -> None:  # noqa: ARG001 - `is_quiet` reads it
    """Terraform for Lance tables: a manifest says which namespaces and tables exist in which data catalogs."""
    if debug:
        _log_to_stderr()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    _open_closed_streams()
    if arguments is None:
        _tune_process()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # These options are also accepted after the command, so they are moved before it. After `--` nothing is an option.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options, rest = arguments[:end], arguments[end:]
    global_options = [option for option in ("--debug", "--quiet") if option in options]
    arguments = [*global_options, *(option for option in options if option not in global_options), *rest]
    debug = "--debug" in global_options
    if not debug:
        os.environ.setdefault("LANCE_LOG", "lance=off")  # which pylance reads once, when it is imported
    try:
        _check_arguments(arguments)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        code = _lancens.main(args=arguments, prog_name="lancens", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = 1
    except click.ClickException as error:
        click.echo(fit("\n".join(_usage_lines(error)), err=True), err=True)
        code = 1
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted. Nothing more was started.", err=True)
        code = 130
    except BrokenPipeError:
        # The reader of the pipe has exited, so Python's flush of stdout at exit would fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as error:  # noqa: BLE001 - the edge: a traceback needs --debug
        click.echo(scrub(_traceback(error), ()) if debug else fit(scrub(_message(error), ()), err=True), err=True)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _tune_process() -> None:
    """Save work at the start and end of this process, which runs one command and no other code."""
    hide_pandas()
    gc.set_threshold(100_000, 50, 50)  # imports make many objects, and no garbage
    atexit.register(gc.freeze)  # or Python's end looks for garbage among all of them


def _check_arguments(arguments: Sequence[str]) -> None:
    """Refuse empty arguments and options of other tools, before click misunderstands them.

    A manifest ``""`` would be this folder. ``-out=FILE`` would write ``ut=FILE``.

    Raises:
        ClickException: naming the first of these arguments, and for another tool's option the one of lancens.
    """
    command = next((argument for argument in arguments if not argument.startswith("-")), None)
    known = _options_of(command) if command is None or command in _COMMANDS else None
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for before, argument in pairwise(("lancens", *options)):
        name, equals, value = argument.partition("=")
        if not argument and before != "--allow-env":
            raise click.ClickException(f"the argument after {before} is empty: check the variable that it comes from")
        if name.startswith("--") and equals and not value and name != "--allow-env":
            raise click.ClickException(f"{name} is empty: check the variable that its value comes from")
        is_value = known is not None and known.get(before, False)
        hint = None if known is None or is_value else option_hint(argument, command, known)
        if hint is not None:
            raise click.ClickException(f"no such option {name}: {hint}")


def _options_of(name: str | None) -> dict[str, bool]:
    """Return the options of the command ``name`` and of lancens itself, as typed, with whether they take a value."""
    command = _lancens.get_command(click.Context(_lancens), name) if name is not None else None
    parameters = [*_lancens.params, *(command.params if command is not None else ())]
    options = [parameter for parameter in parameters if isinstance(parameter, click.Option)]
    return dict.fromkeys(_HELP, False) | {
        name: not (option.is_flag or option.count)
        for option in options
        for name in (*option.opts, *option.secondary_opts)
    }


def _open_closed_streams() -> None:
    """Connect each closed standard stream to the null device.

    Otherwise the next opened file takes its number, and output of libraries ends up in that file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _usage_lines(error: click.ClickException) -> Iterator[str]:
    """Yield the lines that click prints for wrong usage, with the error on one line."""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        yield error.ctx.get_usage()
        yield f"Try '{error.ctx.command_path} {error.ctx.help_option_names[0]}' for help."
        yield ""
    yield f"Error: {display.message(error.format_message().replace(_CHOICE_SEPARATOR, ' '))}"


def _message(error: Exception) -> str:
    """Return the text that the user sees of ``error``.

    Texts of services and libraries are put on one line.
    """
    if isinstance(error, LancensError):
        return str(error)
    if isinstance(error, BackendError):
        return display.message(str(error))
    if isinstance(error, UnicodeEncodeError):
        return f"stdout is {error.encoding}, which lacks characters of the result: set PYTHONIOENCODING=utf-8"
    if isinstance(error, OSError):
        return display.message(f"{error.filename}: {error.strerror}" if error.filename is not None else str(error))
    return f"lancens failed: {type(error).__name__}. This is a bug in lancens: run it with --debug and report it."


def _traceback(error: Exception) -> str:
    """Return the traceback of ``error``, with control characters escaped."""
    import traceback

    lines = "".join(traceback.format_exception(error)).splitlines()
    return "\n".join(map(display.message, lines))


def _log_to_stderr() -> None:
    import logging

    class OneLineFormatter(logging.Formatter):
        """Escapes line breaks in texts of services and libraries."""

        def format(self, record: logging.LogRecord) -> str:
            return display.message(super().format(record))

    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    logging.getLogger("reconciler").setLevel(logging.DEBUG)
