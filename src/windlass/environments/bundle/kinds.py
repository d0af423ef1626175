"""What the kind of an object means for a bundle: allowed, dropped or refused, and its paths.

Every kind that is not in the table (`api.install.environment_objects`) is refused: a preview
never creates an object that acts outside its own namespace. Kinds that would open or close the
network belong to the operator; those that charts usually contain are dropped and listed, all
others are refused.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.api.install.environment_objects import (
    ALLOWED_KINDS,
    RELEASE_PREFIX,
    RESERVED_NAMES,
    AllowedKind,
)
from windlass.objects.names import Object

_GROUPS_WITHOUT_DOMAIN = frozenset(("", "apps", "autoscaling", "batch", "extensions", "policy"))
# By kind alone, to recognize an allowed kind in an older API group.
_BY_NAME = {kind: allowed for (_, kind), allowed in ALLOWED_KINDS.items()}

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


def is_reserved(kind: str, name: str) -> bool:
    """Whether this name belongs to an object of the operator."""
    return (kind, name) in RESERVED_NAMES or (kind == "Secret" and name.startswith(RELEASE_PREFIX))


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
    if "." in group and not is_built_in(group):
        return ""
    # A group without a dot cannot be a custom resource's: another one than Kubernetes' is a typo.
    allowed = ALLOWED_KINDS.get((group, kind)) or _BY_NAME.get(kind)
    current = allowed.gvr.api_version if allowed is not None else ""
    return current if current != obj.get("apiVersion") else ""


def is_built_in(group: str) -> bool:
    """Whether Kubernetes itself defines the kinds of a group."""
    return group in _GROUPS_WITHOUT_DOMAIN or group.endswith(".k8s.io")


def template_paths(obj: Object) -> tuple[tuple[str, ...], ...]:
    """Paths of all templates, outer ones first: of a CronJob's Jobs, then of the pods."""
    allowed = allowed_kind(obj)
    path = allowed.template or () if allowed is not None else ()
    return tuple(path[:end] for end in range(2, len(path) + 1, 2))


def selector_path(obj: Object) -> tuple[str, ...]:
    """The path of the map with the labels of the selected pods; empty where there is none."""
    allowed = allowed_kind(obj)
    return allowed.selector if allowed is not None else ()


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
