"""What the node says about itself: one line an event on standard error, for people or as JSON for programs."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, TextIO

import msgspec
import structlog

if TYPE_CHECKING:
    from hanse.node.settings import LogSection


class _ToStructlog(logging.Handler):
    """What libraries say by `logging`, in the same form as everything else."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            logger = structlog.get_logger(record.name)
            logger.log(record.levelno, record.getMessage(), exc_info=record.exc_info)
        except Exception:  # noqa: BLE001
            self.handleError(record)


def set_up(settings: LogSection, stream: TextIO | None = None) -> None:
    """For the whole process; libraries are heard from a warning on, unless the level is debug."""
    out = stream if stream is not None else sys.stderr
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    as_json = settings.format == "json"
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if as_json:
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_json)]
    else:
        plain = structlog.dev.plain_traceback
        processors.append(structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=plain, pad_event_to=0))
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers = [_ToStructlog()]
    root.setLevel(level if level <= logging.DEBUG else max(level, logging.WARNING))


def _json(value: Any, **_: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
