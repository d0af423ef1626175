"""Rules that refuse volume claims which choose an existing volume instead of requesting one.

| A claim with | would get |
|---|---|
| `volumeName`, `selector` | a volume that others created |
| `dataSource`, `dataSourceRef` | a copy of a volume or snapshot |
| an empty class, or one that does not provision | any hand-made volume of that class |
| annotations of the volume binder | whatever binding they claim |

The rules hold for claims, for the templates of a StatefulSet and for ephemeral volumes.
Objects have the shape that `shapes` requires.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.environments.bundle import kinds
from windlass.environments.bundle.cluster_access import AllowedStorageClasses
from windlass.environments.bundle.shapes import Fault, join_path
from windlass.objects.names import Object

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_BINDER = (
    "pv.kubernetes.io/",
    "volume.alpha.kubernetes.io/",
    "volume.beta.kubernetes.io/",
    "volume.kubernetes.io/",
)
"""Prefixes of annotations that the volume binder and provisioners write and trust."""

_VOLUME_CHOICES = {
    "volumeName": "a claim must not choose its volume; remove the field",
    "selector": "a claim must not choose its volume; remove the field",
    "dataSource": "a claim must not copy another volume; remove the field",
    "dataSourceRef": "a claim must not copy another volume; remove the field",
}
_CLASS = "storageClassName"
_SHOWN_CLASSES = 10


def claim_faults(obj: Object, classes: AllowedStorageClasses) -> Iterator[Fault]:
    """Every refused field of every claim in one allowed object."""
    for path, claim in _claims_in(obj):
        for inner, why in _faults_of_claim(claim, classes):
            yield join_path(path, inner) if path else inner, why


def _claims_in(obj: Object) -> Iterator[tuple[str, Object]]:
    """The claims of an object, each with its path."""
    if obj.get("kind") == "PersistentVolumeClaim":
        yield "", obj
    spec = obj.get("spec") or {}
    if obj.get("kind") == "StatefulSet":
        for index, template in enumerate(spec.get("volumeClaimTemplates") or ()):
            yield f"spec.volumeClaimTemplates[{index}]", template
    volumes = (kinds.pod_spec(obj) or {}).get("volumes") or ()
    for index, volume in enumerate(volumes):
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is not None:
            yield (
                f"{kinds.pod_spec_path(obj)}.volumes[{index}].ephemeral.volumeClaimTemplate",
                template,
            )


def _faults_of_claim(claim: Object, classes: AllowedStorageClasses) -> Iterator[Fault]:
    spec = claim.get("spec") or {}
    for name, why in _VOLUME_CHOICES.items():
        # An empty selector selects every volume; an empty name selects none.
        if spec.get(name) is not None and spec[name] != "":
            yield f"spec.{name}", why
    for key in (claim.get("metadata") or {}).get("annotations") or {}:
        if key == _BETA_CLASS:
            yield join_path("metadata.annotations", key), f"use spec.{_CLASS} instead"
        elif key.startswith(_BINDER):
            why = "this annotation is reserved for the volume binder; remove it"
            yield join_path("metadata.annotations", key), why
    yield from _class_faults(spec.get(_CLASS), classes)


def _class_faults(name: str | None, classes: AllowedStorageClasses) -> Iterator[Fault]:
    path = f"spec.{_CLASS}"
    if name == "":
        yield path, f"must not be empty, which selects pre-provisioned volumes; {_remedy(classes)}"
    elif name is None and not classes.default:
        yield path, f"the cluster has no default StorageClass; {_remedy(classes)}"
    elif name is None and classes.default not in classes.allowed:
        yield path, f"the default StorageClass is not allowed; {_remedy(classes)}"
    elif name is not None and name not in classes.allowed:
        yield path, f"this StorageClass is not allowed; {_remedy(classes)}"


def _remedy(classes: AllowedStorageClasses) -> str:
    if not classes.allowed:
        return "no StorageClass with a provisioner is available; ask the administrator for one"
    return f"set it to one of: {', '.join(sorted(classes.allowed)[:_SHOWN_CLASSES])}"
