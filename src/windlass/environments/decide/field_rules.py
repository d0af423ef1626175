"""Which fields of an allowed object are refused.

Each rule closes one way out of the namespace: onto the node, into another account, or to
the outside without the operator's fence. All offences of a bundle are found at once, each
with the path of its field, so that they can be mended at once. What the Pod Security level
of the namespace refuses anyway (capabilities, sysctls, procMount, ...) is left to it.
Objects have the shape that `object_shapes` asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.environments.decide import claims, kinds, marks
from windlass.environments.decide.reach import Reach
from windlass.environments.decide.shapes import Fault, joined
from windlass.objects.names import JSON, Object

_OWN_ACCOUNT = "default"
_INSIDE_TYPES = frozenset({None, "", "ClusterIP", "LoadBalancer", "NodePort"})
"""Types of Services that are, or can be made, reachable inside the cluster alone."""

_SCHEDULER = "default-scheduler"
_AUTOMOUNT = "automountServiceAccountToken"
_CLOSED = "pods here get no token of the API server"
_UNMOUNTED = f"{_CLOSED}; remove the field or set it to false"
_UNPROJECTED = f"{_CLOSED}; remove this source"
_SHARED = "a pod here may not share the node's namespaces"
_PLACED = "where and how urgently a pod runs is the administrator's to say"
_POD_FIELDS = {
    "hostNetwork": _SHARED,
    "hostPID": _SHARED,
    "hostIPC": _SHARED,
    "nodeName": _PLACED,
    "priorityClassName": _PLACED,
    "runtimeClassName": _PLACED,
    "ephemeralContainers": "they are for a look into a running pod, not for manifests",
}
_CHOSEN = "where the pods of an untrusted Environment run is the administrator's to say"
_CHOICES = (("tolerations",), ("nodeSelector",), ("affinity", "nodeAffinity"))
"""How a pod says on which nodes it may run."""

_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
"""The volumes that hold what is the namespace's own; others reach a node or a server."""

_CREDENTIALS = ("serviceAccountToken", "podCertificate")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_MOST_CHARS = 253


@dataclass(frozen=True, slots=True)
class Offence:
    """One thing that may not be applied, why, and the file in which it stands."""

    reason: str
    where: str
    why: str
    file: str = ""

    def __str__(self) -> str:
        where = f"{shown(self.file)}, {self.where}" if self.file else self.where
        return f"{where}: {self.why}"


def offences(
    obj: Object, accounts: frozenset[str], reach: Reach, *, trusted: bool = True
) -> Iterator[Offence]:
    """Every refused field of one allowed object; `accounts` are those the bundle brings."""
    name = describe(obj)
    faults = (*_found(obj, accounts), *claims.faults(obj, reach.classes), *_lent(obj, reach))
    for path, why in faults if trusted else (*faults, *_choices(obj)):
        yield Offence("FieldNotAllowed", f"{name} {path}", why)
    for path, why in _tokens(obj):
        yield Offence("TokenNotAllowed", f"{name} {path}", why)


def describe(obj: Object) -> str:
    """Kind and name, for messages."""
    return f"{shown(obj.get('kind') or 'an object')}/{shown(name_of(obj) or '(unnamed)')}"


