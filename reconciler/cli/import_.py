"""``lancens import``."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli.grouped_help import GroupedCommand
from reconciler.cli.habits import import_hint
from reconciler.cli.options import CatalogSource, catalog_options, out_option, parallelism_option, select_option
from reconciler.cli.results import check_new_manifest, print_line, write_result
from reconciler.model import display
from reconciler.model.display import count
from reconciler.model.errors import ManifestError, SelectionError
from reconciler.model.files import write_file

if TYPE_CHECKING:
    from reconciler.manifest import Manifest
    from reconciler.writing.import_ import ImportOptions, ImportResult


@click.command("import", cls=GroupedCommand)
@click.option("--catalog", metavar="NAME", help="Import only this catalog; with --impl, its name.")
@catalog_options("Import a catalog without a manifest.")
@select_option("Import only what")
@click.option("--unmanaged", is_flag=True, help="Import only what no manifest manages.")
@click.option("--with-schema", is_flag=True, help="Add the columns of each table, read from its dataset.")
@click.option("--from-storage", is_flag=True, help="Add blocks for datasets under the roots that no catalog has.")
@click.option(
    "--policies",
    is_flag=True,
    help="Write policies instead of blocks: for a catalog that others change, and a mirror follows.",
)
@out_option("Write to a file that does not exist yet.")
@click.option(
    "--append", metavar="FILE", help="Add what is missing to a file of the manifest; its other lines stay unchanged."
)
@click.option(
    "--name",
    metavar="NAME",
    help="With --impl: the manifest's name, by default that of its folder; that of a lost manifest writes it again.",
)
@parallelism_option()
def command(
    source: CatalogSource,
    catalog: str | None,
    select: tuple[str, ...],
    unmanaged: bool,
    with_schema: bool,
    from_storage: bool,
    policies: bool,
    out: str | None,
    append: str | None,
    name: str | None,
    parallelism: int,
) -> None:
    """Write a manifest of live catalogs; planning it gives no changes.

    \b
    Examples:
      lancens import --impl dir --config root=./lake -o lancens.yaml
      lancens import prod.yaml --catalog prod
      lancens import --append lancens.yaml --unmanaged
      lancens import --from-storage -o found.yaml
    """
    from reconciler.writing.import_ import ImportOptions

    hints = (import_hint(manifest) for manifest in source.manifests if not Path(manifest).exists())
    if hint := next(filter(None, hints), None):
        raise click.UsageError(hint)
    _check_target(out, append)
    if name is not None and (source.impl is None or append is not None):
        raise click.UsageError("--name goes with --impl, for a new manifest; another one has its name already")
    if policies and (append is not None or with_schema or from_storage):
        raise click.UsageError("--policies goes without --append, --with-schema and --from-storage, which write blocks")
    options = ImportOptions(
        select=select,
        unmanaged=unmanaged,
        with_schema=with_schema,
        from_storage=from_storage,
        policies=policies,
        name=name,
        parallelism=parallelism,
    )
    if append is not None:
        _append_blocks(append, source, catalog, options)
        return
    manifest = None if source.impl else source.load()
    result = _import_catalogs(source, manifest, catalog, Path() if out is None else Path(out).parent, options)
    write_result(result.text, out)
    if out is not None:
        wrote = f"Wrote {out}, manifest `{display.name(result.name)}`: {_count_blocks(result)}"
        print_line(f"{wrote}; `lancens plan {out}` shows what differs from it.", err=True)


def _check_target(out: str | None, append: str | None) -> None:
    if out is not None and append is not None:
        raise click.UsageError("-o writes a new file, --append extends one: pass one of them")
    check_new_manifest(out, "import")
    if append is not None and not Path(append).is_file():
        raise click.UsageError(f"there is no file {append} to append to; -o {append} writes one")


def _import_catalogs(
    source: CatalogSource, manifest: Manifest | None, catalog: str | None, folder: Path, options: ImportOptions
) -> ImportResult:
    """Read the catalogs of ``manifest`` or of ``--impl``; return the text to write.

    The remarks are printed to stderr. Relative paths in the text are relative to ``folder``.
    """
    from reconciler.writing.import_ import import_with_counts

    catalogs_of = None if source.impl else manifest
    result = import_with_counts(
        catalogs_of, options, catalog=catalog, impl=source.impl, config=source.config, folder=folder
    )
    for remark in result.remarks:
        print_line(remark, err=True)
    return result


def _append_blocks(path: str, source: CatalogSource, catalog: str | None, options: ImportOptions) -> None:
    """Add the missing blocks to the manifest's file at ``path``.

    If the manifest cannot be loaded then, the file is restored.
    """
    from reconciler.operations.manifests import load
    from reconciler.writing.grafting import graft, variable_values
    from reconciler.writing.import_ import ExtendedManifest

    target = replace(source, manifests=source.manifests or (path,), impl=None, config={})
    manifest = target.load()
    if not any(Path(path).samefile(file) for file in manifest.files):
        raise SelectionError(f"{path} is not a file of the manifest, which has {', '.join(manifest.files)}")
    existing = {name: block.desired for name, block in manifest.catalogs.items()}
    if source.impl is not None:
        if catalog is None:
            raise click.UsageError("name the catalog in the manifest with --catalog NAME")
        if catalog in existing:
            raise SelectionError(
                f"{path} has a catalog `{catalog}` already; leave --impl and --config out to add to it"
            )
    name = manifest.name if source.impl is not None else None
    folder = os.path.realpath(Path(path).parent)
    texts = (Path(file).read_text("utf-8-sig") for file in manifest.files)
    extended = ExtendedManifest(existing, manifest.identity, variable_values(texts, manifest.expanded, folder))
    options = replace(options, extended=extended, name=name)
    result = _import_catalogs(source, manifest, catalog, Path(path).parent, options)
    if not result.namespaces and not result.tables and source.impl is None:
        print_line(f"{path} has a block for everything; nothing was written.", err=True)
        return
    before = Path(path).read_bytes()
    case_folding = {
        name for name, block in manifest.catalogs.items() if block.config.implementation.capabilities.folds_case
    }
    write_file(path, graft(path, before, result.text, manifest.expanded, case_folding))
    try:
        load(*target.manifests, variables=source.variables, policy=source.policy())
    except ManifestError:
        write_file(path, before)
        raise
    print_line(f"Added to {path}: {_count_blocks(result)}; every other line is unchanged.", err=True)


def _count_blocks(result: ImportResult) -> str:
    return f"{count(result.namespaces, 'namespace')}, {count(result.tables, 'table')}"
