"""Kinds that a project may bring, and the stage in which each is applied.

Everything not named here is refused: a preview never creates what acts outside its own
namespace. Kinds that would open or close the network are the operator's; where a chart brings
them as a matter of course they are dropped and listed, else they are refused.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from windlass.objects.names import GVR, Object


class Stage(IntEnum):
    """When an object is applied; a failed one ends the pass after its stage."""

    ACCOUNTS = 0
    CONFIGURATION = 1
    VOLUMES = 2
    SERVICES = 3
    WORKLOADS = 4
    SCALING = 5


@dataclass(frozen=True, slots=True)
class AllowedKind:
    """A kind that may be applied; `template` leads to its pod template, if it has one."""

    gvr: GVR
    stage: Stage
    template: tuple[str, ...] | None = None

    @property
    def templates(self) -> tuple[tuple[str, ...], ...]:
        """Every template inside, outer ones first: that of a CronJob's Jobs, that of the pods."""
        path = self.template or ()
        return tuple(path[:end] for end in range(2, len(path) + 1, 2))


_POD_TEMPLATE = ("spec", "template")

ALLOWED_KINDS: dict[tuple[str, str], AllowedKind] = {
    ("", "ServiceAccount"): AllowedKind(GVR("", "v1", "serviceaccounts"), Stage.ACCOUNTS),
    ("", "Secret"): AllowedKind(GVR("", "v1", "secrets"), Stage.CONFIGURATION),
    ("", "ConfigMap"): AllowedKind(GVR("", "v1", "configmaps"), Stage.CONFIGURATION),
    ("", "PersistentVolumeClaim"): AllowedKind(
        GVR("", "v1", "persistentvolumeclaims"), Stage.VOLUMES
    ),
    ("", "Service"): AllowedKind(GVR("", "v1", "services"), Stage.SERVICES),
    ("", "Pod"): AllowedKind(GVR("", "v1", "pods"), Stage.WORKLOADS, ()),
    ("", "ReplicationController"): AllowedKind(
        GVR("", "v1", "replicationcontrollers"), Stage.WORKLOADS, _POD_TEMPLATE
    ),
    ("apps", "Deployment"): AllowedKind(
        GVR("apps", "v1", "deployments"), Stage.WORKLOADS, _POD_TEMPLATE
    ),
    ("apps", "StatefulSet"): AllowedKind(
        GVR("apps", "v1", "statefulsets"), Stage.WORKLOADS, _POD_TEMPLATE
    ),
    ("apps", "DaemonSet"): AllowedKind(
        GVR("apps", "v1", "daemonsets"), Stage.WORKLOADS, _POD_TEMPLATE
    ),
    ("batch", "Job"): AllowedKind(GVR("batch", "v1", "jobs"), Stage.WORKLOADS, _POD_TEMPLATE),
    ("batch", "CronJob"): AllowedKind(
        GVR("batch", "v1", "cronjobs"), Stage.WORKLOADS, ("spec", "jobTemplate", *_POD_TEMPLATE)
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): AllowedKind(
        GVR("autoscaling", "v2", "horizontalpodautoscalers"), Stage.SCALING
    ),
    ("policy", "PodDisruptionBudget"): AllowedKind(
        GVR("policy", "v1", "poddisruptionbudgets"), Stage.SCALING
    ),
}

_BY_NAME = {kind: allowed for (_, kind), allowed in ALLOWED_KINDS.items()}

TRUSTED_ONLY = frozenset({("apps", "DaemonSet")})
"""Kinds that only a trusted Environment may bring: they run on every node there is."""

_MATCH_LABELS = ("spec", "selector", "matchLabels")

SELECTORS: dict[str, tuple[str, ...]] = {
    "ReplicationController": ("spec", "selector"),
    "Service": ("spec", "selector"),
    "Deployment": _MATCH_LABELS,
    "StatefulSet": _MATCH_LABELS,
    "DaemonSet": _MATCH_LABELS,
    "Job": _MATCH_LABELS,
    "PodDisruptionBudget": _MATCH_LABELS,
}
"""Where objects say which pods they mean."""

ROUTE_KINDS = frozenset(
    {
        ("extensions", "Ingress"),
        ("networking.k8s.io", "Ingress"),
        ("gateway.networking.k8s.io", "HTTPRoute"),
    }
)
"""What gives an application an address outside of the cluster."""

DROPPED_KINDS = ROUTE_KINDS | {
    ("extensions", "NetworkPolicy"),
    ("networking.k8s.io", "NetworkPolicy"),
}
"""What charts bring as a matter of course and the operator makes itself."""

RESERVED_NAMES = frozenset(
    {
        ("ConfigMap", "windlass-inventory"),
        ("ConfigMap", "kube-root-ca.crt"),
        ("LimitRange", "default-limits"),
        ("ResourceQuota", "default-quota"),
        ("RoleBinding", "windlass-applier"),
        ("RoleBinding", "windlass-developers"),
        ("RoleBinding", "windlass-manager"),
        ("RoleBinding", "windlass-viewers"),
        ("Secret", "catalyst-secrets"),
        ("Secret", "registry-credentials"),
        ("ServiceAccount", "default"),
        ("ServiceAccount", "windlass-applier"),
    }
)
"""Objects of the operator, by kind and name; no project may bring one."""

_RESERVED_SECRETS = "windlass-release-"


def is_reserved(kind: str, name: str) -> bool:
    """Whether an object of this name is the operator's."""
    return (kind, name) in RESERVED_NAMES or (
        kind == "Secret" and name.startswith(_RESERVED_SECRETS)
    )


def map_at(obj: Object, path: Sequence[str]) -> Object | None:
    """The map at a path inside an object; None where there is none."""
    inside: object = obj
    for member in path:
        inside = inside.get(member) if isinstance(inside, dict) else None
    return inside if isinstance(inside, dict) else None


def group_kind(obj: Object) -> tuple[str, str]:
    """Group and kind of an object; a version is not part of what may be applied."""
    return str(obj.get("apiVersion", "")).rpartition("/")[0], str(obj.get("kind", ""))


def allowed_kind(obj: Object) -> AllowedKind | None:
    """How an object is applied; None for a kind no project may bring."""
    return ALLOWED_KINDS.get(group_kind(obj))


def current_api_version(obj: Object) -> str:
    """The apiVersion that an allowed kind has now, where an object names an older one.

    A namesake in a group of somebody else is another kind.
    """
    group, kind = group_kind(obj)
    if not is_built_in(group):
        return ""
    found = ALLOWED_KINDS.get((group, kind)) or _BY_NAME.get(kind)
    now = found.gvr.api_version if found is not None else ""
    return now if now != obj.get("apiVersion") else ""


def is_built_in(group: str) -> bool:
    """Whether Kubernetes itself defines the kinds of a group."""
    return "." not in group or group.endswith(".k8s.io")


def pod_spec(obj: Object) -> Object | None:
    """The pod spec inside an object of an allowed kind; None where there is none."""
    found = allowed_kind(obj)
    if found is None or found.template is None:
        return None
    return map_at(obj, (*found.template, "spec"))


def pod_spec_path(obj: Object) -> str:
    """Where the pod spec stands, for messages."""
    found = allowed_kind(obj)
    inner = found.template if found is not None and found.template is not None else ()
    return ".".join((*inner, "spec"))
