"""The catalogs of a manifest as a table of Spark's: `python tables.py`, or `spark-submit tables.py`."""

from __future__ import annotations

from pyspark.sql import functions as f

from reconciler.spark import register, spark_session

with spark_session() as spark:
    register(spark)
    catalogs = spark.read.format("lancens").option("manifest", "lancens.yaml")

    tables = catalogs.load().filter(f.col("error").isNull())
    tables.groupBy("catalog", "namespace").count().orderBy("namespace").show(truncate=False)

    # What could not be read is a row as well: nothing is missing without a word.
    catalogs.option("view", "coverage").load().show(truncate=False)
