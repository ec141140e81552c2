"""Logs: one JSON object a line, with the gang and the pod that it is about; text on a terminal.

Say ``logger.info("...", extra={"gang": "train/llm", "pod": "llm-0"})``; every extra becomes a key.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import msgspec

from extender.service.settings import LogFormat
from extender.texts import clip

# Bytes of a message, and of each key beside it, in one line; traces of faults of ours are written whole.
LONGEST_MESSAGE, LONGEST_EXTRA = 4096, 512

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": clip(record.getMessage(), LONGEST_MESSAGE),
        }
        fields |= _extras(record)
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields, enc_hook=str).decode()


class TextLines(logging.Formatter):
    """A record for people, its extras behind it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = super().format(record)
        extras = [f"{key}={value}" for key, value in _extras(record).items()]
        return f"{line}  [{' '.join(extras)}]" if extras else line

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the line without its trace."""
        record.message = clip(record.message, LONGEST_MESSAGE)
        return super().formatMessage(record)


def _extras(record: logging.LogRecord) -> dict[str, object]:
    """Return what was said beside the message."""
    found = ((key, value) for key, value in vars(record).items() if key not in _OWN)
    return {key: clip(value, LONGEST_EXTRA) if isinstance(value, str) else value for key, value in found}


def set_up_logs(*, level: str, form: LogFormat) -> None:
    """Send all logs of this process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    text = TextLines("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if form == "json" else text)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("uvicorn.error", "aiohttp", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
