"""What the API server has to know about a kind besides its fields: names, scope, columns.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windlass.api.schema.resource import VERSION, Resource
from windlass.objects.names import GVK, GVR, Object


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`; `wide` ones show with `-o wide` only."""

    name: str
    path: str
    description: str
    type: Literal["string", "integer", "date"] = "string"
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """A declared kind."""

    resource: type[Resource]
    plural: str
    short_names: tuple[str, ...]
    namespaced: bool
    columns: tuple[Column, ...]
    description: str
    sample: Object

    @property
    def name(self) -> str:
        return self.resource.__name__

    @property
    def singular(self) -> str:
        return self.name.lower()

    @property
    def gvr(self) -> GVR:
        return GVR(self.resource.group.name, VERSION, self.plural)

    @property
    def gvk(self) -> GVK:
        return GVK(self.resource.group.name, VERSION, self.name)

    @property
    def crd_name(self) -> str:
        return f"{self.plural}.{self.resource.group.name}"

    @property
    def categories(self) -> tuple[str, ...]:
        return self.resource.group.categories


def condition_column(
    name: str, condition: str, part: Literal["status", "message"], description: str
) -> Column:
    """One part of a condition."""
    return Column(name, f'.status.conditions[?(@.type=="{condition}")].{part}', description)


READY_COLUMN = condition_column("Ready", "Ready", "status", "Whether the object does its work.")
AGE_COLUMN = Column("Age", ".metadata.creationTimestamp", "Time since creation.", type="date")


def message_column(*, wide: bool) -> Column:
    """The message of Ready."""
    path = '.status.conditions[?(@.type=="Ready")].message'
    return Column("Status", path, "Why, in words.", wide=wide)


def objects_column(description: str) -> Column:
    """A count of objects."""
    return Column("Objects", ".status.objects", description, type="integer")
