"""Removes from a live object the fields that only its API server assigns.

The input is never changed, the result shares what was not touched, and sanitizing is idempotent.
The body is filtered by deny-list (`status` and the fields of `sanitize_rules`), metadata by
allow-list, because the rest of it belongs to the server. Group and kind are compared together: a
custom kind called Service is not the core Service.

`creationTimestamp: null` is also removed from the metadata of embedded templates: whether it is
served depends on the version of the API server, never on what a user applied. A template is what
lies below a key named `template`, `jobTemplate` and the like, and the `spec` of a kind named
`...Template`. What is one value to server-side apply stays whole: the data of a ControllerRevision,
and every list, `volumeClaimTemplates` included, because nothing in an object tells which of its
lists are atomic. Objects without that text are recognized at the speed of the JSON encoder and not
walked.

Pure.
"""

from __future__ import annotations

import orjson

from windlass.objects.names import JSON, Object
from windlass.reverser.content import sanitize_rules

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
_NO_KEYS: frozenset[str] = frozenset()
_NEVER_OWNED_GROUPS = frozenset(("rbac.authorization.k8s.io", "admissionregistration.k8s.io"))
"""Groups whose objects grant or restrict access: an owner reference, which any editor can set,
must not hide them."""


def sanitize_object(obj: Object) -> Object:
    """`obj` without the fields that its server assigns."""
    api_version = obj.get("apiVersion") or ""
    kind = obj.get("kind") or ""
    type_ = (_group(api_version), kind)
    source = obj.get("metadata")
    metadata = source if isinstance(source, dict) else {}
    result: Object = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": _keep_metadata(metadata, type_),
    }
    for key, value in obj.items():
        if key != "status" and key not in result:
            result[key] = value
    sanitize_rules.apply_kind_rule(type_, result, metadata)
    strip_template_timestamps(type_, result)
    return result


def is_controller_owned(obj: Object) -> bool:
    """True if a controller created this object and would create it again."""
    if _group(obj.get("apiVersion")) in _NEVER_OWNED_GROUPS:
        return False
    owners = obj.get("metadata", {}).get("ownerReferences")
    if not isinstance(owners, list):
        return False
    return any(isinstance(owner, dict) and owner.get("controller") is True for owner in owners)


def _group(api_version: JSON) -> str:
    text = api_version if isinstance(api_version, str) else ""
    return text.rpartition("/")[0]


def _keep_metadata(metadata: Object, type_: tuple[str, str]) -> Object:
    result: Object = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    labels = _without_bookkeeping(
        metadata.get("labels"), sanitize_rules.SERVER_LABELS.get(type_, _NO_KEYS)
    )
    annotations = _without_bookkeeping(
        metadata.get("annotations"), sanitize_rules.SERVER_ANNOTATIONS.get(type_, _NO_KEYS)
    )
    if labels:
        result["labels"] = labels
    if annotations:
        result["annotations"] = annotations
    return result


def _without_bookkeeping(pairs: JSON, server_keys: frozenset[str]) -> Object | None:
    """Labels or annotations without those that controllers and tools keep for themselves."""
    if not isinstance(pairs, dict):
        return None
    return {
        key: value
        for key, value in pairs.items()
        if key not in _DROPPED_KEYS
        and key not in server_keys
        and not ("/" in key and key.partition("/")[0] in _DROPPED_PREFIXES)
    }


_TIMESTAMP_FIELD = "creationTimestamp"
_TIMESTAMP_MARKER = b'"creationTimestamp":null'
_CONTROLLER_REVISION = ("apps", "ControllerRevision")


def strip_template_timestamps(type_: tuple[str, str], result: Object) -> None:
    """Remove `creationTimestamp: null` from embedded templates.

    Changes the top level of `result` in place; maps below are copied where they change.
    """
    # The data of a ControllerRevision is one value to server-side apply, and immutable.
    if type_ == _CONTROLLER_REVISION or not _may_contain_timestamp(result):
        return
    is_template_kind = type_[1].endswith("Template")
    for key, value in result.items():
        if key != "metadata":
            is_template = _is_template(key) or (is_template_kind and key == "spec")
            result[key] = _strip_node(value, is_template)


def _may_contain_timestamp(result: Object) -> bool:
    try:
        return _TIMESTAMP_MARKER in orjson.dumps(result)
    except (TypeError, ValueError):
        # Too deep or too large for this encoder: search it.
        return True


def _is_template(key: str) -> bool:
    return key.endswith("emplate")


def _strip_node(node: JSON, is_template: bool) -> JSON:
    """`node` itself where nothing changes below it, else a copy."""
    if not isinstance(node, dict):
        # An atomic list that lacked a part of an item would conflict with its owner.
        return node
    stripped = {key: _strip_node(value, _is_template(key)) for key, value in node.items()}
    metadata = stripped.get("metadata")
    if is_template and isinstance(metadata, dict) and metadata.get(_TIMESTAMP_FIELD, "") is None:
        stripped["metadata"] = {
            key: value for key, value in metadata.items() if key != _TIMESTAMP_FIELD
        }
    return stripped if any(stripped[key] is not node[key] for key in node) else node
