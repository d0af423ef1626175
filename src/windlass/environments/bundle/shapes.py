"""Type checks of an object, before any other rule reads it.

A shape looks like the object that it describes, with a check in the place of each value:

| In a shape | Means |
|---|---|
| `{"key": shape}` | a map; keys that are not listed are not checked |
| `{"key!": shape}` | and this one may be neither missing nor empty |
| `{"*": shape}` | a map whose values all have one shape |
| `[shape]` | a list whose items all have one shape; none may be missing or empty |

Null counts as absent, as it does for the API server. No message repeats a value: what is in the
wrong field may be a credential.

Shapes describe the fields that are read or filled in later, and those that an API server refuses
without a path; all others are left to the server. After this, rules and defaults need no type
checks.

Pure.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from windlass.objects import quantity
from windlass.objects.names import JSON, Object

Fault = tuple[str, str]
"""The path of a value, and what is wrong with it."""

Check = Callable[[JSON, str], Iterator[Fault]]
Shape: TypeAlias = "Check | Mapping[str, Shape] | Sequence[Shape]"

_MOST_SHOWN_CHARS = 63
_LEAST_INTEGER, _MOST_INTEGER = -(2**63), 2**63 - 1


def _faults(shape: Shape, value: JSON, path: str) -> Iterator[Fault]:
    if value is None:
        return
    if callable(shape):
        yield from shape(value, path)
    elif isinstance(shape, Mapping):
        yield from _map_faults(shape, value, path)
    elif not isinstance(value, list):
        yield path, "must be a list"
    else:
        for index, item in enumerate(value):
            yield from _required_faults(shape[0], item, f"{path}[{index}]")


def _map_faults(shape: Mapping[str, Shape], value: JSON, path: str) -> Iterator[Fault]:
    if not isinstance(value, dict):
        yield path, "must be a map"
        return
    for name, inner in shape.items():
        if name == "*":
            for key, item in value.items():
                yield from _faults(inner, item, join_path(path, key))
        elif name.endswith("!"):
            key = name.removesuffix("!")
            yield from _required_faults(inner, value.get(key), join_path(path, key))
        else:
            yield from _faults(inner, value.get(name), join_path(path, name))


def _required_faults(shape: Shape, value: JSON, path: str) -> Iterator[Fault]:
    if value is None or value in ([], {}, ""):
        yield path, "is required"
    else:
        yield from _faults(shape, value, path)


def text(value: JSON, path: str) -> Iterator[Fault]:
    """A string; unquoted in YAML it may be parsed as a number, a boolean or a date."""
    if not isinstance(value, str):
        yield path, "must be a string; quote it"


def quantity_text(value: JSON, path: str) -> Iterator[Fault]:
    """A Kubernetes quantity, as a string or a number."""
    try:
        quantity.parse(value)
    except quantity.QuantityRefused:
        yield path, "must be a quantity such as 500m, 2 or 1Gi"


def base64_text(value: JSON, path: str) -> Iterator[Fault]:
    """Base64; line breaks are allowed, as a folded YAML scalar has them."""
    try:
        base64.b64decode("".join(value.splitlines()), validate=True)
    except (AttributeError, ValueError, binascii.Error):
        yield path, "must be base64; use stringData for plain text"


def anything(value: JSON, path: str) -> Iterator[Fault]:
    """Any JSON value that the API server can store."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _surrogate_faults(name, path)
            yield from anything(item, join_path(path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from anything(item, f"{path}[{index}]")
    elif isinstance(value, str):
        yield from _surrogate_faults(value, path)
    elif isinstance(value, int | float) and not _is_storable(value):
        yield path, "is a number that the API server cannot store"


def join_path(path: str, name: str) -> str:
    """The path of a member, with its name cut to a readable length."""
    shown = name if len(name) <= _MOST_SHOWN_CHARS else f"{name[:_MOST_SHOWN_CHARS]}…"
    plain = shown.encode("utf-8", "replace").decode()
    return f"{path}.{plain}" if path else plain


def _surrogate_faults(value: str, path: str) -> Iterator[Fault]:
    try:
        value.encode()
    except UnicodeEncodeError:
        yield path, "contains invalid Unicode (a lone surrogate)"


def _is_storable(value: int | float) -> bool:  # noqa: PYI041 - bounds differ
    if isinstance(value, float):
        return math.isfinite(value)
    return _LEAST_INTEGER <= value <= _MOST_INTEGER


_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_MOST_NAME_CHARS = 253

_TEXTS: Shape = {"*": text}
_BYTES: Shape = {"*": base64_text}
_LABELED: Shape = {"labels": _TEXTS, "annotations": _TEXTS}
_SELECTOR: Shape = {"matchLabels": _TEXTS, "matchExpressions": [{"key!": text}]}
_CLAIM_SPEC: Shape = {"storageClassName": text, "volumeName": text}
_CLAIM: Shape = {"metadata": _LABELED, "spec": _CLAIM_SPEC}
_HANDLER: Shape = {"httpGet": {}, "tcpSocket": {}}
_CONTAINER: Shape = {
    "name!": text,
    "image": text,
    "ports": [{}],
    "resources": {"requests": {"*": quantity_text}, "limits": {"*": quantity_text}},
    "securityContext": {"capabilities": {}},
    "livenessProbe": _HANDLER,
    "readinessProbe": _HANDLER,
    "startupProbe": _HANDLER,
    "lifecycle": {"postStart": _HANDLER, "preStop": _HANDLER},
}
_VOLUME: Shape = {
    "name!": text,
    "projected": {"sources": [{}]},
    "ephemeral": {"volumeClaimTemplate": _CLAIM},
    "csi": {"driver!": text},
}
_POD_TERMS: Shape = {
    "requiredDuringSchedulingIgnoredDuringExecution": [{}],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {}}],
}
_POD: Shape = {
    "containers!": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "ephemeralContainers": [_CONTAINER],
    "volumes": [_VOLUME],
    "affinity": {"podAffinity": _POD_TERMS, "podAntiAffinity": _POD_TERMS},
    "securityContext": {},
    "serviceAccountName": text,
    "serviceAccount": text,
    "schedulerName": text,
}
_TEMPLATE: Shape = {"metadata": _LABELED, "spec!": _POD}
_JOB: Shape = {"selector": _SELECTOR, "template!": _TEMPLATE}
_WORKLOAD: Shape = {
    "selector": _SELECTOR,
    "template!": _TEMPLATE,
    "volumeClaimTemplates": [_CLAIM],
}
_SHAPES: dict[str, Shape] = {
    "ConfigMap": {"data": _TEXTS, "binaryData": _BYTES},
    "Secret": {"data": _BYTES, "stringData": _TEXTS, "type": text},
    "Service": {"spec": {"selector": _TEXTS, "ports": [{}], "type": text}},
    "PersistentVolumeClaim": {"spec": _CLAIM_SPEC},
    "Pod": {"spec!": _POD},
    "ReplicationController": {"spec!": {"selector": _TEXTS, "template!": _TEMPLATE}},
    "Deployment": {"spec!": _WORKLOAD},
    "StatefulSet": {"spec!": _WORKLOAD},
    "DaemonSet": {"spec!": _WORKLOAD},
    "Job": {"spec!": _JOB},
    "CronJob": {"spec!": {"jobTemplate!": {"metadata": _LABELED, "spec!": _JOB}}},
    "HorizontalPodAutoscaler": {"spec!": {"scaleTargetRef!": {"kind!": text, "name!": text}}},
    "PodDisruptionBudget": {"spec": {"selector": _SELECTOR}},
}


def _name(value: JSON, path: str) -> Iterator[Fault]:
    if not isinstance(value, str):
        yield from text(value, path)
    elif len(value) > _MOST_NAME_CHARS or not _NAME.fullmatch(value):
        yield path, "must consist of lowercase letters, digits, - and ., at most 253 characters"


_METADATA: Shape = {"name!": _name, "namespace": text, "labels": _TEXTS, "annotations": _TEXTS}


def shape_faults(obj: Object) -> Iterator[Fault]:
    """All faults in the shape of an object of an allowed kind."""
    yield from anything(obj, "")
    yield from _required_faults(_METADATA, obj.get("metadata"), "metadata")
    yield from _faults(_SHAPES.get(str(obj.get("kind")), {}), obj, "")
