"""Which fields of an allowed object are refused.

Each rule closes one way out of the namespace: onto the node, into another account, or to
the outside without the operator's fence. All offences of a bundle are found at once, each
with the path of its field, so that they can be mended at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.environments.decide import kinds
from windlass.objects.json import JSON, Object

_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC")
_PLACES = ("nodeName", "priorityClassName", "runtimeClassName")
_OWN_ACCOUNT = "default"
_VOLUME_REASONS = {
    "hostPath": "it reaches the node's files",
    "nfs": "it reaches a server outside the fence",
    "iscsi": "it reaches a server outside the fence",
}


@dataclass(frozen=True, slots=True)
class Offence:
    """One thing that may not be applied, and why."""

    reason: str
    where: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.why}"


def offences(obj: Object, accounts: frozenset[str]) -> Iterator[Offence]:
    """Every refused field of one allowed object; `accounts` are those the bundle brings."""
    name = describe(obj)
    for path, why in _found(obj, accounts):
        yield Offence("FieldNotAllowed", f"{name} {path}", why)


def describe(obj: Object) -> str:
    """Kind and name, for messages."""
    metadata = obj.get("metadata") or {}
    return f"{obj.get('kind') or 'an object'}/{metadata.get('name') or '(unnamed)'}"


def _found(obj: Object, accounts: frozenset[str]) -> Iterator[tuple[str, str]]:
    if obj.get("kind") == "Service":
        yield from _service(obj.get("spec") or {})
    if obj.get("kind") == "Secret" and "service-account-token" in str(obj.get("type", "")):
        yield "type", "a Secret of this type would hold a token of the API server"
    if obj.get("kind") == "ServiceAccount" and obj.get("automountServiceAccountToken"):
        yield "automountServiceAccountToken", "pods here get no token of the API server"
    spec = kinds.pod_spec(obj)
    if spec is not None:
        path = kinds.pod_path(obj)
        for inner, why in _pod(spec, accounts):
            yield f"{path}.{inner}", why


def _service(spec: Object) -> Iterator[tuple[str, str]]:
    kind = spec.get("type") or "ClusterIP"
    if kind != "ClusterIP":
        yield "spec.type", f"{kind} would open a way around the fence; use ClusterIP"
    for name in ("externalIPs", "externalName"):
        if spec.get(name):
            yield f"spec.{name}", "it would lead traffic around the fence"


def _pod(spec: Object, accounts: frozenset[str]) -> Iterator[tuple[str, str]]:
    for name in _HOST_FIELDS:
        if spec.get(name):
            yield name, "a pod here may not share the node's namespaces"
    for name in _PLACES:
        if spec.get(name):
            yield name, "where and how urgently a pod runs is the administrator's to say"
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or _OWN_ACCOUNT
    if account != _OWN_ACCOUNT and account not in accounts:
        yield "serviceAccountName", f"{account} is not a ServiceAccount of this bundle"
    if spec.get("automountServiceAccountToken"):
        yield "automountServiceAccountToken", "pods here get no token of the API server"
    yield from _volumes(_list(spec.get("volumes")))
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(_list(spec.get(group))):
            for inner, why in _container(container):
                yield f"{group}[{index}].{inner}", why


def _volumes(volumes: list[Object]) -> Iterator[tuple[str, str]]:
    for index, volume in enumerate(volumes):
        for kind, why in _VOLUME_REASONS.items():
            if kind in volume:
                yield f"volumes[{index}].{kind}", why
        projected = volume.get("projected") or {}
        if any("serviceAccountToken" in source for source in _list(projected.get("sources"))):
            yield f"volumes[{index}].projected", "pods here get no token of the API server"


def _container(container: Object) -> Iterator[tuple[str, str]]:
    for index, port in enumerate(_list(container.get("ports"))):
        if port.get("hostPort"):
            yield f"ports[{index}].hostPort", "a pod here may not take a port of the node"
    context = container.get("securityContext") or {}
    if context.get("privileged"):
        yield "securityContext.privileged", "no container here may be privileged"


def _list(value: JSON) -> list[Object]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
