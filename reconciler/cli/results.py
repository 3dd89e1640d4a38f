"""Print lines, check the paths of output files, and write results to stdout or a file."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from reconciler.model import display
from reconciler.model.files import write_file
from reconciler.pipeline.progress import is_quiet

PLAN_SUFFIX = ".json"
"""The suffix that distinguishes saved plans from manifests."""


def print_line(text: str, *, err: bool = False) -> None:
    """Print one line on stdout or stderr, with control characters escaped."""
    click.echo(fit(display.message(text), err=err), err=err)


def fit(text: str, *, err: bool = False) -> str:
    """Return the lines of ``text``, each broken under its own indent if a terminal is too narrow for it."""
    if not (sys.stderr if err else sys.stdout).isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(part for line in text.split("\n") for part in display.hang(line, width))


def print_progress(text: str) -> None:
    """Print a line on progress to stderr, unless ``--quiet`` was given."""
    if not is_quiet():
        click.echo(fit(text, err=True), err=True)


def check_new_manifest(out: str | None, command: str) -> None:
    """Check that ``command`` can write a new manifest to ``out``, if that is a file.

    Raises:
        UsageError: the file exists, or its folder does not.
    """
    if out is None:
        return
    path = Path(out)
    if path.exists():
        raise click.UsageError(
            f"{out} exists; {command} does not overwrite a manifest. `lancens import --append {out}` adds to it"
        )
    check_folder(out)


def check_folder(out: str) -> None:
    """Check that the folder of an output file exists, before the work begins.

    Raises:
        UsageError: the folder does not exist.
    """
    path = Path(out)
    if not path.parent.is_dir():
        raise click.UsageError(f"there is no folder {path.parent} to write {path.name} to")


def check_plan_file(out: str) -> None:
    """Check that a plan can be saved to ``out``, with the suffix of saved plans.

    Raises:
        UsageError: the path has another suffix, such as that of a manifest, or its folder does not exist.
    """
    path = Path(out)
    if path.suffix != PLAN_SUFFIX and (path.is_file() or not path.exists()):
        hint = "; `--format json` prints JSON" if out == "json" else ""
        raise click.UsageError(
            f"the name of a saved plan must end in {PLAN_SUFFIX}: pass -o {path.with_suffix(PLAN_SUFFIX)}{hint}"
        )
    check_folder(out)


def write_result(text: str, path: str | None = None, *, private: bool = False, color: bool | None = None) -> None:
    """Write a result to ``path`` as :func:`write_file` does, or to stdout.

    Without ``color``, click removes colours where stdout is not a terminal.
    """
    if path in (None, "-"):
        click.echo(text, nl=not text.endswith("\n"), color=color or None)
        return
    write_file(path, text.encode("utf-8"), private=private)
