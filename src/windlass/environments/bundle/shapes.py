"""Type checks of an object, before any other rule reads it.

A shape is a function that yields the faults of a JSON value, each with its path. Null counts as
absent, as it does for the API server. No message repeats a value: what is in the wrong field may
be a credential.

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
from collections.abc import Callable, Iterator

from windlass.objects import quantity
from windlass.objects.names import JSON, Object

Fault = tuple[str, str]
"""The path of a value, and what is wrong with it."""

Shape = Callable[[JSON, str], Iterator[Fault]]

_MOST_SHOWN_CHARS = 63
_LEAST_INTEGER, _MOST_INTEGER = -(2**63), 2**63 - 1


def map_with(**shapes: Shape) -> Shape:
    """A map whose values under these keys have these shapes; other keys are not checked."""

    def check(value: JSON, path: str) -> Iterator[Fault]:
        if value is None:
            return
        if not isinstance(value, dict):
            yield path, "must be a map"
            return
        for name, shape in shapes.items():
            yield from shape(value.get(name), join_path(path, name))

    return check


def list_of(shape: Shape) -> Shape:
    """A list whose items all have one shape; none may be missing or empty."""

    def check(value: JSON, path: str) -> Iterator[Fault]:
        if value is not None and not isinstance(value, list):
            yield path, "must be a list"
            return
        for index, item in enumerate(value or ()):
            yield from required(shape)(item, f"{path}[{index}]")

    return check


def required(shape: Shape) -> Shape:
    """A value that may be neither missing nor empty."""

    def check(value: JSON, path: str) -> Iterator[Fault]:
        if value is None or value in ([], {}, ""):
            yield path, "is required"
            return
        yield from shape(value, path)

    return check


def map_of(shape: Shape) -> Shape:
    """A map whose values all have one shape."""

    def check(value: JSON, path: str) -> Iterator[Fault]:
        if value is not None and not isinstance(value, dict):
            yield path, "must be a map"
            return
        for name, item in (value or {}).items():
            yield from shape(item, join_path(path, name))

    return check


def text(value: JSON, path: str) -> Iterator[Fault]:
    """A string; unquoted in YAML it may be parsed as a number, a boolean or a date."""
    if value is not None and not isinstance(value, str):
        yield path, "must be a string; quote it"


def quantity_text(value: JSON, path: str) -> Iterator[Fault]:
    """A Kubernetes quantity, as a string or a number."""
    try:
        if value is not None:
            quantity.parse(value)
    except quantity.QuantityRefused:
        yield path, "must be a quantity such as 500m, 2 or 1Gi"


def base64_text(value: JSON, path: str) -> Iterator[Fault]:
    """Base64; line breaks are allowed, as a folded YAML scalar has them."""
    try:
        if value is not None:
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

_TEXTS = map_of(text)
_BYTES = map_of(base64_text)
_LABELED = map_with(labels=_TEXTS, annotations=_TEXTS)
_SELECTOR = map_with(matchLabels=_TEXTS, matchExpressions=list_of(map_with(key=required(text))))
_CLAIM_SPEC = map_with(storageClassName=text, volumeName=text)
_CLAIM = map_with(metadata=_LABELED, spec=_CLAIM_SPEC)
_HANDLER = map_with(httpGet=map_with(), tcpSocket=map_with())
_CONTAINER = map_with(
    name=required(text),
    image=text,
    ports=list_of(map_with()),
    resources=map_with(requests=map_of(quantity_text), limits=map_of(quantity_text)),
    securityContext=map_with(capabilities=map_with()),
    livenessProbe=_HANDLER,
    readinessProbe=_HANDLER,
    startupProbe=_HANDLER,
    lifecycle=map_with(postStart=_HANDLER, preStop=_HANDLER),
)
_VOLUME = map_with(
    name=required(text),
    projected=map_with(sources=list_of(map_with())),
    ephemeral=map_with(volumeClaimTemplate=_CLAIM),
    csi=map_with(driver=required(text)),
)
_POD = required(
    map_with(
        containers=required(list_of(_CONTAINER)),
        initContainers=list_of(_CONTAINER),
        ephemeralContainers=list_of(_CONTAINER),
        volumes=list_of(_VOLUME),
        securityContext=map_with(),
        serviceAccountName=text,
        serviceAccount=text,
        schedulerName=text,
    )
)
_TEMPLATE = required(map_with(metadata=_LABELED, spec=_POD))
_JOB = map_with(selector=_SELECTOR, template=_TEMPLATE)
_WORKLOAD = map_with(selector=_SELECTOR, template=_TEMPLATE, volumeClaimTemplates=list_of(_CLAIM))
_TARGET = required(map_with(kind=required(text), name=required(text)))

_SHAPES: dict[str, Shape] = {
    "ConfigMap": map_with(data=_TEXTS, binaryData=_BYTES),
    "Secret": map_with(data=_BYTES, stringData=_TEXTS, type=text),
    "Service": map_with(spec=map_with(selector=_TEXTS, ports=list_of(map_with()), type=text)),
    "PersistentVolumeClaim": map_with(spec=_CLAIM_SPEC),
    "Pod": map_with(spec=_POD),
    "ReplicationController": map_with(spec=required(map_with(selector=_TEXTS, template=_TEMPLATE))),
    "Deployment": map_with(spec=required(_WORKLOAD)),
    "StatefulSet": map_with(spec=required(_WORKLOAD)),
    "DaemonSet": map_with(spec=required(_WORKLOAD)),
    "Job": map_with(spec=required(_JOB)),
    "CronJob": map_with(
        spec=required(
            map_with(jobTemplate=required(map_with(metadata=_LABELED, spec=required(_JOB))))
        )
    ),
    "HorizontalPodAutoscaler": map_with(spec=required(map_with(scaleTargetRef=_TARGET))),
    "PodDisruptionBudget": map_with(spec=map_with(selector=_SELECTOR)),
}


def shape_faults(obj: Object) -> Iterator[Fault]:
    """All faults in the shape of an object of an allowed kind."""
    yield from anything(obj, "")
    yield from _METADATA(obj.get("metadata"), "metadata")
    yield from _SHAPES.get(str(obj.get("kind")), map_with())(obj, "")


def _name(value: JSON, path: str) -> Iterator[Fault]:
    if not isinstance(value, str):
        yield from text(value, path)
    elif len(value) > _MOST_NAME_CHARS or not _NAME.fullmatch(value):
        yield path, "must consist of lowercase letters, digits, - and ., at most 253 characters"


_METADATA = required(
    map_with(name=required(_name), namespace=text, labels=_TEXTS, annotations=_TEXTS)
)
