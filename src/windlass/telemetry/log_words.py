"""The words that choose how log records look and which of them are written.

Apart from `logs`, so that whoever only needs the words does not load a logging library.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

LogFormat: TypeAlias = Literal["auto", "text", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
