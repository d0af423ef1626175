"""Modules that a server loads to write its log."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import sys
from windlass.telemetry import log_setup
log_setup.load_structlog()
from windlass.telemetry import logs
logs.configure("json", "info")
import structlog
try:
    raise ValueError("drawn by hand")
except ValueError:
    structlog.get_logger().exception("failed")
assert not any(name.partition(".")[0] in ("rich", "pygments") for name in sys.modules)
import rich
"""


def test_a_server_logs_without_rich() -> None:
    """Tracebacks are still written, and rich can be imported afterwards."""
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "drawn by hand" in done.stderr
