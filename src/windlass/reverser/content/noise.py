"""Recognizes objects that are not desired state: created, and recreated, by controllers.

`noise_reason` returns the sub-code of the skip reason `Noise`, or None. Objects of windlass
itself (`own`) are never mirrored, whatever the filter is set to. Bootstrap RBAC is not noise:
it does not churn, and edits to it matter.

A user who may annotate or label an object must not be able to hide it, so a label or annotation
counts only on the kinds, and in the shapes, that the controllers themselves create.

Pure.
"""

from __future__ import annotations

import re

from windlass.objects.names import GVK, Object
from windlass.reverser.content import sanitize

OwnObjects = frozenset[tuple[str, str, str]]
"""Kind, namespace and name of the objects windlass keeps for itself."""

OWN_OBJECT = "OwnObject"

DESCRIPTIONS = {
    "ApiServerService": "Service of the API server",
    "AutoscalerStatus": "status record of the cluster autoscaler",
    "Automanaged": "APIService managed by the API server",
    "BootstrapToken": "bootstrap token",
    "ClusterCA": "copy of the cluster's CA certificate",
    "DefaultServiceAccount": "default ServiceAccount without settings",
    "HelmRelease": "Helm release record",
    "IPAllocation": "address allocated by the API server",
    "LeaderRecord": "leader election record",
    "ServerAuthentication": "authentication settings published by the API server",
    "ServiceAccountToken": "service account token",
    "TokenTracking": "tracking record of the API server",
    OWN_OBJECT: "internal object of windlass",
}
"""What an object of each sub-code is; part of commit bodies."""

_LEADER = "control-plane.alpha.kubernetes.io/leader"
_LEADER_KINDS = frozenset({("", "ConfigMap"), ("", "Endpoints"), ("coordination.k8s.io", "Lease")})
"""Kinds that leader election uses as locks; on others a user set the annotation."""

_MANAGED_BY = "ipaddress.kubernetes.io/managed-by"
_IP_ALLOCATOR = "ipallocator.k8s.io"
_HELM_NAME = re.compile(r"sh\.helm\.release\.v1\..+\.v[0-9]+")
_AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
_AUTOMANAGED_VALUES = ("onstart", "true")
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
}
_HELM_TYPE = "helm.sh/release.v1"


def noise_reason(
    obj: Object, *, own: OwnObjects = frozenset(), filtered: bool = True
) -> str | None:
    """The sub-code of `obj` as the server sent it; `filtered=False` checks own objects only."""
    metadata = obj.get("metadata") or {}
    kind = obj.get("kind", "")
    if own and (kind, metadata.get("namespace", ""), metadata.get("name", "")) in own:
        return OWN_OBJECT
    if not filtered:
        return None
    type_ = (GVK.of(obj.get("apiVersion", ""), kind).group, kind)
    if type_ in _LEADER_KINDS and _LEADER in (metadata.get("annotations") or {}):
        return "LeaderRecord"
    rule = _RULES.get(type_)
    return rule(obj, metadata) if rule is not None else None


def _config_map(obj: Object, metadata: Object) -> str | None:
    data = obj.get("data")
    # The object is not validated: `data` may be anything.
    if isinstance(data, dict) and data.keys() == {"release"} and _is_helm_record(metadata):
        return "HelmRelease"
    return _CONFIG_MAPS.get(metadata.get("name", ""))


def _is_helm_record(metadata: Object) -> bool:
    """Whether name and label are those that Helm gives its release records."""
    owner = (metadata.get("labels") or {}).get("owner")
    return owner == "helm" and _HELM_NAME.fullmatch(metadata.get("name", "")) is not None


def _secret(obj: Object, metadata: Object) -> str | None:
    type_ = obj.get("type")
    if type_ == _HELM_TYPE and _HELM_NAME.fullmatch(metadata.get("name", "")):
        return "HelmRelease"
    return _SECRET_TYPES.get(type_) if isinstance(type_, str) else None


def _service(obj: Object, metadata: Object) -> str | None:
    key = (metadata.get("namespace"), metadata.get("name"))
    return "ApiServerService" if key == ("default", "kubernetes") else None


def _api_service(obj: Object, metadata: Object) -> str | None:
    spec = obj.get("spec") or {}
    # One with a backend of its own is somebody's, whatever its label says.
    has_backend = not isinstance(spec, dict) or spec.get("service") is not None
    value = (metadata.get("labels") or {}).get(_AUTOMANAGED)
    return "Automanaged" if value in _AUTOMANAGED_VALUES and not has_backend else None


def _ip_address(obj: Object, metadata: Object) -> str | None:
    manager = (metadata.get("labels") or {}).get(_MANAGED_BY)
    return "IPAllocation" if manager == _IP_ALLOCATOR else None


def _service_account(obj: Object, metadata: Object) -> str | None:
    if metadata.get("name") != "default":
        return None
    clean = sanitize.sanitize_object(obj)
    bare = clean.keys() <= {"apiVersion", "kind", "metadata"}
    return "DefaultServiceAccount" if bare and clean["metadata"].keys() <= _NAME_FIELDS else None


_NAME_FIELDS = {"name", "namespace"}
_RULES = {
    ("", "ConfigMap"): _config_map,
    ("", "Secret"): _secret,
    ("", "Service"): _service,
    ("", "ServiceAccount"): _service_account,
    ("apiregistration.k8s.io", "APIService"): _api_service,
    ("networking.k8s.io", "IPAddress"): _ip_address,
}
