"""Removes from an object what it may not contain, and notes what was removed.

| Left out | Where |
|---|---|
| finalizers, ownerReferences | all metadata: they tie an object to what is elsewhere |
| labels and annotations of the operator | all metadata |
| annotations and labels that act outside (`annotation_rules`) | pods, Services, accounts, claims |
| node ports, load balancers | Services: all are of type ClusterIP |

Everything that a project wrote and does not get is named in one note per object. Objects
have the shape that `shapes` requires.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from windlass.environments.bundle import annotation_rules, field_rules, kinds, labeling
from windlass.environments.bundle.cluster_access import ClusterAccess
from windlass.environments.bundle.shapes import join_path
from windlass.objects.names import JSON, Object

_OWNERSHIP_FIELDS = ("finalizers", "ownerReferences")
_EXPOSED_KINDS = frozenset({"PersistentVolumeClaim", "Pod", "Service", "ServiceAccount"})
"""Kinds whose own annotations others act upon."""

_EXTERNAL_TYPES = frozenset({"LoadBalancer", "NodePort"})
_EXTERNAL_FIELDS = (
    "allocateLoadBalancerNodePorts",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "loadBalancerClass",
    "loadBalancerIP",
    "loadBalancerSourceRanges",
)
"""Fields of a Service that the API server takes for a node port or load balancer only."""

_EPHEMERAL = ("ephemeral", "volumeClaimTemplate")
_NODE_PORT = "nodePort"
_NAMED_AT_MOST = 8


@dataclass(slots=True)
class _Sanitizer:
    """One object on its way, and the paths of what it lost."""

    cluster_access: ClusterAccess
    trusted: bool
    paths: list[str] = field(default_factory=list)

    def metadata(self, metadata: JSON, path: str, *, exposed: bool) -> JSON:
        """Metadata at `path` without what it may not say."""
        for name in _OWNERSHIP_FIELDS:
            if metadata.get(name):
                self.paths.append(join_path(path, name))
        kept = {name: value for name, value in metadata.items() if name not in _OWNERSHIP_FIELDS}
        for part in ("labels", "annotations"):
            if kept.get(part):
                kept[part] = self._filter_keys(
                    part, kept[part], join_path(path, part), exposed=exposed
                )
        return kept

    def service(self, spec: JSON) -> JSON:
        """The spec of a Service that is reached inside the cluster alone."""
        lost = [name for name in _EXTERNAL_FIELDS if spec.get(name) is not None]
        self.paths += [f"spec.{name}" for name in lost]
        kept = {name: value for name, value in spec.items() if name not in _EXTERNAL_FIELDS}
        if kept.get("type") in _EXTERNAL_TYPES:
            kept["type"] = "ClusterIP"
        if kept.get("ports"):
            kept["ports"] = [self._port(*row) for row in enumerate(kept["ports"])]
        return kept

    def _port(self, index: int, port: Object) -> Object:
        if port.get(_NODE_PORT):
            self.paths.append(f"spec.ports[{index}].{_NODE_PORT}")
        return {name: value for name, value in port.items() if name != _NODE_PORT}

    def _filter_keys(self, part: str, said: Object, path: str, *, exposed: bool) -> Object:
        lost = {key for key in said if labeling.is_operator_key(key)}
        if exposed and part == "annotations":
            lost.update(
                annotation_rules.disallowed_annotations(
                    said, self.cluster_access, trusted=self.trusted
                )
            )
        elif exposed:
            lost.update(annotation_rules.disallowed_labels(said, self.cluster_access))
        lost -= labeling.PROJECT_KEYS
        self.paths += [join_path(path, key) for key in said if key in lost]
        return {key: value for key, value in said.items() if key not in lost}


def sanitize_object(obj: Object, reach: ClusterAccess, *, trusted: bool) -> tuple[Object, str]:
    """An allowed object without what it may not say, and the note about it, if any."""
    cleaning = _Sanitizer(reach, trusted)
    cleaned = _sanitized(obj, cleaning)
    return cleaned, _note(obj, cleaned, cleaning.paths)


def _sanitized(obj: Object, cleaning: _Sanitizer) -> Object:
    for path, exposed in _metadata_paths(obj):
        shown = ".".join(path)

        def change(value: JSON, shown: str = shown, exposed: bool = exposed) -> JSON:
            return cleaning.metadata(value, shown, exposed=exposed)

        obj = labeling.edit_at(obj, path, change)
    obj = _sanitize_claims(obj, cleaning)
    if obj.get("kind") == "Service":
        obj = labeling.edit_at(obj, ("spec",), cleaning.service)
    return obj


def _metadata_paths(obj: Object) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Where metadata stands in an object, and whether others act upon it."""
    found = kinds.allowed_kind(obj)
    yield ("metadata",), obj.get("kind") in _EXPOSED_KINDS
    for path in found.templates if found is not None else ():
        yield (*path, "metadata"), found is not None and path == found.template


def _sanitize_claims(obj: Object, cleaning: _Sanitizer) -> Object:
    """Templates of claims, which are as exposed as claims are."""

    def template(value: JSON, path: str) -> JSON:
        shown = join_path(path, "metadata")
        return labeling.edit_at(
            value, ("metadata",), lambda inner: cleaning.metadata(inner, shown, exposed=True)
        )

    def claims(rows: JSON) -> JSON:
        path = "spec.volumeClaimTemplates"
        return [template(row, f"{path}[{index}]") for index, row in enumerate(rows)]

    def volume(row: JSON, path: str) -> JSON:
        shown = ".".join((path, *_EPHEMERAL))
        return labeling.edit_at(row, _EPHEMERAL, lambda inner: template(inner, shown))

    def volumes(rows: JSON) -> JSON:
        path = f"{kinds.pod_spec_path(obj)}.volumes"
        return [volume(row, f"{path}[{index}]") for index, row in enumerate(rows)]

    found = kinds.allowed_kind(obj)
    changed: Object = labeling.edit_at(obj, ("spec", "volumeClaimTemplates"), claims)
    if found is not None and found.template is not None:
        changed = labeling.edit_at(changed, (*found.template, "spec", "volumes"), volumes)
    return changed


def _note(before: Object, after: Object, paths: list[str]) -> str:
    instead = _service_type(before) if _service_type(before) != _service_type(after) else ""
    if not instead and not paths:
        return ""
    text = f"{field_rules.describe(before)} is applied"
    if instead:
        text += f" as ClusterIP instead of {instead}"
    if paths:
        named = ", ".join(map(field_rules.escape, paths[:_NAMED_AT_MOST]))
        more = len(paths) - _NAMED_AT_MOST
        text += f"{',' if instead else ''} without {named}"
        text += f" and {more} more" if more > 0 else ""
    return text


def _service_type(obj: Object) -> str:
    """The type of a Service; empty for every other kind."""
    return str((obj.get("spec") or {}).get("type") or "") if obj.get("kind") == "Service" else ""
