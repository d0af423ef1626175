"""What a bundle may use outside its namespace: storage, CSI drivers, schedulers, annotations.

Volumes, nodes and networks are shared by the whole cluster, and a claim, an inline volume or
an annotation is enough to get at them. Claims may use the `AllowedStorageClasses`; the rest is
closed until the administrator lists it.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from windlass.objects.names import Object

_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


@dataclass(frozen=True, slots=True)
class AllowedStorageClasses:
    """The StorageClasses that claims may use; `default` is the one of claims that name none."""

    allowed: frozenset[str] = frozenset()
    default: str = ""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """What bundles may use; annotations are named by how their keys begin."""

    storage_classes: AllowedStorageClasses = field(default_factory=AllowedStorageClasses)
    csi_drivers: frozenset[str] = frozenset()
    schedulers: frozenset[str] = frozenset()
    allowed_annotations: tuple[str, ...] = ()
    denied_annotations: tuple[str, ...] = ()


def classes(observed: Iterable[Object], listed: Collection[str]) -> AllowedStorageClasses:
    """The classes of a cluster that may be used: those `listed`, else those that provision.

    A class that provisions nothing exists only to bind volumes that somebody made by hand,
    and so does a class name without any StorageClass behind it.
    """
    found = list(observed)
    provisioning = {_name(one) for one in found if one.get("provisioner") != _NO_PROVISIONER}
    defaults = sorted((one for one in found if _is_default(one)), key=_name)
    # As the API server chooses where there are several: the newest.
    newest = max(defaults, key=_created, default=None)
    return AllowedStorageClasses(frozenset(listed or provisioning), _name(newest) if newest else "")


def _name(storage_class: Object) -> str:
    return str(storage_class["metadata"]["name"])


def _created(storage_class: Object) -> str:
    return str(storage_class["metadata"].get("creationTimestamp") or "")


def _is_default(storage_class: Object) -> bool:
    annotations = storage_class["metadata"].get("annotations") or {}
    return any(annotations.get(mark) == "true" for mark in _DEFAULT_ANNOTATIONS)
