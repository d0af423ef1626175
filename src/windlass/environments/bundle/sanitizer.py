"""Removes from an object what it may not contain, and notes what was removed.

| Left out | Where |
|---|---|
| finalizers, ownerReferences | all metadata: they tie an object to what is elsewhere |
| labels and annotations of the operator | all metadata |
| annotations and labels known to act outside (`annotation_rules`) | all metadata |
| annotations not known to be harmless | pods, Services, accounts and claims of the untrusted |
| node ports, load balancers | Services: all are of type ClusterIP |

One note per object lists what was removed. `bundle` calls it after the rules, so objects have
the shape that `shapes` requires.

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
"""Kinds whose own annotations act outside so often that untrusted ones must be known."""

_EXTERNAL_TYPES = frozenset({"LoadBalancer", "NodePort"})
_EXTERNAL_FIELDS = (
    "allocateLoadBalancerNodePorts",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "loadBalancerClass",
    "loadBalancerIP",
    "loadBalancerSourceRanges",
)
"""Fields that the API server accepts only in a Service of type NodePort or LoadBalancer."""

_EPHEMERAL = ("ephemeral", "volumeClaimTemplate")
_NODE_PORT = "nodePort"
_NAMED_AT_MOST = 8


@dataclass(slots=True)
class _Sanitizer:
    """Sanitizes one object, and collects the paths of what it removes."""

    cluster_access: ClusterAccess
    trusted: bool
    paths: list[str] = field(default_factory=list)  # removed so far, for the note

    def metadata(self, metadata: JSON, path: str, *, exposed: bool) -> JSON:
        """Metadata at `path` without removed keys; `exposed` as `_EXPOSED_KINDS` are."""
        for name in _OWNERSHIP_FIELDS:
            if metadata.get(name):
                self.paths.append(join_path(path, name))
        sanitized = {
            name: value for name, value in metadata.items() if name not in _OWNERSHIP_FIELDS
        }
        for part in ("labels", "annotations"):
            if sanitized.get(part):
                sanitized[part] = self._filter_keys(
                    part, sanitized[part], join_path(path, part), exposed=exposed
                )
        return sanitized

    def service(self, spec: JSON) -> JSON:
        """The spec of a Service as type ClusterIP, without fields of the external types."""
        removed = [name for name in _EXTERNAL_FIELDS if spec.get(name) is not None]
        self.paths += [f"spec.{name}" for name in removed]
        sanitized = {name: value for name, value in spec.items() if name not in _EXTERNAL_FIELDS}
        if sanitized.get("type") in _EXTERNAL_TYPES:
            sanitized["type"] = "ClusterIP"
        if sanitized.get("ports"):
            sanitized["ports"] = [self._port(*row) for row in enumerate(sanitized["ports"])]
        return sanitized

    def _port(self, index: int, port: Object) -> Object:
        if port.get(_NODE_PORT):
            self.paths.append(f"spec.ports[{index}].{_NODE_PORT}")
        return {name: value for name, value in port.items() if name != _NODE_PORT}

    def _filter_keys(self, part: str, entries: Object, path: str, *, exposed: bool) -> Object:
        removed = {key for key in entries if labeling.is_operator_key(key)}
        if part == "annotations":
            removed.update(
                annotation_rules.disallowed_annotations(
                    entries, self.cluster_access, trusted=self.trusted or not exposed
                )
            )
        else:
            removed.update(annotation_rules.disallowed_labels(entries, self.cluster_access))
        removed -= labeling.PROJECT_KEYS
        self.paths += [join_path(path, key) for key in entries if key in removed]
        return {key: value for key, value in entries.items() if key not in removed}


def sanitize_object(obj: Object, access: ClusterAccess, *, trusted: bool) -> tuple[Object, str]:
    """An allowed object without what it may not contain, and a note; empty if unchanged."""
    run = _Sanitizer(access, trusted)
    sanitized = _sanitized(obj, run)
    return sanitized, _note(obj, sanitized, run.paths)


def _sanitized(obj: Object, run: _Sanitizer) -> Object:
    for path, exposed in _metadata_paths(obj):
        shown = ".".join(path)

        def change(value: JSON, shown: str = shown, exposed: bool = exposed) -> JSON:
            return run.metadata(value, shown, exposed=exposed)

        obj = labeling.edit_at(obj, path, change)
    obj = _sanitize_claims(obj, run)
    if obj.get("kind") == "Service":
        obj = labeling.edit_at(obj, ("spec",), run.service)
    return obj


def _metadata_paths(obj: Object) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Paths of all metadata in an object, each with whether it is exposed."""
    allowed = kinds.allowed_kind(obj)
    yield ("metadata",), obj.get("kind") in _EXPOSED_KINDS
    for path in kinds.template_paths(obj):
        yield (*path, "metadata"), allowed is not None and path == allowed.template


def _sanitize_claims(obj: Object, run: _Sanitizer) -> Object:
    """Sanitize the templates of claims, which are as exposed as claims are."""

    def template(value: JSON, path: str) -> JSON:
        shown = join_path(path, "metadata")
        return labeling.edit_at(
            value, ("metadata",), lambda inner: run.metadata(inner, shown, exposed=True)
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

    allowed = kinds.allowed_kind(obj)
    sanitized: Object = labeling.edit_at(obj, ("spec", "volumeClaimTemplates"), claims)
    if allowed is not None and allowed.template is not None:
        sanitized = labeling.edit_at(sanitized, (*allowed.template, "spec", "volumes"), volumes)
    return sanitized


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
