"""Cluster-wide features that a bundle may use: storage classes, drivers, schedulers, annotations.

Volumes, nodes and networks are shared by the whole cluster, and a claim, an inline volume or
an annotation is enough to reach them. Claims may use the `AllowedStorageClasses`; the rest is
closed until the administrator lists it in the settings.

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
    """The StorageClasses that claims may use."""

    allowed: frozenset[str] = frozenset()
    default: str = ""  # of claims without a class; empty where the cluster has no default


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """What bundles may use, from the settings of the administrator."""

    storage_classes: AllowedStorageClasses = field(default_factory=AllowedStorageClasses)
    csi_drivers: frozenset[str] = frozenset()  # for inline volumes
    schedulers: frozenset[str] = frozenset()  # besides default-scheduler
    allowed_annotations: tuple[str, ...] = ()  # prefixes of keys
    denied_annotations: tuple[str, ...] = ()  # prefixes of keys; they win


def classes(observed: Iterable[Object], listed: Collection[str]) -> AllowedStorageClasses:
    """The StorageClasses that may be used: those `listed`, else those with a provisioner.

    A class without a provisioner exists only to bind volumes that were created by hand, and so
    does a class name without any StorageClass behind it.
    """
    storage_classes = list(observed)
    provisioning = {
        _name(storage_class)
        for storage_class in storage_classes
        if storage_class.get("provisioner") != _NO_PROVISIONER
    }
    defaults = sorted(
        (storage_class for storage_class in storage_classes if _is_default(storage_class)),
        key=_name,
    )
    # Of several defaults the newest, as the API server chooses; then by name.
    newest = max(defaults, key=_created, default=None)
    return AllowedStorageClasses(frozenset(listed or provisioning), _name(newest) if newest else "")


def _name(storage_class: Object) -> str:
    return str(storage_class["metadata"]["name"])


def _created(storage_class: Object) -> str:
    return str(storage_class["metadata"].get("creationTimestamp") or "")


def _is_default(storage_class: Object) -> bool:
    annotations = storage_class["metadata"].get("annotations") or {}
    return any(annotations.get(annotation) == "true" for annotation in _DEFAULT_ANNOTATIONS)
