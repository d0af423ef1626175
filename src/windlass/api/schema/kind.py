"""Declaration of a kind for the API server: names, scope, printer columns, sample.

Each module in `api.kinds` declares one; `install.crd` and `install.reference_pages` read it.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windlass.api.schema.resource import VERSION, Resource
from windlass.objects.names import GVK, GVR, Object


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column of `kubectl get`."""

    name: str
    path: str  # JSONPath into the object
    description: str
    type: Literal["string", "integer", "date"] = "string"
    wide: bool = False  # shown with `-o wide` only


@dataclass(frozen=True, slots=True)
class Kind:
    """A declared kind; its other names follow from `resource`."""

    resource: type[Resource]  # the type of its objects; its class name is the name of the kind
    plural: str  # resource name in URLs and RBAC rules
    short_names: tuple[str, ...]  # for kubectl
    namespaced: bool  # False for a cluster-scoped kind
    columns: tuple[Column, ...]  # of `kubectl get`, in order
    description: str  # one sentence, for the CRD and the reference page
    sample: Object  # metadata and spec of a minimal object

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
    """A column with the status or the message of a condition."""
    return Column(name, f'.status.conditions[?(@.type=="{condition}")].{part}', description)


READY_COLUMN = condition_column("Ready", "Ready", "status", "Whether the object is ready.")
AGE_COLUMN = Column("Age", ".metadata.creationTimestamp", "Time since creation.", type="date")


def message_column(*, wide: bool) -> Column:
    """The column `Status` with the message of the condition Ready."""
    path = '.status.conditions[?(@.type=="Ready")].message'
    return Column("Status", path, "Message of the condition Ready.", wide=wide)


def objects_column(description: str) -> Column:
    """The column `Objects` with a count from the status."""
    return Column("Objects", ".status.objects", description, type="integer")
