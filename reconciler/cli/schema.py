"""``lancens schema``."""

from __future__ import annotations

import json
from typing import Literal

import click

from reconciler.cli.options import out_option
from reconciler.cli.results import write_result


@click.command("schema")
@click.argument(
    "which",
    type=click.Choice(["manifest", "test", "plan", "audit"]),
    default="manifest",
    metavar="[manifest|test|plan|audit]",
)
@out_option("Write to a file.")
def command(which: Literal["manifest", "test", "plan", "audit"], out: str | None) -> None:
    """Print the JSON Schema of manifests, their tests, saved plans or audit reports.

    An editor completes a manifest whose first line names the schema.

    \b
    Examples:
      lancens schema -o manifest.schema.json
      # yaml-language-server: $schema=manifest.schema.json
    """
    if which == "manifest":
        from reconciler.operations.manifests import json_schema

        document = json_schema()
    elif which == "test":
        from reconciler.operations.plan_tests import json_schema as test_json_schema

        document = test_json_schema()
    elif which == "plan":
        from reconciler.output.json import plan_json_schema

        document = plan_json_schema()
    else:
        from reconciler.report.json import audit_json_schema

        document = audit_json_schema()
    write_result(json.dumps(document, indent=2, ensure_ascii=False) + "\n", out)
