"""Names with their values as one setting: `cpu=1,memory=2Gi`.

Read and written like any other form; no name stands there twice. The words of a quota are
those of the API, told again: every command reads settings, and few need the API for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

Pair = tuple[str, str]

_WORD = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_AMOUNT = "[1-9][0-9]{0,17}([KMGTPE]i|[mkMGTPE])?"
_NUMBER = "[1-9][0-9]{0,4}"

MEASURED = ("cpu", "memory", "limitsCpu", "limitsMemory", "storage", "ephemeralStorage")
"""What a quota says as an amount."""

COUNTED = ("pods", "persistentVolumeClaims", "services", "jobs", "secrets", "configMaps")
"""What a quota says as a number."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Any number of `name=value` with commas between them, each of a given shape."""

    pattern: str
    what: str

    @property
    def expected(self) -> str:
        return f"a list with commas, empty for none, each {self.what}, none of them twice"

    def read(self, text: str) -> tuple[Pair, ...]:
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        pairs = tuple(self._pair(part) for part in parts)
        if len(dict(pairs)) != len(pairs):
            raise ValueError(text)
        return pairs

    def write(self, value: tuple[Pair, ...]) -> str:
        return ",".join(f"{name}={said}" for name, said in value)

    def _pair(self, text: str) -> Pair:
        if not re.fullmatch(self.pattern, text):
            raise ValueError(text)
        name, _, value = text.partition("=")
        return name, value


AMOUNTS = Pairs(
    rf"({'|'.join(MEASURED)})={_AMOUNT}|({'|'.join(COUNTED)})={_NUMBER}",
    "an amount of a quota like cpu=1, memory=2Gi or pods=10",
)
LABELS = Pairs(rf"({_DOMAIN}/)?{_WORD}=({_WORD})?", "a label like pool=previews")
