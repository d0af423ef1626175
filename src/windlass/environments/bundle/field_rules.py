"""Rules that refuse fields of an allowed object, and containers that cannot start.

Each rule closes one way out of the namespace: onto the node, into another account, or past the
network isolation. All violations of a bundle are found together, each with the path of its
field, so that they can be fixed together. What the Pod Security level of the namespace refuses
anyway (capabilities, sysctls, procMount, ...) is left to it.

Containers without an image, or with more resources than the maximum, are refused here too: the
API server refuses the pods of a workload only later, on another object, and for a LimitRange
without a field path. `bundle` checks the shape of objects first (`shapes`), so values have the
expected types here.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from windlass.environments import ownership
from windlass.environments.bundle import kinds, storage_rules
from windlass.environments.bundle.cluster_access import ClusterAccess
from windlass.environments.bundle.shapes import Fault, join_path
from windlass.objects import quantity
from windlass.objects.names import JSON, Object

_OWN_ACCOUNT = "default"
_INSIDE_TYPES = frozenset({None, "", "ClusterIP", "LoadBalancer", "NodePort"})
"""Types of Services that are, or can be made, reachable inside the cluster alone."""

_SCHEDULER = "default-scheduler"
_AUTOMOUNT = "automountServiceAccountToken"
_TOKENLESS = "pods must not have API tokens"
_NO_AUTOMOUNT = f"{_TOKENLESS}; remove the field or set it to false"
_NO_PROJECTION = f"{_TOKENLESS}; remove this source"
_NO_HOST_NAMESPACES = "host namespaces are not allowed; remove the field"
_NO_PLACEMENT = "is set by the administrator; remove the field"
_POD_FIELDS = {
    "hostNetwork": _NO_HOST_NAMESPACES,
    "hostPID": _NO_HOST_NAMESPACES,
    "hostIPC": _NO_HOST_NAMESPACES,
    "nodeName": _NO_PLACEMENT,
    "priorityClassName": _NO_PLACEMENT,
    "runtimeClassName": _NO_PLACEMENT,
    "ephemeralContainers": "ephemeral containers are not allowed; remove the field",
}
_NO_NODE_CHOICE = "is set by the administrator for untrusted Environments; remove the field"
_NODE_CHOICES = (("tolerations",), ("nodeSelector",), ("affinity", "nodeAffinity"))
"""Fields by which a pod chooses its nodes."""

_POD_AFFINITIES = ("podAffinity", "podAntiAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

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
"""Volume types whose content belongs to the namespace; others reach a node or a server."""

_CREDENTIALS = ("serviceAccountToken", "podCertificate")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_MOST_CHARS = 253


@dataclass(frozen=True, slots=True)
class Violation:
    """One reason why a bundle is refused."""

    reason: str  # condition reason
    where: str  # kind, name and path of the field
    why: str
    file: str = ""  # where the project wrote the object

    def __str__(self) -> str:
        where = f"{escape(self.file)}, {self.where}" if self.file else self.where
        return f"{where}: {self.why}"


def field_violations(
    obj: Object, accounts: frozenset[str], access: ClusterAccess, *, trusted: bool = True
) -> Iterator[Violation]:
    """Every refused field of one allowed object; `accounts` are ServiceAccounts of the bundle."""
    name = describe(obj)
    faults = (
        *_field_faults(obj, accounts),
        *storage_rules.claim_faults(obj, access.storage_classes),
        *_cluster_access_faults(obj, access),
    )
    for path, why in faults if trusted else (*faults, *_node_choice_faults(obj)):
        yield Violation("FieldNotAllowed", f"{name} {path}", why)
    for path, why in _token_faults(obj):
        yield Violation("TokenNotAllowed", f"{name} {path}", why)


def describe(obj: Object) -> str:
    """Kind and name, for messages."""
    return f"{escape(obj.get('kind') or 'object')}/{escape(object_name(obj) or '(unnamed)')}"


def object_name(obj: Object) -> str:
    """The name of an object; empty where it has none."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def escape(value: JSON) -> str:
    """A value of a manifest for a message: printable, one line, bounded."""
    text = "".join(char if char.isprintable() else "?" for char in str(value)[:_MOST_CHARS])
    return text.encode("utf-8", "replace").decode()


