"""``lancens show``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from reconciler.cli.grouped_help import GroupedCommand
from reconciler.cli.options import (
    CatalogSource,
    PlanView,
    complete_target,
    journal_option,
    manifest_options,
    plan_view_options,
)
from reconciler.cli.planning import print_plan
from reconciler.cli.results import fit, write_result
from reconciler.cli.saved_plans import read_plan
from reconciler.model import display
from reconciler.model.errors import LancensError, PlanFileError
from reconciler.model.json_encoding import encode_json


def _expect_target(_: click.Context, __: click.Parameter, target: str | None) -> str:
    if target is None:
        raise click.UsageError(
            "name a saved plan, a run of `lancens runs`, or an address such as lake/features/users; `lancens list` "
            "shows all that is live"
        )
    return target


@click.command("show", cls=GroupedCommand)
@click.argument(
    "target", required=False, metavar="PLAN|RUN|ADDRESS", callback=_expect_target, shell_complete=complete_target
)
@manifest_options
@plan_view_options
@journal_option
@click.option("--manifest", "restore", is_flag=True, help="Print the blocks that restore what the run removed.")
@click.option("--why", is_flag=True, help="With ADDRESS: say what writes each value, and where.")
def command(target: str, source: CatalogSource, view: PlanView, journal: str, restore: bool, why: bool) -> None:
    """Show a saved plan, the journal of an apply, or one object. Only for an object, catalogs are read.

    RUN is a run that `lancens runs` lists, or the path or URI of its journal. ADDRESS is catalog/namespace/table, or
    that of a namespace, in MANIFEST or live.

    \b
    Examples:
      lancens show plan.json
      lancens show plan.json --format html > plan.html
      lancens show 2f9c1e07
      lancens show 2f9c1e07 --manifest > back.yaml
      lancens show prod/ads/clicks --why
    """
    from reconciler.applier.journal import SUFFIX, is_uri
    from reconciler.applier.journal_reader import JournalFolder, describe_journal, read_journal
    from reconciler.writing.restoring import removed_blocks

    path, run = Path(target), target
    if "/" in target and not (path.is_file() or is_uri(target) or target.endswith((SUFFIX, ".json"))):
        if restore:
            raise click.UsageError("--manifest goes with a run, not with an address")
        _show_object(target, source, view.form, why=why)
        return
    if why or source.manifests:
        raise click.UsageError("--why and MANIFEST go with the address of an object")
    if not path.is_file():
        run = JournalFolder(journal).find(target) or ""
    if run.endswith(SUFFIX) or is_uri(run):
        if view.form != "text":
            raise click.UsageError("a run is shown as text; its journal holds a line of JSON for each event")
        record = read_journal(run)
        click.echo(removed_blocks(record).rstrip("\n") if restore else fit(describe_journal(record)))
        if record.missing:
            raise PlanFileError(f"the journal of run {record.run} is incomplete: it lacks {record.missing[0]}")
        return
    if not run:
        expected = "`lancens runs` lists the runs, and an address is CATALOG/NAMESPACE/TABLE"
        raise LancensError(f"{target} is neither a file nor a run in {journal}; {expected}")
    if restore:
        raise click.UsageError("--manifest goes with a run, not with a plan")
    print_plan(read_plan(path), view)


def _show_object(address: str, source: CatalogSource, form: str, *, why: bool) -> None:
    from reconciler.operations.listing import describe
    from reconciler.output.wording import word_of

    if form not in ("text", "json"):
        raise click.UsageError("an object is shown as text or as JSON")
    description = describe(source.load(traced=address), address)
    if form == "json":
        planned = [entry.model_dump(mode="json") for entry in description.planned]
        write_result(display.json_text(encode_json({**asdict(description), "planned": planned}, 2)))
        return
    lines = [display.address(*address.split("/"))]
    for title, values in (("desired", description.desired), ("live", description.live)):
        lines.append(title if values is not None else f"{title}: nothing")
        for value in values or ():
            origin = f"    ({value.origin}, {value.source})" if why and value.source else ""
            lines.append(f"  {display.key(value.key)}: {display.value(value.text)}{display.message(origin)}")
    plan_lines = [f"plan: {word_of(entry)}, {display.printable(entry.reason)}" for entry in description.planned]
    write_result("\n".join([*lines, *(plan_lines or ["plan: no change"])]))
