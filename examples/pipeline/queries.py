"""What an audit found, asked in SQL, after `lancens audit --out report --history audits.lance`.

`python queries.py`, or `python queries.py FOLDER` where that was elsewhere.
"""

from __future__ import annotations

import sys
from pathlib import Path

from reconciler import register_history
from reconciler.spark import spark_session

QUESTIONS = {
    "Who has what to do?": """
        SELECT coalesce(owner, 'nobody') AS owner, severity, count(*) AS findings
        FROM findings GROUP BY ALL ORDER BY owner, severity
    """,
    "Which rules find most, and where?": """
        SELECT rule, catalog, count(*) AS findings, min(address) AS for_example
        FROM findings GROUP BY ALL ORDER BY findings DESC, rule
    """,
    "How much would a clean-up give back, by owner?": """
        SELECT coalesce(owner, 'nobody') AS owner, sum(reclaimable) AS reclaimable, sum(bytes_on_disk) AS on_disk
        FROM tables GROUP BY ALL ORDER BY reclaimable DESC, owner
    """,
    "Which tables with errors hold most data?": """
        SELECT address, rows, bytes, collect_set(rule) AS rules
        FROM findings JOIN tables USING (address) WHERE severity = 'error' GROUP BY ALL ORDER BY bytes DESC NULLS LAST
    """,
    "How did the findings of each rule change from run to run?": """
        SELECT finished, one.rule, one.error + one.warning + one.note AS findings
        FROM history LATERAL VIEW explode(by_rule) AS one ORDER BY finished, one.rule
    """,
}

FOLDER = Path(*sys.argv[1:]).absolute()

with spark_session() as spark:
    register_history(spark)
    spark.read.parquet(f"{FOLDER}/report/findings.parquet").createOrReplaceTempView("findings")
    spark.read.parquet(f"{FOLDER}/report/tables.parquet").createOrReplaceTempView("tables")
    spark.read.format("lancens-history").load(f"{FOLDER}/audits.lance").createOrReplaceTempView("history")
    for question, query in QUESTIONS.items():
        print(question)
        spark.sql(query).show(truncate=False)
