"""Keys: which object of a kind. Only keys cross a work queue."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Namespace and name; the namespace of a cluster-scoped object is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
