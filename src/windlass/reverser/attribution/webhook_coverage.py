"""Which changes the API server sends an admission request for, and whether any arrive.

Read by `record_join` and by the streams. Where the API server sends no request, no true record
could contradict a forged one, so no record counts at all. That is decided by the watched object,
never by what a request claims about itself.

| Change | Covered |
|---|---|
| of a kind that configures admission | no: the API server calls no webhook for these |
| of Events, Leases and reviews | no: our webhook leaves them out |
| in a namespace that our webhook leaves out, or of that Namespace itself | no |
| of a Pod that is bound to a node by it (`pods/binding`) | no |
| deletion of a Pod by the eviction API (`pods/eviction`) | no: it skips admission of the delete |
| any other | yes |

`AttributionState` is the reason of the condition Attributed: Starting until records are
complete for the first time, then Receiving, and NoAdmissionCalls by this table:

| Observed                                         | Receiving |
|--------------------------------------------------|-----------|
| nothing yet                                      | unknown   |
| an admission call                                | yes       |
| writes over `patience` seconds, and not one call | no        |

One write without a call proves nothing: some are left out on purpose. Inactive users prove
nothing either, so time counts from the first write without a call.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windlass.objects.names import GVR, Identity, Object

CoverageGap = Literal["KindNotCovered", "NamespaceNotCovered", "SubresourceNotCovered"]

_UNCOVERED_GROUPS = frozenset(
    ("admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io")
)
_UNCOVERED_TYPES = frozenset(
    (("", "events"), ("events.k8s.io", "events"), ("coordination.k8s.io", "leases"))
)
_NAMESPACES = ("", "namespaces")
_PODS = ("", "pods")
_EVICTED_CONDITION = ("DisruptionTarget", "EvictionByEvictionAPI")


@dataclass(frozen=True, slots=True)
class WebhookCoverage:
    """What our webhook configuration covers: all but the excluded namespaces and types."""

    excluded_namespaces: frozenset[str] = frozenset()

    def gap(self, identity: Identity) -> CoverageGap | None:
        """Why no request is sent for any change of that object; None if one is."""
        type_ = (identity.gvr.group, identity.gvr.resource)
        if identity.gvr.group in _UNCOVERED_GROUPS or type_ in _UNCOVERED_TYPES:
            return "KindNotCovered"
        # A webhook's namespaceSelector is matched against the labels of a Namespace itself.
        namespace = identity.name if type_ == _NAMESPACES else identity.namespace
        return "NamespaceNotCovered" if namespace in self.excluded_namespaces else None


def is_bound(gvr: GVR, obj: Object) -> bool:
    """Whether `obj` is a Pod that has a node."""
    spec = obj.get("spec")
    return _is_pod(gvr) and isinstance(spec, dict) and bool(spec.get("nodeName"))


def is_evicted(gvr: GVR, obj: Object) -> bool:
    """Whether `obj` is a Pod that the eviction API will delete; it sets a condition first."""
    status = obj.get("status")
    conditions = status.get("conditions") if _is_pod(gvr) and isinstance(status, dict) else None
    return any(
        isinstance(condition, dict)
        and (condition.get("type"), condition.get("reason")) == _EVICTED_CONDITION
        for condition in (conditions if isinstance(conditions, list) else ())
    )


def _is_pod(gvr: GVR) -> bool:
    return (gvr.group, gvr.resource) == _PODS


PATIENCE_SECONDS = 300.0
"""How long writes without any admission request are tolerated."""

AttributionState = Literal["Starting", "Receiving", "NoAdmissionCalls"]


class WebhookHealth:
    """Whether admission requests arrive, judged by observed writes and received calls."""

    def __init__(self, coverage: WebhookCoverage, patience: float = PATIENCE_SECONDS) -> None:
        # By the table above; None while it is unknown.
        self.is_receiving: bool | None = None
        self._coverage = coverage
        self._patience = patience
        # Monotonic time of the first write since the last call; None without one.
        self._unrecorded_since: float | None = None

    def record_call(self) -> bool:
        """Note an admission call; whether `is_receiving` changed."""
        self._unrecorded_since = None
        return self._set_receiving(True)

    def record_write(self, identity: Identity, now: float) -> bool:
        """Note an observed write; whether `is_receiving` changed."""
        if self._coverage.gap(identity) is not None:
            return False
        if self._unrecorded_since is None:
            self._unrecorded_since = now
        return now - self._unrecorded_since >= self._patience and self._set_receiving(False)

    def _set_receiving(self, receiving: bool) -> bool:
        before, self.is_receiving = self.is_receiving, receiving
        return before is not receiving
