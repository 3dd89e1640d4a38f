"""``lancens init``."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from reconciler.cli.options import DEFAULT_MANIFEST, complete_impl, out_option
from reconciler.cli.results import check_new_manifest, print_line, write_result


@click.command("init")
@click.option(
    "--impl", metavar="IMPL", default="dir", shell_complete=complete_impl, help="The first catalog's implementation."
)
@click.option("--name", metavar="NAME", help="The manifest's name; by default that of this folder.")
@click.option("--demo", is_flag=True, help="With a namespace and a table to try, which are comments otherwise.")
@out_option("Write to this file.", default=DEFAULT_MANIFEST)
def command(impl: str, name: str | None, demo: bool, out: str | None) -> None:
    """Write a first manifest, with the keys of its config as comments.

    It is valid, and manages nothing yet but for --demo. No catalog is read.

    \b
    Examples:
      lancens init
      lancens init --demo
      lancens init --impl glue -o prod.yaml
    """
    from reconciler.writing.export import name_from_folder
    from reconciler.writing.starting import first_manifest

    check_new_manifest(out, "init")
    write_result(first_manifest(impl, name_from_folder(name or Path.cwd().name), demo=demo), out)
    if out is not None:
        following = (
            f"`lancens plan{'' if out == DEFAULT_MANIFEST else f' {shlex.quote(out)}'}` shows what it would create."
            if demo
            else (f"Fill in its `config`; then `lancens import --append {shlex.quote(out)}` adds what is there.")
        )
        print_line(f"Wrote {out}. {following}", err=True)
