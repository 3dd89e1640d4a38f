"""``lancens fmt``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from reconciler.cli.options import DEFAULT_MANIFEST, say, write_file
from reconciler.errors import LancensError, ManifestError, Problem

_SUFFIXES = (".yaml", ".yml")


@click.command("fmt")
@click.argument("paths", nargs=-1, metavar="[FILE]...", type=click.Path())
@click.option("--check", is_flag=True, help="Write nothing; exit 2 when a file is laid out in another way.")
def command(paths: tuple[str, ...], check: bool) -> None:
    """Give manifest files their one layout; comments, quotes and the order of keys stay.

    FILE is a file, several, or folders, whose YAML files are taken; the default is lancens.yaml. `-` reads stdin and
    writes to stdout. The names of the files that were changed, or would be, are printed.

    \b
    Examples:
      lancens fmt
      lancens fmt --check prod.yaml teams/
    """
    from reconciler.manifest.layout import laid_out

    problems: list[Problem] = []
    others = 0
    for path in _files(paths or (DEFAULT_MANIFEST,)):
        before = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        try:
            after = laid_out("<stdin>" if path == "-" else path, before)
        except ManifestError as error:
            problems += error.problems
            continue
        if path == "-" and not check:
            sys.stdout.buffer.write(after)
        elif after != before:
            others += 1
            say(path)
            if not check:
                write_file(path, after)
    if problems:
        raise ManifestError(problems)
    if check and others:
        sys.exit(2)


def _files(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if path == "-" or Path(path).is_file():
            yield path
        elif Path(path).is_dir():
            yield from sorted(str(one) for one in Path(path).iterdir() if one.suffix in _SUFFIXES and one.is_file())
        else:
            raise LancensError(f"there is no file {path} to lay out")
