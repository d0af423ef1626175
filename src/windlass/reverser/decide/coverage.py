"""Which changes the API server sends an admission request for.

Where it sends none, no true record could contradict a forged one, so no record counts at
all. That is judged by the watched object, never by what a request says of itself.

| Change | Covered |
|---|---|
| of a kind that configures admission | no: the API server asks no webhook about these |
| of Events, Leases and reviews | no: our webhook leaves them out |
| in a namespace that our webhook leaves out, or of that Namespace itself | no |
| of a Pod that is bound to a node by it (`pods/binding`) | no |
| deletion of a Pod by the eviction API (`pods/eviction`) | no: it skips admission of the delete |
| any other | yes |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windlass.objects.names import GVR, Identity, Object

Gap = Literal["KindNotCovered", "NamespaceNotCovered", "SubresourceNotCovered"]

_GROUPS = frozenset(
    ("admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io")
)
_TYPES = frozenset((("", "events"), ("events.k8s.io", "events"), ("coordination.k8s.io", "leases")))
_NAMESPACES = ("", "namespaces")
_PODS = ("", "pods")
_EVICTED = ("DisruptionTarget", "EvictionByEvictionAPI")


@dataclass(frozen=True, slots=True)
class Coverage:
    """What our webhook configuration covers; `excluded` are the namespaces that it leaves out."""

    excluded: frozenset[str] = frozenset()

    def gap(self, identity: Identity) -> Gap | None:
        """Why no request is sent for any change of that object; None if one is."""
        type_ = (identity.gvr.group, identity.gvr.resource)
        if identity.gvr.group in _GROUPS or type_ in _TYPES:
            return "KindNotCovered"
        # A webhook's namespaceSelector is matched against the labels of a Namespace itself.
        place = identity.name if type_ == _NAMESPACES else identity.namespace
        return "NamespaceNotCovered" if place in self.excluded else None


def is_bound(gvr: GVR, obj: Object) -> bool:
    """Whether `obj` is a Pod that has a node."""
    spec = obj.get("spec")
    return _is_pod(gvr) and isinstance(spec, dict) and bool(spec.get("nodeName"))


def is_evicted(gvr: GVR, obj: Object) -> bool:
    """Whether `obj` is a Pod that the eviction API has chosen; it says so before it deletes."""
    status = obj.get("status")
    rows = status.get("conditions") if _is_pod(gvr) and isinstance(status, dict) else None
    return any(
        isinstance(row, dict) and (row.get("type"), row.get("reason")) == _EVICTED
        for row in (rows if isinstance(rows, list) else ())
    )


def _is_pod(gvr: GVR) -> bool:
    return (gvr.group, gvr.resource) == _PODS
