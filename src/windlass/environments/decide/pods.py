"""What every pod of a preview gets where its manifest says nothing.

Only absent fields are filled, so a manifest that is stricter stays stricter. A limit that
is missing becomes the larger of request and default, because the API server refuses a pod
whose default limit is below its request.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.objects import quantity
from windlass.objects.json import JSON, Object

_POD: Object = {"automountServiceAccountToken": False, "enableServiceLinks": False}
_POD_CONTEXT: Object = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
_CONTAINER_CONTEXT: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
_GROUPS = ("initContainers", "containers")


def secured(spec: Object, default_limits: Mapping[str, str], *, restricted: bool) -> Object:
    """The pod spec with defaults filled in; `restricted` adds what that level demands."""
    filled = {**_POD, **spec}
    if restricted:
        filled["securityContext"] = {**_POD_CONTEXT, **(spec.get("securityContext") or {})}
    for group in _GROUPS:
        if isinstance(spec.get(group), list):
            filled[group] = [
                _container(item, default_limits, restricted=restricted) for item in spec[group]
            ]
    return filled


def _container(container: JSON, default_limits: Mapping[str, str], *, restricted: bool) -> JSON:
    if not isinstance(container, dict):
        return container
    filled = dict(container)
    if restricted:
        filled["securityContext"] = {
            **_CONTAINER_CONTEXT,
            **(container.get("securityContext") or {}),
        }
    resources = _limited(container.get("resources") or {}, default_limits)
    return {**filled, "resources": resources} if resources else filled


def _limited(resources: Object, default_limits: Mapping[str, str]) -> Object:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    missing = {
        name: _larger(str(requests[name]), default)
        for name, default in default_limits.items()
        if name in requests and name not in limits
    }
    return {**resources, "limits": {**limits, **missing}} if missing else resources


def _larger(one: str, other: str) -> str:
    try:
        return one if quantity.parse(one) >= quantity.parse(other) else other
    except quantity.QuantityRefused:
        # The API server will say what is wrong with it, and where.
        return one
