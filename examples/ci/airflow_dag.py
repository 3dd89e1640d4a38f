"""Airflow: watch for drift every hour, and audit every night."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

COMMANDS = {
    "drift": ("7 * * * *", "lancens drift --fail-on unmanaged"),
    "audit": ("37 2 * * *", "lancens audit --out reports --fail-on error"),
}

for name, (schedule, command) in COMMANDS.items():
    with DAG(
        f"lancens_{name}",
        schedule=schedule,
        start_date=datetime(2026, 1, 1),
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(hours=2),
    ):
        BashOperator(task_id=name, bash_command=command, cwd="/opt/tables")
