"""Spans of OpenTelemetry, where the process has set that up; otherwise nothing is loaded or sent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_TRACED = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import sys
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
from reconciler.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
for span in exporter.get_finished_spans():
    print("SPAN", span.name, dict(span.attributes), span.status.status_code.name)
"""
_PLAIN = """
import sys
from reconciler.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
MANIFEST = "version: 1\nname: shop\ncatalogs:\n  lake: {impl: dir, config: {root: ./lake}, namespaces: {a: {}}}\n"


def _run(code: str, folder: Path, *arguments: str) -> str:
    (folder / "lancens.yaml").write_text(MANIFEST)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_each_stage_is_a_span_of_the_command(tmp_path: Path) -> None:
    said = _run(_TRACED, tmp_path, "plan")
    spans = [line for line in said.splitlines() if line.startswith("SPAN")]
    assert any("lancens scan {'lancens.catalogs': ('lake',)}" in span for span in spans), spans
    assert spans[-1].startswith("SPAN lancens plan ")


def test_an_error_has_its_class_and_no_text(tmp_path: Path) -> None:
    said = _run(_TRACED, tmp_path, "plan", "s3cret-name.yaml")
    assert "'error.type': " in said
    assert "s3cret-name" not in said
    assert said.rstrip().endswith("ERROR")


def test_nothing_is_loaded_by_lancens_itself(tmp_path: Path) -> None:
    assert _run(_PLAIN, tmp_path, "plan").rstrip().endswith("[]")
