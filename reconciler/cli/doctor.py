"""``lancens doctor``."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import click

from reconciler.cli.grouped_help import GroupedCommand
from reconciler.cli.options import CatalogSource, catalog_options, format_option, parallelism_option
from reconciler.cli.results import print_line, write_result
from reconciler.model import display

if TYPE_CHECKING:
    from reconciler.operations.doctor import DoctorCheck

_PACKAGES = ("lancens", "pylance", "pyarrow", "lance-namespace", "boto3", "thrift", "pyspark")


@click.command("doctor", cls=GroupedCommand)
@catalog_options("Check a catalog without a manifest.")
@format_option("How to print the checks.")
@parallelism_option()
def command(source: CatalogSource, form: str, parallelism: int) -> None:
    """Check each catalog: its service, the permissions of the credentials, and what would fail. Nothing is changed.

    Write permissions are tested on names that do not exist. Exit 1 if a catalog cannot be read.

    \b
    Examples:
      lancens doctor
      lancens doctor --impl glue --config region=eu-west-1 --format json
    """
    from reconciler.operations.doctor import doctor

    checks = doctor(source.load(), parallelism=parallelism)
    if form == "json":
        document = {"versions": dict(_versions()), "checks": [asdict(check) for check in checks]}
        write_result(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        print_line(", ".join(f"{name} {number}" for name, number in _versions()))
        for line in _table_lines(checks):
            print_line(line)
    if any(check.status == "failed" for check in checks):
        sys.exit(1)


def _versions() -> Iterator[tuple[str, str]]:
    """Yield the packages that a bug report needs, each with its version, and Python's."""
    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"
    yield "Python", platform.python_version()


def _table_lines(checks: Sequence[DoctorCheck]) -> Iterator[str]:
    rows = [("catalog", "check", "result", "took", "")]
    for check in checks:
        took = "" if check.seconds is None else f"{check.seconds * 1000:,.0f} ms"
        rows.append((check.catalog, check.name, check.status, took, check.detail))
    widths = [max(display.width_of(row[column]) for row in rows) for column in range(4)]
    for catalog, name, status, took, detail in rows:
        cells = map(display.padded, (catalog, name, status), widths)
        yield "  ".join((*cells, took.rjust(widths[3]), detail)).rstrip()