def name_of(obj: Object) -> str:
    """The name; empty where there is none that could be one."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def shown(value: JSON) -> str:
    """A word of a manifest as a message may show it: one line, not too long."""
    text = "".join(char if char.isprintable() else "?" for char in str(value)[:_MOST_CHARS])
    return text.encode("utf-8", "replace").decode()


def _found(obj: Object, accounts: frozenset[str]) -> Iterator[Fault]:
    kind = obj.get("kind")
    if kind == "Service":
        yield from _service(obj.get("spec") or {})
    if kind in kinds.SELECTORS:
        yield from _selector(obj, kinds.SELECTORS[kind])
    spec = kinds.pod_spec(obj)
    if spec is not None:
        path = kinds.pod_path(obj)
        for inner, why in _pod(spec, accounts):
            yield f"{path}.{inner}", why


def _tokens(obj: Object) -> Iterator[Fault]:
    """Ways to a token of the API server: mounted, projected, or kept in a Secret."""
    if obj.get("kind") == "Secret" and "service-account-token" in str(obj.get("type", "")):
        yield "type", "a Secret of this type would hold a token of the API server; remove it"
    if obj.get("kind") == "ServiceAccount" and obj.get(_AUTOMOUNT):
        yield _AUTOMOUNT, _UNMOUNTED
    spec, path = kinds.pod_spec(obj) or {}, kinds.pod_path(obj)
    if spec.get(_AUTOMOUNT):
        yield f"{path}.{_AUTOMOUNT}", _UNMOUNTED
    for index, volume in enumerate(spec.get("volumes") or ()):
        sources = (volume.get("projected") or {}).get("sources") or ()
        for number, source in enumerate(sources):
            for name in _CREDENTIALS:
                if source.get(name) is not None:
                    inner = f"volumes[{index}].projected.sources[{number}].{name}"
                    yield f"{path}.{inner}", _UNPROJECTED


def _service(spec: Object) -> Iterator[Fault]:
    if spec.get("type") not in _INSIDE_TYPES:
        yield "spec.type", f"{shown(spec['type'])} would open a way around the fence; use ClusterIP"
    for name in ("externalIPs", "externalName"):
        if spec.get(name):
            yield f"spec.{name}", "it would lead traffic around the fence"


def _selector(obj: Object, path: tuple[str, ...]) -> Iterator[Fault]:
    """Labels that are dropped from pods select nothing, and nobody would see why."""
    for key in kinds.at(obj, path) or {}:
        if key.startswith(marks.OPERATORS) and key not in marks.SELECTING:
            yield joined(".".join(path), key), "only the operator sets it; select by another label"


def _pod(spec: Object, accounts: frozenset[str]) -> Iterator[Fault]:
    for name, why in _POD_FIELDS.items():
        if spec.get(name):
            yield name, why
    for name in ("serviceAccountName", "serviceAccount"):
        account = spec.get(name) or _OWN_ACCOUNT
        if account != _OWN_ACCOUNT and account not in accounts:
            yield name, f"{shown(account)} is not a ServiceAccount of this bundle"
    for index, volume in enumerate(spec.get("volumes") or ()):
        for inner, why in _volume(volume):
            yield f"volumes[{index}].{inner}", why
    yield from _containers(spec)


def _choices(obj: Object) -> Iterator[Fault]:
    """Nodes that pods of an untrusted Environment would choose."""
    spec = kinds.pod_spec(obj) or {}
    for path in _CHOICES:
        holder = kinds.at(spec, path[:-1]) or {}
        if holder.get(path[-1]):
            yield ".".join((kinds.pod_path(obj), *path)), _CHOSEN


def _lent(obj: Object, reach: Reach) -> Iterator[Fault]:
    """Schedulers and CSI drivers that the administrator does not list."""
    spec, path = kinds.pod_spec(obj) or {}, kinds.pod_path(obj)
    scheduler = spec.get("schedulerName") or _SCHEDULER
    if scheduler not in {_SCHEDULER, *reach.schedulers}:
        why = "this scheduler is not allowed; remove the field, or ask the administrator to add "
        yield f"{path}.schedulerName", f"{why}it to environments-schedulers"
    for index, volume in enumerate(spec.get("volumes") or ()):
        driver = (volume.get("csi") or {}).get("driver")
        if driver is not None and driver not in reach.csi_drivers:
            why = "this CSI driver is not allowed inline; use a claim, or ask the administrator to "
            yield f"{path}.volumes[{index}].csi.driver", f"{why}add it to environments-csi-drivers"


def _volume(volume: Object) -> Iterator[Fault]:
    for kind in sorted(volume.keys() - _VOLUMES - {"name"}):
        if volume[kind] is not None:
            yield joined("", kind), "it reaches what is outside of the namespace"


def _containers(spec: Object) -> Iterator[Fault]:
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            for inner, why in _container(container):
                yield f"{group}[{index}].{inner}", why


def _container(container: Object) -> Iterator[Fault]:
    for index, port in enumerate(container.get("ports") or ()):
        for name in ("hostPort", "hostIP"):
            if port.get(name):
                yield f"ports[{index}].{name}", "a pod here may not take a port of the node"
    if (container.get("securityContext") or {}).get("privileged"):
        yield "securityContext.privileged", "no container here may be privileged"
    for path, handler in _handlers(container):
        for name in ("httpGet", "tcpSocket"):
            if (handler.get(name) or {}).get("host"):
                yield f"{path}.{name}.host", "the node would call it, from outside the fence"


def _handlers(container: Object) -> Iterator[tuple[str, Object]]:
    """Where a container says what the node is to call."""
    for name in _PROBES:
        yield name, container.get(name) or {}
    for name in _HOOKS:
        yield f"lifecycle.{name}", (container.get("lifecycle") or {}).get(name) or {}
