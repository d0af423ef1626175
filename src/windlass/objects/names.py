"""Names of types and objects: GVR, GVK, Key and Identity, and counts of them in messages.

Only keys cross a work queue.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

JSON: TypeAlias = Any
Object: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class GVR:
    """A served type as it stands in a URL; the core group is the empty string."""

    group: str
    version: str
    resource: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def is_named_in(self, entries: frozenset[str]) -> bool:
        """Whether an entry `[group/]resource` of a setting names the type.

        A bare plural names it in every group, so that no namesake in another group slips
        through; `core/` in front means the core group alone.
        """
        return not entries.isdisjoint((self.resource, f"{self.group or 'core'}/{self.resource}"))

    def __str__(self) -> str:
        return f"{self.api_version}/{self.resource}"


@dataclass(frozen=True, slots=True, order=True)
class GVK:
    """A type as it stands in an object."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def of(cls, api_version: str, kind: str) -> GVK:
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Namespace and name; the namespace of a cluster-scoped object is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """What an object is called, in whichever version it is served to us."""

    gvr: GVR
    namespace: str
    name: str

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def identifier(self) -> str:
        """The text of subjects and logs: `{group/}{version}/{resource}/{name}`."""
        return f"{self.gvr}/{self.name}"

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.gvr}/{where}{self.name}"


def format_count(number: int, noun: str, plural: str = "") -> str:
    """`number` with its noun for a message: "1 file", "2 files", "2 policies"."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
