"""The options of the commands that run on Spark."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.options import pairs, say
from reconciler.model.errors import ConfigError

if TYPE_CHECKING:
    from reconciler.manifest import Manifest


_OPTIONS = (
    click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[4], spark://HOST:7077, yarn, k8s://…, or sc://HOST:15002 for Spark Connect. "
        "Otherwise on all cores of this machine, or where spark-submit says.",
    ),
    click.option(
        "--spark-conf",
        "conf",
        multiple=True,
        callback=pairs,
        metavar="KEY=VALUE",
        help="A setting of Spark's, such as spark.driver.memory=4g. Can be repeated.",
    ),
)


def spark_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of Spark to a command, which receives them as ``spark``."""

    @functools.wraps(command)
    def collected(*others: Any, master: str | None, conf: dict[str, str], **given: Any) -> None:
        from reconciler.spark.session import SparkOptions

        debug = bool(click.get_current_context().find_root().params.get("debug"))
        command(*others, spark=SparkOptions(master, conf, show_log=debug), **given)

    for option in reversed(_OPTIONS):
        collected = option(collected)
    return collected


def tell_of_missing_roots(manifest: Manifest, *, required: bool) -> None:
    """Say which directories that are whole catalogs are not there: a mistyped one is read as an empty catalog.

    Raises:
        ConfigError: one is not there that is ``required``.
    """
    from reconciler.operations.connections import missing_roots

    for missing in missing_roots(manifest):
        if required:
            raise ConfigError(f"{missing} Nothing was looked at.")
        say(missing, err=True)