def _field_faults(obj: Object, accounts: frozenset[str]) -> Iterator[Fault]:
    if obj.get("kind") == "Service":
        yield from _service_faults(obj.get("spec") or {})
    if kinds.selector_path(obj):
        yield from _selector_faults(obj, kinds.selector_path(obj))
    spec = kinds.pod_spec(obj)
    if spec is not None:
        path = kinds.pod_spec_path(obj)
        for inner, why in _pod_faults(spec, accounts):
            yield f"{path}.{inner}", why


def _token_faults(obj: Object) -> Iterator[Fault]:
    """Ways to a token of the API server: mounted, projected, or stored in a Secret."""
    if obj.get("kind") == "Secret" and "service-account-token" in str(obj.get("type", "")):
        yield "type", "Secrets with API tokens are not allowed; remove the Secret"
    if obj.get("kind") == "ServiceAccount" and obj.get(_AUTOMOUNT):
        yield _AUTOMOUNT, _NO_AUTOMOUNT
    spec, path = kinds.pod_spec(obj) or {}, kinds.pod_spec_path(obj)
    if spec.get(_AUTOMOUNT):
        yield f"{path}.{_AUTOMOUNT}", _NO_AUTOMOUNT
    for index, volume in enumerate(spec.get("volumes") or ()):
        sources = (volume.get("projected") or {}).get("sources") or ()
        for number, source in enumerate(sources):
            for name in _CREDENTIALS:
                if source.get(name) is not None:
                    inner = f"volumes[{index}].projected.sources[{number}].{name}"
                    yield f"{path}.{inner}", _NO_PROJECTION


def _service_faults(spec: Object) -> Iterator[Fault]:
    if spec.get("type") not in _INSIDE_TYPES:
        yield (
            "spec.type",
            f"{escape(spec['type'])} would bypass the isolation; use ClusterIP",
        )
    for name in ("externalIPs", "externalName"):
        if spec.get(name):
            yield f"spec.{name}", "would bypass the isolation; remove the field"


def _selector_faults(obj: Object, path: tuple[str, ...]) -> Iterator[Fault]:
    """Selectors with labels that are removed from pods: they would silently select nothing."""
    for key in kinds.map_at(obj, path) or {}:
        if key.startswith(ownership.OPERATOR_PREFIXES) and key not in ownership.POD_LABELS:
            yield (
                join_path(".".join(path), key),
                "this label is reserved for the operator; select by another label",
            )


def _pod_faults(spec: Object, accounts: frozenset[str]) -> Iterator[Fault]:
    for name, why in _POD_FIELDS.items():
        if spec.get(name):
            yield name, why
    for name in ("serviceAccountName", "serviceAccount"):
        account = spec.get(name) or _OWN_ACCOUNT
        if account != _OWN_ACCOUNT and account not in accounts:
            yield (
                name,
                f"ServiceAccount {escape(account)} not found in the manifests; add it",
            )
    for index, volume in enumerate(spec.get("volumes") or ()):
        for inner, why in _volume_faults(volume):
            yield f"volumes[{index}].{inner}", why
    yield from _containers_faults(spec)


def _node_choice_faults(obj: Object) -> Iterator[Fault]:
    """Fields by which pods of an untrusted Environment would choose nodes."""
    spec = kinds.pod_spec(obj) or {}
    for path in _NODE_CHOICES:
        holder = kinds.map_at(spec, path[:-1]) or {}
        if holder.get(path[-1]):
            yield ".".join((kinds.pod_spec_path(obj), *path)), _NO_NODE_CHOICE
    for inner, term in _pod_affinity_terms(spec):
        # An empty list means the own namespace, an empty selector all namespaces.
        if term.get("namespaces"):
            yield f"{kinds.pod_spec_path(obj)}.{inner}.namespaces", _NO_NODE_CHOICE
        if term.get("namespaceSelector") is not None:
            yield f"{kinds.pod_spec_path(obj)}.{inner}.namespaceSelector", _NO_NODE_CHOICE


