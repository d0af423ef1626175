"""Which objects are no desired state: made by machinery, remade by machinery.

`reason` gives the sub-code of the skip reason `Noise`, or None. Objects of windlass
itself (`own`) are never mirrored, whatever the filter says. Bootstrap RBAC is no noise:
it does not churn, and edits to it matter.
"""

from __future__ import annotations

from windlass.objects.gvr import GVK
from windlass.objects.json import Object
from windlass.reverser.decide import sanitise

Own = frozenset[tuple[str, str, str]]
"""Kind, namespace and name of the objects windlass keeps for itself."""

OWN_OBJECT = "OwnObject"

_LEADER = "control-plane.alpha.kubernetes.io/leader"
_AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
_CONFIG_MAPS = {
    "kube-root-ca.crt": "ClusterCA",
    "openshift-service-ca.crt": "ClusterCA",
    "extension-apiserver-authentication": "ServerAuthentication",
    "cluster-autoscaler-status": "AutoscalerStatus",
    "kube-apiserver-legacy-service-account-token-tracking": "TokenTracking",
}
_SECRET_TYPES = {
    "kubernetes.io/service-account-token": "ServiceAccountToken",
    "bootstrap.kubernetes.io/token": "BootstrapToken",
    "helm.sh/release.v1": "HelmRelease",
}


def reason(obj: Object, *, own: Own = frozenset(), filtered: bool = True) -> str | None:
    """Why `obj` (as the server gave it) is not mirrored; `filtered=False` = own objects only."""
    metadata = obj.get("metadata") or {}
    kind = obj.get("kind", "")
    if own and (kind, metadata.get("namespace", ""), metadata.get("name", "")) in own:
        return OWN_OBJECT
    if not filtered:
        return None
    if _LEADER in (metadata.get("annotations") or {}):
        return "LeaderRecord"
    rule = _RULES.get((GVK.of(obj.get("apiVersion", ""), kind).group, kind))
    return rule(obj, metadata) if rule is not None else None


def _config_map(obj: Object, metadata: Object) -> str | None:
    if (metadata.get("labels") or {}).get("owner") == "helm":
        return "HelmRelease"
    return _CONFIG_MAPS.get(metadata.get("name", ""))


def _secret(obj: Object, metadata: Object) -> str | None:
    type_ = obj.get("type")
    return _SECRET_TYPES.get(type_) if isinstance(type_, str) else None


def _service(obj: Object, metadata: Object) -> str | None:
    here = (metadata.get("namespace"), metadata.get("name"))
    return "ApiServerService" if here == ("default", "kubernetes") else None


def _api_service(obj: Object, metadata: Object) -> str | None:
    return "Automanaged" if _AUTOMANAGED in (metadata.get("labels") or {}) else None


def _service_account(obj: Object, metadata: Object) -> str | None:
    if metadata.get("name") != "default":
        return None
    rest = sanitise.cleaned(obj)
    bare = rest.keys() <= {"apiVersion", "kind", "metadata"}
    return "DefaultServiceAccount" if bare and rest["metadata"].keys() <= _NAMED else None


_NAMED = {"name", "namespace"}
_RULES = {
    ("", "ConfigMap"): _config_map,
    ("", "Secret"): _secret,
    ("", "Service"): _service,
    ("", "ServiceAccount"): _service_account,
    ("apiregistration.k8s.io", "APIService"): _api_service,
}
