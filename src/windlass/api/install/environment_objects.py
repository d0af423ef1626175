"""What the namespace of an Environment holds: the kinds of a bundle and the operator's own objects.

The one table of them. From it follow the roles (`cluster_roles`), the operator policy
(`operator_policy_bounds`), the watches (`environments.owned_cache`), the order of an apply and
the names that no bundle may use (`environments.bundle`).

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from windlass.objects.names import GVR
from windlass.objects.resources import (
    CONFIG_MAPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    LIMIT_RANGES,
    NAMESPACES,
    NETWORK_POLICIES,
    POD_AUTOSCALERS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
)

# ---- the namespace

ENVIRONMENT_UID = "catalyst.dev/environment-uid"
"""Annotation and label of a namespace: uid of the Environment it belongs to."""

NAMESPACE_TYPE = "catalyst.dev/namespace-type"
"""Label of a namespace: its purpose."""

ENVIRONMENT_TYPE = "environment"
"""Value of NAMESPACE_TYPE for the namespace of an Environment."""

# ---- the operator's own objects

APPLIER_NAME = "windlass-applier"
"""The impersonated service account, which does not exist, and its RoleBinding."""

MANAGER_NAME = "windlass-manager"
"""The RoleBinding that gives the operator its rights inside a namespace."""

DEFAULT_ACCOUNT = "default"
QUOTA_NAME = "default-quota"
LIMIT_RANGE_NAME = "default-limits"
INVENTORY_NAME = "windlass-inventory"
RELEASE_PREFIX = "windlass-release-"
"""How the names of Secrets with a rendered chart begin."""

RELEASE_TYPE = "catalyst.dev/release.v1"
"""The type of these Secrets."""

RESERVED_NAMES = frozenset(
    {
        ("ConfigMap", INVENTORY_NAME),
        ("ConfigMap", "kube-root-ca.crt"),
        ("LimitRange", LIMIT_RANGE_NAME),
        ("ResourceQuota", QUOTA_NAME),
        ("RoleBinding", APPLIER_NAME),
        ("RoleBinding", "windlass-developers"),
        ("RoleBinding", MANAGER_NAME),
        ("RoleBinding", "windlass-viewers"),
        ("Secret", "catalyst-secrets"),
        ("Secret", "registry-credentials"),
        ("ServiceAccount", DEFAULT_ACCOUNT),
        ("ServiceAccount", APPLIER_NAME),
    }
)
"""Kind and name of objects that no bundle may contain, besides Secrets with RELEASE_PREFIX."""

# ---- the kinds of a bundle


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
    """A kind that a bundle may contain."""

    kind: str
    gvr: GVR
    stage: Stage
    template: tuple[str, ...] | None = None  # path of the pod template; () is the object itself
    selector: tuple[str, ...] = ()  # path of the map with the labels of selected pods; () = none
    is_trusted_only: bool = False  # only a trusted Environment may contain it


_TEMPLATE = ("spec", "template")
_SELECTOR = ("spec", "selector")
_LABELS = (*_SELECTOR, "matchLabels")

_KINDS = (
    AllowedKind("ServiceAccount", SERVICE_ACCOUNTS, Stage.ACCOUNTS),
    AllowedKind("Secret", SECRETS, Stage.CONFIGURATION),
    AllowedKind("ConfigMap", CONFIG_MAPS, Stage.CONFIGURATION),
    AllowedKind("PersistentVolumeClaim", VOLUME_CLAIMS, Stage.VOLUMES),
    AllowedKind("Service", SERVICES, Stage.SERVICES, selector=_SELECTOR),
    AllowedKind("Pod", PODS, Stage.WORKLOADS, ()),
    AllowedKind(
        "ReplicationController", REPLICATION_CONTROLLERS, Stage.WORKLOADS, _TEMPLATE, _SELECTOR
    ),
    AllowedKind("Deployment", DEPLOYMENTS, Stage.WORKLOADS, _TEMPLATE, _LABELS),
    AllowedKind("StatefulSet", STATEFUL_SETS, Stage.WORKLOADS, _TEMPLATE, _LABELS),
    # Runs on every node.
    AllowedKind(
        "DaemonSet", DAEMON_SETS, Stage.WORKLOADS, _TEMPLATE, _LABELS, is_trusted_only=True
    ),
    AllowedKind("Job", JOBS, Stage.WORKLOADS, _TEMPLATE, _LABELS),
    AllowedKind("CronJob", CRON_JOBS, Stage.WORKLOADS, ("spec", "jobTemplate", *_TEMPLATE)),
    AllowedKind("HorizontalPodAutoscaler", POD_AUTOSCALERS, Stage.SCALING),
    AllowedKind("PodDisruptionBudget", POD_DISRUPTION_BUDGETS, Stage.SCALING, selector=_LABELS),
)

ALLOWED_KINDS = {(allowed.gvr.group, allowed.kind): allowed for allowed in _KINDS}
"""By group and kind."""

BUNDLE_RESOURCES = frozenset(allowed.gvr for allowed in _KINDS)

WATCHED_BUNDLE_RESOURCES = tuple(sorted(BUNDLE_RESOURCES - {SECRETS}))
"""Never Secrets: no role of the operator may list them in all namespaces."""

WATCHED_RESOURCES = (
    NAMESPACES,
    RESOURCE_QUOTAS,
    LIMIT_RANGES,
    NETWORK_POLICIES,
    ROLE_BINDINGS,
    *WATCHED_BUNDLE_RESOURCES,
)
"""Resources whose objects with our ownership label the operator watches."""


def names_by_group(resources: Iterable[GVR]) -> dict[str, list[str]]:
    """The plural names of resources by their group, both in order, as roles list them."""
    names: dict[str, list[str]] = {}
    for gvr in sorted(resources):
        names.setdefault(gvr.group, []).append(gvr.resource)
    return names