def _pod_affinity_terms(spec: Object) -> Iterator[tuple[str, Object]]:
    """Terms that place a pod near to or away from other pods, with their paths."""
    for name in _POD_AFFINITIES:
        affinity = kinds.map_at(spec, ("affinity", name)) or {}
        for index, term in enumerate(affinity.get(_REQUIRED) or ()):
            yield f"affinity.{name}.{_REQUIRED}[{index}]", term
        for index, weighted in enumerate(affinity.get(_PREFERRED) or ()):
            path = f"affinity.{name}.{_PREFERRED}[{index}].podAffinityTerm"
            yield path, weighted.get("podAffinityTerm") or {}


def _cluster_access_faults(obj: Object, access: ClusterAccess) -> Iterator[Fault]:
    """Schedulers and CSI drivers that the administrator did not allow."""
    spec, path = kinds.pod_spec(obj) or {}, kinds.pod_spec_path(obj)
    scheduler = spec.get("schedulerName") or _SCHEDULER
    if scheduler not in {_SCHEDULER, *access.schedulers}:
        why = "this scheduler is not allowed; remove the field, or ask the administrator to add "
        yield f"{path}.schedulerName", f"{why}it to --environments-schedulers"
    for index, volume in enumerate(spec.get("volumes") or ()):
        driver = (volume.get("csi") or {}).get("driver")
        if driver is not None and driver not in access.csi_drivers:
            why = "this CSI driver is not allowed inline; use a claim, or ask the administrator to "
            yield (
                f"{path}.volumes[{index}].csi.driver",
                f"{why}add it to --environments-csi-drivers",
            )


def _volume_faults(volume: Object) -> Iterator[Fault]:
    for kind in sorted(volume.keys() - _VOLUMES - {"name"}):
        if volume[kind] is not None:
            yield (
                join_path("", kind),
                "this volume type is not allowed: it reaches outside the namespace; use emptyDir, "
                "a ConfigMap, a Secret or a claim",
            )


def _containers_faults(spec: Object) -> Iterator[Fault]:
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            for inner, why in _container_faults(container):
                yield f"{group}[{index}].{inner}", why


def _container_faults(container: Object) -> Iterator[Fault]:
    for index, port in enumerate(container.get("ports") or ()):
        for name in ("hostPort", "hostIP"):
            if port.get(name):
                yield f"ports[{index}].{name}", "host ports are not allowed; remove the field"
    if (container.get("securityContext") or {}).get("privileged"):
        yield (
            "securityContext.privileged",
            "privileged containers are not allowed; remove the field",
        )
    for path, handler in _handlers(container):
        for name in ("httpGet", "tcpSocket"):
            if (handler.get(name) or {}).get("host"):
                yield (
                    f"{path}.{name}.host",
                    "is not allowed: the node would connect from outside the isolation; remove the "
                    "field",
                )


def _handlers(container: Object) -> Iterator[tuple[str, Object]]:
    """Probes and lifecycle hooks of a container, which the kubelet calls, with their paths."""
    for name in _PROBES:
        yield name, container.get(name) or {}
    for name in _HOOKS:
        yield f"lifecycle.{name}", (container.get("lifecycle") or {}).get(name) or {}


_NO_IMAGE = "image is required; set it with a tag or a digest"


def container_violations(obj: Object, maximum: Mapping[str, str]) -> Iterator[Violation]:
    """Every refused container of one allowed object; `maximum` is per container, by resource."""
    spec, path = kinds.pod_spec(obj) or {}, f"{describe(obj)} {kinds.pod_spec_path(obj)}"
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            where = f"{path}.{group}[{index}]"
            if not container.get("image"):
                yield Violation("ImageMissing", f"{where}.image", _NO_IMAGE)
            yield from _above_maximum(container.get("resources") or {}, where, maximum)


def _above_maximum(
    resources: Object, where: str, maximum: Mapping[str, str]
) -> Iterator[Violation]:
    for part in ("requests", "limits"):
        for name, amount in (resources.get(part) or {}).items():
            # Amounts of other resources, such as devices, have no maximum here.
            if amount is None or name not in maximum:
                continue
            if quantity.parse(amount) > quantity.parse(maximum[name]):
                why = (
                    f"exceeds the maximum of {maximum[name]} per container; lower it, or raise "
                    "spec.resources.limitRange.max or the quota of the Project"
                )
                yield Violation("LimitAboveMaximum", f"{where}.resources.{part}.{name}", why)
