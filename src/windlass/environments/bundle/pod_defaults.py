"""Fills in defaults of every pod spec of an Environment.

Only absent fields are filled, so a manifest that is stricter stays stricter; null counts as
absent, as it does for the API server. A missing limit becomes the larger of request and
default, because the API server refuses a pod whose default limit is below its request.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.objects import quantity
from windlass.objects.names import Object

_POD: Object = {"automountServiceAccountToken": False, "enableServiceLinks": False}
_POD_CONTEXT: Object = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
_NO_ESCALATION: Object = {"allowPrivilegeEscalation": False}
_NO_CAPABILITIES: Object = {"drop": ["ALL"]}
_GROUPS = ("initContainers", "containers")


def apply_pod_defaults(
    spec: Object,
    default_limits: Mapping[str, str],
    *,
    restricted: bool,
    placement: Object | None = None,
) -> Object:
    """The pod spec with defaults; `restricted` adds what that Pod Security level requires.

    `placement` is no default: its fields (nodes, tolerations, runtime class) always win.
    """
    filled = {**_fill_absent(_POD, spec), **(placement or {})}
    if restricted:
        filled["securityContext"] = _fill_absent(_POD_CONTEXT, spec.get("securityContext"))
    for group in _GROUPS:
        if spec.get(group):
            filled[group] = [
                _with_container_defaults(item, default_limits, restricted=restricted)
                for item in spec[group]
            ]
    return filled


def _with_container_defaults(
    container: Object, default_limits: Mapping[str, str], *, restricted: bool
) -> Object:
    filled = _fill_absent({}, container)
    if restricted:
        context = _fill_absent(_NO_ESCALATION, container.get("securityContext"))
        context["capabilities"] = _fill_absent(_NO_CAPABILITIES, context.get("capabilities"))
        filled["securityContext"] = context
    resources = _with_limits(container.get("resources") or {}, default_limits)
    return {**filled, "resources": resources} if resources else filled


def _fill_absent(defaults: Object, given: Object | None) -> Object:
    present = {name: value for name, value in (given or {}).items() if value is not None}
    return {**defaults, **present}


def _with_limits(resources: Object, default_limits: Mapping[str, str]) -> Object:
    requests = _fill_absent({}, resources.get("requests"))
    limits = _fill_absent({}, resources.get("limits"))
    missing = {
        name: _larger(str(requests[name]), default)
        for name, default in default_limits.items()
        if name in requests and name not in limits
    }
    return {**resources, "limits": {**limits, **missing}} if missing else resources


def _larger(first: str, second: str) -> str:
    return first if quantity.parse(first) >= quantity.parse(second) else second
