"""The file of `--metrics`, read by the parser that Prometheus' users have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families

__all__ = ["samples"]

_SECRETS = ("s3cret-value", "hunter2-correct-horse")
"""In the catalogs of the tests that read metrics."""


def samples(name: str, *labels: str) -> Mapping[tuple[str, ...], float]:
    """Return the values of a metric by the values of some labels."""
    text = Path("run.prom").read_text()
    assert not any(secret in text for secret in _SECRETS)
    assert text.endswith("# EOF\n")
    return {
        tuple(sample.labels[label] for label in labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }
