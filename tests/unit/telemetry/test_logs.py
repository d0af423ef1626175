"""Log lines: format, levels, and no secret in any of them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from windlass.base.redaction import process
from windlass.telemetry import logs
from windlass.telemetry.log_setup import LogFormat

SECRET = 'tok"en\nwith-quotes'


@pytest.fixture(autouse=True)
def untouched_logging() -> Iterator[None]:
    """Logging restored afterwards, and a registered secret meanwhile."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    process.add(SECRET)
    yield
    process.discard(SECRET)
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    """The written records."""
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_json_is_the_form_without_a_terminal() -> None:
    """Away from a terminal each record is one JSON object with level, time, fields."""
    out = io.StringIO()
    logs.configure("auto", "info", out)
    structlog.get_logger().info("push", files=3)
    (line,) = lines(out)
    assert (line["message"], line["level"], line["files"]) == ("push", "info", 3)
    assert line["timestamp"].endswith("Z")


def test_message_field_does_not_replace_the_message() -> None:
    """A field called message survives beside the record's own message."""
    out = io.StringIO()
    logs.configure("json", "info", out)
    structlog.get_logger().info("push", message="rejected")
    (line,) = lines(out)
    assert (line["message"], line["detail"]) == ("push", "rejected")


def test_terminal_gets_colored_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal gets colored lines unless colors are turned off."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    logs.configure("auto", "info", out)
    structlog.get_logger().info("push", files=3)
    assert "\x1b[" in out.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    logs.configure("auto", "info", plain)
    structlog.get_logger().info("push", files=3)
    assert "files=3" in plain.getvalue()
    assert "\x1b[" not in plain.getvalue()


def test_text_without_terminal_has_no_colors() -> None:
    """Text in a file is plain, one line per record."""
    out = io.StringIO()
    logs.configure("text", "info", out)
    structlog.get_logger().info("push")
    assert "\x1b[" not in out.getvalue()
    assert out.getvalue().count("\n") == 1


def test_records_below_the_level_are_dropped() -> None:
    """Nothing below the configured level is written."""
    out = io.StringIO()
    logs.configure("json", "warning", out)
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    assert [line["message"] for line in lines(out)] == ["loud"]


@pytest.mark.parametrize("form", ["json", "text"])
def test_secrets_are_redacted_everywhere(form: LogFormat) -> None:
    """In messages, fields, nested values, bytes, objects, errors."""
    out = io.StringIO()
    logs.configure(form, "info", out)
    log = structlog.get_logger()
    log.info(f"at {SECRET}", a={"b": [SECRET, {SECRET: SECRET}]}, c=SECRET.encode(), d=(SECRET,))
    log.info("error", error=ValueError(SECRET), url="https://u:p@host/x")
    try:
        raise ValueError(f"refused {SECRET}")
    except ValueError:
        log.exception("broke")
    text = out.getvalue()
    assert "with-quotes" not in text
    assert "u:p@" not in text
    assert text.count("[redacted]") >= 8


def test_libraries_write_the_same_way() -> None:
    """A library's record is JSON as well, redacted as well, from warning on."""
    out = io.StringIO()
    logs.configure("json", "debug", out)
    logging.getLogger("some.library").warning("refused %s", SECRET)
    logging.getLogger("chatty").info("nothing")
    (line,) = lines(out)
    assert line["message"] == "refused [redacted]"
    assert (line["level"], line["logger"]) == ("warning", "some.library")


def test_configuring_again_replaces() -> None:
    """A second configuration writes to the new stream only, once."""
    first, second = io.StringIO(), io.StringIO()
    logs.configure("json", "info", first)
    logs.configure("json", "info", second)
    logging.getLogger("x").error("once")
    structlog.get_logger().info("own")
    assert first.getvalue() == ""
    assert len(lines(second)) == 2


def test_control_characters_in_a_record_are_escaped() -> None:
    """Text from outside cannot move the cursor or color a line."""
    out = io.StringIO()
    logs.configure("text", "info", out)
    structlog.get_logger().warning("plugin failed", message="\x1b[2J\x9bgone")
    assert "\\u001b[2J\\u009bgone" in out.getvalue()
    assert "\x1b" not in out.getvalue()
