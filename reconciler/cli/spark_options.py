"""The options of the commands that run on Spark."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from reconciler.cli.options import pairs

__all__ = ["spark_flags"]

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
        from reconciler.pipeline.session import SparkOptions

        debug = bool(click.get_current_context().find_root().params.get("debug"))
        command(*others, spark=SparkOptions(master, conf, show_log=debug), **given)

    for option in reversed(_OPTIONS):
        collected = option(collected)
    return collected
