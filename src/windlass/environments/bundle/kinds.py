"""Kinds that a bundle may contain, and the stage in which each is applied.

Every kind that is not listed is refused: a preview never creates an object that acts outside its
own namespace. Kinds that would open or close the network belong to the operator; those that
charts usually contain are dropped and listed, all others are refused.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from windlass.objects.names import GVR, Object
from windlass.objects.resources import (
    CONFIG_MAPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    POD_AUTOSCALERS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICATION_CONTROLLERS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
)


class Stage(IntEnum):
    """Stages of an apply, in order; a failed object ends the reconcile after its stage."""

    ACCOUNTS = 0
    CONFIGURATION = 1
    VOLUMES = 2
    SERVICES = 3
    WORKLOADS = 4
    SCALING = 5


@dataclass(frozen=True, slots=True)
class AllowedKind:
    """A kind that may be applied."""

    gvr: GVR
    stage: Stage
    template: tuple[str, ...] | None = None  # path of the pod template; () is the object itself

    @property
    def templates(self) -> tuple[tuple[str, ...], ...]:
        """Paths of all templates, outer ones first: of a CronJob's Jobs, then of the pods."""
        path = self.template or ()
        return tuple(path[:end] for end in range(2, len(path) + 1, 2))


_POD_TEMPLATE = ("spec", "template")

ALLOWED_KINDS: dict[tuple[str, str], AllowedKind] = {
    ("", "ServiceAccount"): AllowedKind(SERVICE_ACCOUNTS, Stage.ACCOUNTS),
    ("", "Secret"): AllowedKind(SECRETS, Stage.CONFIGURATION),
    ("", "ConfigMap"): AllowedKind(CONFIG_MAPS, Stage.CONFIGURATION),
    ("", "PersistentVolumeClaim"): AllowedKind(VOLUME_CLAIMS, Stage.VOLUMES),
    ("", "Service"): AllowedKind(SERVICES, Stage.SERVICES),
    ("", "Pod"): AllowedKind(PODS, Stage.WORKLOADS, ()),
    ("", "ReplicationController"): AllowedKind(
        REPLICATION_CONTROLLERS, Stage.WORKLOADS, _POD_TEMPLATE
    ),
    ("apps", "Deployment"): AllowedKind(DEPLOYMENTS, Stage.WORKLOADS, _POD_TEMPLATE),
    ("apps", "StatefulSet"): AllowedKind(STATEFUL_SETS, Stage.WORKLOADS, _POD_TEMPLATE),
    ("apps", "DaemonSet"): AllowedKind(DAEMON_SETS, Stage.WORKLOADS, _POD_TEMPLATE),
    ("batch", "Job"): AllowedKind(JOBS, Stage.WORKLOADS, _POD_TEMPLATE),
    ("batch", "CronJob"): AllowedKind(
        CRON_JOBS, Stage.WORKLOADS, ("spec", "jobTemplate", *_POD_TEMPLATE)
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): AllowedKind(POD_AUTOSCALERS, Stage.SCALING),
    ("policy", "PodDisruptionBudget"): AllowedKind(POD_DISRUPTION_BUDGETS, Stage.SCALING),
}

# By kind alone, to recognize an allowed kind in an older API group.
_BY_NAME = {kind: allowed for (_, kind), allowed in ALLOWED_KINDS.items()}

TRUSTED_ONLY = frozenset({("apps", "DaemonSet")})
"""Kinds that only a trusted Environment may contain: they run on every node."""

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
"""Path of the map with the labels of the selected pods, by kind."""

ROUTE_KINDS = frozenset(
    {
        ("extensions", "Ingress"),
        ("networking.k8s.io", "Ingress"),
        ("gateway.networking.k8s.io", "HTTPRoute"),
    }
)
"""Kinds that expose an application outside of the cluster."""

DROPPED_KINDS = ROUTE_KINDS | {
    ("extensions", "NetworkPolicy"),
    ("networking.k8s.io", "NetworkPolicy"),
}
"""Kinds that charts usually contain and the operator creates itself."""

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
"""Objects of the operator, by kind and name; no bundle may contain one."""

_RESERVED_SECRETS = "windlass-release-"


def is_reserved(kind: str, name: str) -> bool:
    """Whether this name belongs to an object of the operator."""
    return (kind, name) in RESERVED_NAMES or (
        kind == "Secret" and name.startswith(_RESERVED_SECRETS)
    )


def map_at(obj: Object, path: Sequence[str]) -> Object | None:
    """The map at `path` inside an object; None where there is none."""
    value: object = obj
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None


def group_kind(obj: Object) -> tuple[str, str]:
    """Group and kind of an object; empty where they are missing."""
    return str(obj.get("apiVersion", "")).rpartition("/")[0], str(obj.get("kind", ""))


def allowed_kind(obj: Object) -> AllowedKind | None:
    """The entry of an object's kind; None for a kind that no bundle may contain."""
    return ALLOWED_KINDS.get(group_kind(obj))


def current_api_version(obj: Object) -> str:
    """The current apiVersion of an allowed kind, where the object has another one; else empty.

    A kind of the same name in a group outside Kubernetes is another kind.
    """
    group, kind = group_kind(obj)
    if not is_built_in(group):
        return ""
    allowed = ALLOWED_KINDS.get((group, kind)) or _BY_NAME.get(kind)
    current = allowed.gvr.api_version if allowed is not None else ""
    return current if current != obj.get("apiVersion") else ""


def is_built_in(group: str) -> bool:
    """Whether Kubernetes itself defines the kinds of a group."""
    return "." not in group or group.endswith(".k8s.io")


def pod_spec(obj: Object) -> Object | None:
    """The pod spec inside an object of an allowed kind; None where there is none."""
    allowed = allowed_kind(obj)
    if allowed is None or allowed.template is None:
        return None
    return map_at(obj, (*allowed.template, "spec"))


def pod_spec_path(obj: Object) -> str:
    """The path of the pod spec, for messages."""
    allowed = allowed_kind(obj)
    template = allowed.template if allowed is not None and allowed.template is not None else ()
    return ".".join((*template, "spec"))
