"""Which tables share a location, and which are inside another's: found by grouping and joining, not pair by pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


MOST_NAMED = 5
"""How many of the tables at a place are named, beside the one they are named for."""


def with_relations(tables: DataFrame) -> DataFrame:
    """Return ``tables`` with how the location of each is related to those of the others.

    Needed are the columns ``address``, ``scheme`` and ``place``, the normalised location: null for what is not to be
    related. Added are, as in a ``TableRecord``, ``sharing`` (which may still name the table itself), ``schemes`` and
    ``inside``; null for none.

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
    above = placed.select(_parent(f.col("place")).alias("parent")).distinct()
    outer = above.select("parent", f.explode(_and_above(f.col("parent"))).alias("place")).join(
        places.select("place", f.col("sharing").alias("found")), "place"
    )
    inside = outer.groupBy("parent").agg(
        f.slice(f.array_sort(f.flatten(f.collect_list("found"))), 1, MOST_NAMED).alias("inside")
    )
    return (
        tables.withColumn("parent", _parent(f.col("place")))
        .join(shared, "place", "left")
        .join(inside, "parent", "left")
        .drop("parent")
    )


def _parent(place: Column) -> Column:
    """Return the directory that a normalised location is in; null for the root of all."""
    from pyspark.sql import functions as f

    parts = f.split(place, "/")
    above = f.array_join(f.slice(parts, 1, f.greatest(f.size(parts) - 1, f.lit(0))), "/")
    return f.when(place != "/", f.when(place.rlike("^/[^/]*$"), "/").otherwise(above))


def _and_above(directory: Column) -> Column:
    """Return a directory and those it lies in."""
    from pyspark.sql import functions as f

    parts = f.split(directory, "/")
    longer = f.transform(
        f.sequence(f.lit(1), f.size(parts)), lambda length: f.array_join(f.slice(parts, 1, length), "/")
    )
    named = f.transform(longer, lambda name: f.when(name == "", "/").otherwise(name))
    return f.array_distinct(f.when(directory == "/", f.array(f.lit("/"))).otherwise(named))
