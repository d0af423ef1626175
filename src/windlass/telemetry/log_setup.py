"""What a process decides about its logs before structlog is loaded.

Apart from `logs` because that one imports structlog. structlog looks for rich when it is
imported, to draw tracebacks. A server draws none, and rich with its highlighter takes
megabytes of every process. Whoever needs rich later, at a person's terminal, can still
import it.
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
