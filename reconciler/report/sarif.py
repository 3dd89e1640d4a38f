"""Render findings as SARIF 2.1.0, for pull requests and code scanning.

A finding is located at the line of its table's block in the manifest, or at the first line of the manifest, because
services refuse results without a place in a file. Its logical location is the table's address. Its fingerprint stays
the same from run to run, even if its words or lines change.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from reconciler.auditor.document import AuditDocument, Finding, RuleInfo
from reconciler.model import display
from reconciler.model.json_encoding import encode_json
from reconciler.pipeline.rows import ReadFailure

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_FINGERPRINT = "lancensFinding/v1"
# GitHub refuses a run with more results; the most severe findings come first.
_MOST_RESULTS = 25_000
# This would be a link in a plain-text message (SARIF 2.1.0, section 3.11.6).
_LINK = re.compile(r"\[(?=[^\[\]]*\]\()")


def render_sarif(document: AuditDocument) -> str:
    """Return the findings as a SARIF log with one run."""
    findings = document.findings[:_MOST_RESULTS]
    fallback = document.manifest.files[0] if document.manifest.files else "lancens.yaml"
    positions = {rule.name: position for position, rule in enumerate(document.settings.rules)}
    repeats: Counter[str] = Counter()
    results = []
    for finding in findings:
        fingerprint = finding.fingerprint
        repeats[fingerprint] += 1
        results.append(
            {
                "ruleId": finding.rule,
                **({"ruleIndex": positions[finding.rule]} if finding.rule in positions else {}),
                "level": finding.severity.value,
                "message": _message(f"{_address(finding)}: {finding.reason.rstrip('.')}. {finding.remedy}"),
                "locations": [_location(finding, fallback)],
                "partialFingerprints": {_FINGERPRINT: f"{fingerprint}:{repeats[fingerprint]}"},
                "properties": _properties(finding),
            }
        )
    left_out = document.findings_left_out + len(document.findings) - len(findings)
    run = {
        "tool": {
            "driver": {
                "name": "lancens",
                "version": document.lancens_version,
                "rules": [_rule(rule) for rule in document.settings.rules],
            }
        },
        "automationDetails": {"id": f"lancens-audit/{display.printable(document.manifest.name)}/{document.run_id}"},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": document.complete,
                "startTimeUtc": f"{document.started:%Y-%m-%dT%H:%M:%SZ}",
                "endTimeUtc": f"{document.finished:%Y-%m-%dT%H:%M:%SZ}",
                "toolExecutionNotifications": [
                    *map(_notification, document.failures),
                    *_omission_notifications(left_out),
                    *({"level": "note", "message": _message(note)} for note in document.notes),
                ],
            }
        ],
        "results": results,
    }
    return display.json_text(encode_json({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, 1) + "\n")


def _rule(rule: RuleInfo) -> dict[str, Any]:
    """Return the descriptor of a rule (section 3.49)."""
    return {
        "id": rule.name,
        "shortDescription": _message(rule.title),
        "fullDescription": _message(rule.help),
        "help": {"text": rule.help, "markdown": rule.help},
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _location(finding: Finding, fallback: str) -> dict[str, Any]:
    """Return the location of a finding in manifest and catalog (section 3.28)."""
    source = finding.source
    address = _address(finding)
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(source.file if source else fallback)},
            "region": {"startLine": max(source.line, 1) if source else 1},
        },
        "logicalLocations": [
            {"fullyQualifiedName": address, "name": display.name(finding.name) or address, "kind": "resource"}
        ],
    }


def _uri(file: str) -> str:
    """Return the URI of a manifest's file."""
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix(), errors="surrogateescape")


def _address(finding: Finding) -> str:
    return display.address(finding.catalog, *finding.identifier)


def _properties(finding: Finding) -> dict[str, Any]:
    values = {"catalog": finding.catalog, "location": finding.location, "owner": finding.owner}
    texts = {key: display.printable(value) for key, value in values.items() if value is not None}
    details = {display.key(key): display.value(value) for key, value in finding.details.items()}
    return {**texts, "remedy": display.printable(finding.remedy), **({"details": details} if details else {})}


def _notification(failure: ReadFailure) -> dict[str, Any]:
    """Return a read failure as a notification of the tool (section 3.58)."""
    address = display.address(failure.catalog, *failure.namespace)
    return {
        "level": "error",
        "message": _message(f"{address} could not be read, and nothing is known of what is in it: {failure.message}"),
        "locations": [{"logicalLocations": [{"fullyQualifiedName": address, "kind": "namespace"}]}],
    }


def _omission_notifications(left_out: int) -> list[dict[str, Any]]:
    """Return a warning about ``left_out`` findings, nothing if there are none."""
    if not left_out:
        return []
    text = f"{left_out:,} more findings are not in this file; the report counts all of them."
    return [{"level": "warning", "message": _message(text)}]


def _message(text: str) -> dict[str, str]:
    return {"text": _LINK.sub(r"\\[", display.printable(text))}
