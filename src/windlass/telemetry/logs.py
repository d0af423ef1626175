"""Configures logging: format, level and redaction of all records.

Our own records and those of libraries pass the same processors and leave on stderr:
colored lines for a person at a terminal, JSON lines otherwise. Redaction comes after
everything that adds text and before the line is put together, where quoting could
still hide a secret from it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from windlass.base.redaction import process, visible
from windlass.telemetry.log_setup import LogFormat, LogLevel

__all__ = ["LogFormat", "LogLevel", "configure", "redact"]

_MAX_CHARS = 16 * 1024
_MAX_DEPTH = 8


def configure(format: LogFormat, level: LogLevel, stream: TextIO | None = None) -> None:  # noqa: A002
    """Send all records of this process to `stream` (stderr) in this format, from this level."""
    out = stream or sys.stderr
    number = logging.getLevelNamesMapping()[level.upper()]
    final = [redact, *_renderer(format, out)]
    structlog.configure(
        processors=[*_common(), *final],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    _adopt_libraries(final, number, out)


def redact(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Every text in the record without secrets, however deep it stands."""
    return {process.clean(key): _cleaned(value, 0) for key, value in event.items()}


def _cleaned(value: object, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return process.clean(str(value), limit=_MAX_CHARS)
    if depth < _MAX_DEPTH and isinstance(value, Mapping):
        return {process.clean(str(key)): _cleaned(item, depth + 1) for key, item in value.items()}
    if depth < _MAX_DEPTH and isinstance(value, Sequence | set | frozenset) and _is_group(value):
        return [_cleaned(item, depth + 1) for item in value]
    return process.clean(_as_text(value), limit=_MAX_CHARS)


def _is_group(value: object) -> bool:
    return not isinstance(value, bytes | bytearray | memoryview)


def _as_text(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    return str(value)


def _common() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
    ]


def _renderer(format: LogFormat, out: TextIO) -> list[Processor]:  # noqa: A002
    if format == "json" or (format == "auto" and not out.isatty()):
        return [_as_json]
    colors = out.isatty() and "NO_COLOR" not in os.environ
    plain = structlog.dev.plain_traceback
    return [_visible, structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]


def _visible(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Texts that no terminal obeys; groups are shown by repr, which escapes them itself."""
    return {
        key: visible(value) if isinstance(value, str) else value for key, value in event.items()
    }


def _as_json(_: WrappedLogger, __: str, event: EventDict) -> str:
    # Log stores look for the text under `message`; a field of that name must not hide it.
    if "message" in event:
        event["detail"] = event.pop("message")
    line = {"message": event.pop("event", ""), **event}
    return orjson.dumps(line, default=str).decode()


def _adopt_libraries(final: list[Processor], level: int, out: TextIO) -> None:
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_common(), structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries are chatty below warning, and some of them print what they send.
    root.setLevel(max(level, logging.WARNING))
