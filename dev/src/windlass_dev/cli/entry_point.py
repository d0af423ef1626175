"""`windlass dev` as a whole: the entry point that joins it to the command line.

Importing the other modules registers their commands.
"""

from __future__ import annotations

from windlass_dev.cli import demo, dev, servers

__all__ = ["app", "demo", "servers"]

app = dev.app
