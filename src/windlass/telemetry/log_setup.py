"""Loads structlog without rich, and declares log formats and levels.

Apart from `logs` because that one imports structlog. structlog imports rich, if it is
installed, to format tracebacks. A server needs none, and rich with its highlighter takes
megabytes of every process. It can still be imported later.
"""

from __future__ import annotations

import sys
from typing import Literal, TypeAlias

LogFormat: TypeAlias = Literal["auto", "text", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


_HIDDEN = "rich"


def load_structlog() -> None:
    """Import structlog now; without effect where it, or rich, was imported before."""
    if "structlog" in sys.modules or _HIDDEN in sys.modules:
        return
    sys.modules[_HIDDEN] = None  # type: ignore[assignment] # how an import is made to fail
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules[_HIDDEN]
