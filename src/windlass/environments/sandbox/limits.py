"""How much one render may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Time by the clock on the wall, memory, and what may be printed."""

    seconds: float = 60.0
    memory_bytes: int = 1 << 30
    output_bytes: int = 16 << 20
