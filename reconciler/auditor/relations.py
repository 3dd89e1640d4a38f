"""Which tables share a location, and which are inside another's: found by grouping and joining, not pair by pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


MOST_NAMED = 5
"""How many of the tables at a place are named, beside the one they are named for."""


def directories_above(place: str) -> list[str]:
    """Return the directories that a normalised location lies in, the outermost first."""
    names = place.split("/")
    return ["/".join(names[:depth]) or "/" for depth in range(1, len(names))] if place != "/" else []


def with_relations(tables: DataFrame) -> DataFrame:
    """Return ``tables`` with how the location of each is related to those of the others.

    Needed are the columns ``address``, ``scheme``, ``place``, the normalised location, and ``above``, the directories
    that it lies in: null for what is not to be related. Added are, as in a ``TableRecord``, ``sharing`` (which may
    still name the table itself), ``schemes`` and ``inside``; null for none.

    A table is inside another one when the other's place is one of the directories above it. Tables that are beside
    each other have these in common, so they are looked up once a directory that holds tables.
    """
    from pyspark.sql import functions as f

    placed = tables.filter(f.col("place").isNotNull())
    places = placed.groupBy("place").agg(
        f.count("*").alias("number"),
        f.slice(f.array_sort(f.collect_list("address")), 1, MOST_NAMED + 1).alias("sharing"),
        f.array_sort(f.collect_set("scheme")).alias("schemes"),
    )
    shared = places.filter(f.col("number") > 1).select("place", "sharing", "schemes")
    outer = placed.select("above").distinct().select("above", f.explode("above").alias("place"))
    found = outer.join(places.select("place", f.col("sharing").alias("found")), "place")
    inside = found.groupBy("above").agg(
        f.slice(f.array_sort(f.flatten(f.collect_list("found"))), 1, MOST_NAMED).alias("inside")
    )
    return tables.join(shared, "place", "left").join(inside, "above", "left").drop("above")
