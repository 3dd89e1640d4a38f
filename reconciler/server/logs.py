"""Structured logs: one JSON object a line, on stderr. No header, query or body is ever part of one."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_LEVELS = {"reconciler.server": logging.INFO, "uvicorn.error": logging.WARNING, "asyncio": logging.ERROR}

logger = logging.getLogger("reconciler.server")


class JsonLines(logging.Formatter):
    """Writes a record's message as ``event``, with the fields given as ``extra={"fields": {…}}`` beside it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0] is not None:
            # The text of an unforeseen error may hold anything; where it happened does not.
            line["error"] = record.exc_info[0].__name__
            line["at"] = _place(record)
        return json.dumps(line)


def _place(record: logging.LogRecord) -> str:
    assert record.exc_info is not None  # noqa: S101 - asked by the caller
    trace = record.exc_info[2]
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""


def log_to_stderr() -> None:
    """Send the server's log, and uvicorn's, to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name, level in _LEVELS.items():
        log = logging.getLogger(name)
        log.handlers = [handler]
        log.setLevel(level)
        log.propagate = False
