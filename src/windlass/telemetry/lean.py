"""Loads the logging library without what it would draw with.

structlog looks for rich when it is imported, to draw tracebacks. A server draws none, and
rich with its highlighter takes megabytes of every process. Whoever needs rich later, at a
person's terminal, can still import it.
"""

from __future__ import annotations

import sys

_HIDDEN = "rich"


def load() -> None:
    """Import structlog now; without effect where it, or rich, was imported before."""
    if "structlog" in sys.modules or _HIDDEN in sys.modules:
        return
    sys.modules[_HIDDEN] = None  # type: ignore[assignment] # how an import is made to fail
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules[_HIDDEN]
