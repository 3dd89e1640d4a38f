"""Spans of OpenTelemetry, where the process has set that up; otherwise nothing is loaded or sent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_COMMANDS = """
import sys
from reconciler.cli import main

def run(*arguments):
    try:
        main(arguments)
    except SystemExit:
        pass

run("plan")
print("LOADED", [name for name in sys.modules if name.startswith("opentelemetry")])
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
for arguments in (["plan"], ["plan", "s3cret-name.yaml"]):
    exporter.clear()
    run(*arguments)
    print("COMMAND")
    for span in exporter.get_finished_spans():
        print("SPAN", span.name, dict(span.attributes), span.status.status_code.name)
"""
MANIFEST = "version: 1\nname: shop\ncatalogs:\n  lake: {impl: dir, config: {root: ./lake}, namespaces: {a: {}}}\n"


@pytest.mark.end_to_end
def test_spans_are_made_where_the_process_asks_for_them(tmp_path: Path) -> None:
    (tmp_path / "lancens.yaml").write_text(MANIFEST)
    command = [sys.executable, "-c", _COMMANDS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    before, *commands = done.stdout.split("COMMAND\n")
    assert "LOADED []" in before
    planned, failed = ([line for line in text.splitlines() if line.startswith("SPAN")] for text in commands)
    assert any("lancens scan {'lancens.catalogs': ('lake',)}" in span for span in planned), planned
    assert planned[-1].startswith("SPAN lancens plan ")
    assert "'error.type': " in failed[-1]
    assert failed[-1].endswith("ERROR")
    assert "s3cret-name" not in "".join(failed)
