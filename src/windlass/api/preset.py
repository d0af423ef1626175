"""The usual types: what a rule entry without `resources` selects.

Desired state that people write, none that controllers make. Also the types that the
watch role names in mode `selected`, so a rule without `resources` works with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True, order=True)
class PresetType:
    """A type by group and plural; the version is the one the server prefers."""

    group: str
    resource: str
    namespaced: bool


def _types(group: str, *, namespaced: str = "", cluster: str = "") -> tuple[PresetType, ...]:
    return (
        *(PresetType(group, name, True) for name in namespaced.split()),
        *(PresetType(group, name, False) for name in cluster.split()),
    )


PRESET: tuple[PresetType, ...] = (
    *_types(
        "",
        namespaced="configmaps limitranges resourcequotas secrets serviceaccounts services",
    ),
    *_types("apiextensions.k8s.io", cluster="customresourcedefinitions"),
    *_types("apiregistration.k8s.io", cluster="apiservices"),
    *_types("apps", namespaced="daemonsets deployments statefulsets"),
    *_types("networking.k8s.io", namespaced="ingresses networkpolicies"),
    *_types("policy", namespaced="poddisruptionbudgets"),
    *_types(
        "rbac.authorization.k8s.io",
        namespaced="rolebindings roles",
        cluster="clusterrolebindings clusterroles",
    ),
    *_types("scheduling.k8s.io", cluster="priorityclasses"),
    *_types("storage.k8s.io", cluster="storageclasses"),
)


def readable_by_group() -> dict[str, tuple[str, ...]]:
    """The preset without Secrets, plural names by group."""
    open_types = (kind for kind in PRESET if (kind.group, kind.resource) != ("", "secrets"))
    groups = groupby(sorted(open_types), key=lambda kind: kind.group)
    return {group: tuple(kind.resource for kind in kinds) for group, kinds in groups}
