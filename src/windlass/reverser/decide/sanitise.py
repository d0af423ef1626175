"""Takes from a live object what only its server can know.

A pure function: the input is never changed, the result shares what was not touched, and
cleaning twice is cleaning once. The body goes by deny-list (only `status` and the fields
of `sanitise_rules`), metadata by allow-list, because the rest of it belongs to the server.
Group and kind are compared together: a custom kind called Service is no core Service.
"""

from __future__ import annotations

from windlass.objects.names import GVK, JSON, Object
from windlass.reverser.decide import sanitise_rules, template_metadata

_DROPPED_PREFIXES = frozenset(
    (
        "kubectl.kubernetes.io",
        "control-plane.alpha.kubernetes.io",
        "deployment.kubernetes.io",
        "windlass.dev",
        "kustomize.toolkit.fluxcd.io",
        "applyset.kubernetes.io",
    )
)
_DROPPED_KEYS = frozenset(
    (
        "autoscaling.alpha.kubernetes.io/conditions",
        "autoscaling.alpha.kubernetes.io/current-metrics",
        "deprecated.daemonset.template.generation",
        "endpoints.kubernetes.io/last-change-trigger-time",
        "kubernetes.io/service-account.uid",
        "reconcile.fluxcd.io/requestedAt",
        "argocd.argoproj.io/tracking-id",
        "argocd.argoproj.io/installation-id",
    )
)
_NONE: frozenset[str] = frozenset()
_NEVER_OWNED = frozenset(("rbac.authorization.k8s.io", "admissionregistration.k8s.io"))
"""Groups whose objects say who may do what: an owner that anybody can name hides none."""


def cleaned(obj: Object, gvk: GVK | None = None) -> Object:
    """`obj` without what its server owns; `gvk` fills in the type where a list left it out."""
    api_version = obj.get("apiVersion") or (gvk.api_version if gvk else "")
    kind = obj.get("kind") or (gvk.kind if gvk else "")
    type_ = (_group(api_version), kind)
    source = obj.get("metadata")
    metadata = source if isinstance(source, dict) else {}
    result: Object = {"apiVersion": api_version, "kind": kind, "metadata": _kept(metadata, type_)}
    for key, value in obj.items():
        if key != "status" and key not in result:
            result[key] = value
    sanitise_rules.apply(type_, result, metadata)
    template_metadata.strip(type_, result)
    return result


def controller_owned(obj: Object) -> bool:
    """True if a controller made this object and would make it again."""
    if _group(obj.get("apiVersion")) in _NEVER_OWNED:
        return False
    owners = obj.get("metadata", {}).get("ownerReferences")
    if not isinstance(owners, list):
        return False
    return any(isinstance(owner, dict) and owner.get("controller") is True for owner in owners)


def _group(api_version: JSON) -> str:
    text = api_version if isinstance(api_version, str) else ""
    return text.rpartition("/")[0]


def _kept(metadata: Object, type_: tuple[str, str]) -> Object:
    kept: Object = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    labels = _without_bookkeeping(
        metadata.get("labels"), sanitise_rules.SERVER_LABELS.get(type_, _NONE)
    )
    annotations = _without_bookkeeping(
        metadata.get("annotations"), sanitise_rules.SERVER_ANNOTATIONS.get(type_, _NONE)
    )
    if labels:
        kept["labels"] = labels
    if annotations:
        kept["annotations"] = annotations
    return kept


def _without_bookkeeping(pairs: JSON, of_kind: frozenset[str]) -> Object | None:
    if not isinstance(pairs, dict):
        return None
    return {
        key: value
        for key, value in pairs.items()
        if key not in _DROPPED_KEYS
        and key not in of_kind
        and not ("/" in key and key.partition("/")[0] in _DROPPED_PREFIXES)
    }
