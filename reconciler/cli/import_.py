"""``lancens import``."""

from __future__ import annotations

import click

from reconciler.cli.options import load_manifest, manifest_arguments, pairs, say, variables_option, write_result
from reconciler.state import DEFAULT_PARALLELISM


@click.command("import")
@manifest_arguments
@variables_option
@click.option("--catalog", metavar="NAME", help="Only this catalog of the manifest; or the name of the new one.")
@click.option("--impl", metavar="IMPL", help="Read a catalog that no manifest describes.")
@click.option("--config", multiple=True, callback=pairs, metavar="KEY=VALUE", help="With --impl: how to reach it.")
@click.option("-o", "--out", metavar="FILE", help="Write to a file that does not exist yet.")
@click.option(
    "--parallelism",
    type=click.IntRange(1, 256),
    default=DEFAULT_PARALLELISM,
    show_default=True,
    help="Requests at once.",
)
def command(
    manifests: tuple[str, ...],
    variables: dict[str, str],
    catalog: str | None,
    impl: str | None,
    config: dict[str, str],
    out: str | None,
    parallelism: int,
) -> None:
    """Write the manifest of what is there; planning it gives no changes.

    \b
    Examples:
      lancens import --impl dir --config root=./lake -o lancens.yaml
      lancens import prod.yaml --catalog prod
    """
    from pathlib import Path

    from reconciler.operations.import_ import import_

    if out is not None and Path(out).exists():
        raise click.UsageError(f"{out} exists; import does not overwrite a manifest")
    if out is not None and not Path(out).parent.is_dir():
        raise click.UsageError(f"there is no folder {Path(out).parent} to write {Path(out).name} to")
    if impl is None and config:
        raise click.UsageError("--config goes with --impl")
    if impl is not None and manifests:
        raise click.UsageError("give a manifest or --impl, not both")
    manifest = None if impl else load_manifest(manifests, variables)
    folder = Path(out).parent if out is not None else Path()
    text = import_(manifest, catalog=catalog, impl=impl, config=config, folder=folder, parallelism=parallelism)
    write_result(text, out)
    if out is not None:
        say(f"Wrote {out}; `lancens plan {out}` says what differs from it.", err=True)
