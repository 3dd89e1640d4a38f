"""``lancens init``."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.completing import complete_impl
from reconciler.cli.options import DEFAULT_MANIFEST, say, write_result


@click.command("init")
@click.option(
    "--impl",
    metavar="IMPL",
    default="dir",
    show_default=True,
    shell_complete=complete_impl,
    help="What the first catalog is.",
)
@click.option("--name", metavar="NAME", help="The manifest's name; otherwise that of this folder.")
@click.option("-o", "--out", metavar="FILE", default=DEFAULT_MANIFEST, show_default=True, help="Where to write it.")
def command(impl: str, name: str | None, out: str) -> None:
    """Write a first manifest, with what the implementation's config can say as comments.

    It is valid as it is and manages nothing yet. No catalog is read.

    \b
    Examples:
      lancens init
      lancens init --impl glue -o prod.yaml
    """
    from reconciler.manifest.starting import first_manifest

    path = Path(out)
    if path.exists():
        raise click.UsageError(f"{out} exists; init does not overwrite a manifest")
    if not path.parent.is_dir():
        raise click.UsageError(f"there is no folder {path.parent} to write {path.name} to")
    write_result(first_manifest(impl, name or Path.cwd().name), out)
    say(f"Wrote {out}. Fill in its `config`; then `lancens import --append {out}` adds what is there.", err=True)
