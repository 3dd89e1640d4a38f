"""The examples for operations, and the Dockerfile, name metrics, commands and files that exist."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from reconciler.cli.metrics import METRICS

ROOT = Path(__file__).parents[2]
_DOCKERFILE = (ROOT / "Dockerfile").read_text()
_METRIC = re.compile(r"lancens_[a-z_]+")
_CONTAINER = {
    "type": "object",
    "required": ["name", "image", "args", "securityContext", "volumeMounts"],
    "properties": {
        "args": {"type": "array", "items": {"type": "string"}},
        "securityContext": {
            "properties": {"readOnlyRootFilesystem": {"const": True}, "allowPrivilegeEscalation": {"const": False}}
        },
        "volumeMounts": {"type": "array", "items": {"type": "object", "required": ["name", "mountPath"]}},
    },
}
_POD = {
    "type": "object",
    "required": ["restartPolicy", "containers", "volumes"],
    "properties": {
        "restartPolicy": {"enum": ["Never", "OnFailure"]},
        "securityContext": {"properties": {"runAsNonRoot": {"const": True}}, "required": ["runAsNonRoot"]},
        "containers": {"type": "array", "items": _CONTAINER},
        "volumes": {"type": "array", "items": {"type": "object", "required": ["name"]}},
    },
}


def _below(schema: dict[str, Any], *keys: str) -> dict[str, Any]:
    for key in reversed(keys):
        schema = {"type": "object", "required": [key], "properties": {key: schema}}
    return schema


# The fields of batch/v1 that the example uses.
_CRON_JOB = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "batch/v1"},
        "kind": {"const": "CronJob"},
        "spec": {
            "allOf": [
                {"required": ["schedule"], "properties": {"schedule": {"pattern": r"^(\S+ ){4}\S+$"}}},
                _below(_POD, "jobTemplate", "spec", "template", "spec"),
            ]
        },
    },
}


def test_alerts_and_dashboard_name_metrics_and_labels_that_are_written() -> None:
    rules = yaml.safe_load((ROOT / "examples/observability/alerts.yml").read_text())["groups"][0]["rules"]
    dashboard = json.loads((ROOT / "examples/observability/dashboard.json").read_text())
    expressions = [rule["expr"] for rule in rules]
    expressions += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for expression in expressions:
        for name in _METRIC.findall(expression):
            assert name in METRICS, expression
        [first, *_] = _METRIC.findall(expression)
        known = {"command", "manifest", *METRICS[first][1]}
        assert set(re.findall(r"(\w+)=~?\"", expression)) <= known, expression
    assert all(rule["labels"]["severity"] and rule["annotations"]["summary"] for rule in rules)


def test_every_metric_is_documented() -> None:
    page = (
        (ROOT / "docs/monitoring.md")
        .read_text()
        .replace(
            "`lancens_stage_seconds`, `_calls`, `_bytes`",
            " ".join(f"`lancens_stage_{one}`" for one in ("seconds", "calls", "bytes")),
        )
    )
    assert [name for name in METRICS if f"`{name}`" not in page] == []


def test_the_cron_jobs_are_valid_and_run_commands_that_exist() -> None:
    jobs = list(yaml.safe_load_all((ROOT / "examples/kubernetes/cronjob.yaml").read_text()))
    for job in jobs:
        jsonschema.validate(job, _CRON_JOB)
        pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        [container] = pod["containers"]
        command = importlib.import_module(f"reconciler.cli.{container['args'][0]}").command
        options = {option for parameter in command.params for option in parameter.opts}
        assert {one for one in container["args"] if one.startswith("--")} <= options
        assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}


def test_the_image_runs_without_root_and_copies_what_there_is() -> None:
    assert re.search(r"^USER 65532", _DOCKERFILE, re.MULTILINE)
    for line in re.findall(r"^COPY (?!--from)(.*)$", _DOCKERFILE, re.MULTILINE):
        *sources, _ = line.split()
        assert [one for one in sources if not (ROOT / one).exists()] == []
        assert [one for one in sources if f"!{one}\n" not in (ROOT / ".dockerignore").read_text()] == []


def test_the_image_checks_all_that_it_downloads_against_hashes() -> None:
    [step] = re.findall(r"^RUN ((?:.*\\\n)*.*)$", _DOCKERFILE, re.MULTILINE)
    installs = [command for command in step.split("&&") if "pip install" in command]
    assert installs
    assert all("--no-deps" in command for command in installs)
    assert all("--require-hashes" in command or "--no-build-isolation ." in command for command in installs)
    [program] = re.findall(r'-c "(.*?)" "\$\{EXTRAS\}"', step)
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, "metrics"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "prometheus-client==" in done.stdout
    assert "--hash=" in done.stdout


@pytest.mark.soak
@pytest.mark.skipif("LANCENS_SOAK" not in os.environ, reason="installs from PyPI: `make soak` does")
def test_the_steps_of_the_image_make_a_working_lancens(tmp_path: Path) -> None:
    [step] = re.findall(r"^RUN ((?:.*\\\n)*.*)$", _DOCKERFILE, re.MULTILINE)
    home = tmp_path / "opt"
    script = step.replace("/tmp/", f"{tmp_path}/").replace("/opt/lancens", str(home)).replace("${EXTRAS}", "metrics")
    script = script.replace("python -m venv", f"{shlex.quote(sys.executable)} -m venv")
    subprocess.run(["/bin/bash", "-ec", script], cwd=ROOT, check=True, capture_output=True, text=True)
    done = subprocess.run([home / "bin/lancens", "--version"], cwd="/", capture_output=True, text=True, check=True)
    assert "lancens" in done.stdout
