"""The shape that an object must have before anything else is asked about it.

Only what is read or filled in here is described, and what an API server refuses without
saying where: the rest is the server's to judge. After this, rules and defaults need not
wonder what they find.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.environments.decide.shapes import (
    Fault,
    Shape,
    amount,
    anything,
    each,
    encoded,
    members,
    needed,
    text,
    values,
)
from windlass.objects.names import JSON, Object

_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_MOST_CHARS = 253

_TEXTS = values(text)
_BYTES = values(encoded)
_MARKED = members(labels=_TEXTS, annotations=_TEXTS)
_SELECTOR = members(matchLabels=_TEXTS, matchExpressions=each(members(key=needed(text))))
_CLAIM_SPEC = members(storageClassName=text, volumeName=text)
_CLAIM = members(metadata=_MARKED, spec=_CLAIM_SPEC)
_HANDLER = members(httpGet=members(), tcpSocket=members())
_CONTAINER = members(
    name=needed(text),
    image=text,
    ports=each(members()),
    resources=members(requests=values(amount), limits=values(amount)),
    securityContext=members(capabilities=members()),
    livenessProbe=_HANDLER,
    readinessProbe=_HANDLER,
    startupProbe=_HANDLER,
    lifecycle=members(postStart=_HANDLER, preStop=_HANDLER),
)
_VOLUME = members(
    name=needed(text),
    projected=members(sources=each(members())),
    ephemeral=members(volumeClaimTemplate=_CLAIM),
    csi=members(driver=needed(text)),
)
_POD = needed(
    members(
        containers=needed(each(_CONTAINER)),
        initContainers=each(_CONTAINER),
        ephemeralContainers=each(_CONTAINER),
        volumes=each(_VOLUME),
        securityContext=members(),
        serviceAccountName=text,
        serviceAccount=text,
        schedulerName=text,
    )
)
_TEMPLATE = needed(members(metadata=_MARKED, spec=_POD))
_JOB = members(selector=_SELECTOR, template=_TEMPLATE)
_WORKLOAD = members(selector=_SELECTOR, template=_TEMPLATE, volumeClaimTemplates=each(_CLAIM))
_TARGET = needed(members(kind=needed(text), name=needed(text)))

_SHAPES: dict[str, Shape] = {
    "ConfigMap": members(data=_TEXTS, binaryData=_BYTES),
    "Secret": members(data=_BYTES, stringData=_TEXTS, type=text),
    "Service": members(spec=members(selector=_TEXTS, ports=each(members()), type=text)),
    "PersistentVolumeClaim": members(spec=_CLAIM_SPEC),
    "Pod": members(spec=_POD),
    "ReplicationController": members(spec=needed(members(selector=_TEXTS, template=_TEMPLATE))),
    "Deployment": members(spec=needed(_WORKLOAD)),
    "StatefulSet": members(spec=needed(_WORKLOAD)),
    "DaemonSet": members(spec=needed(_WORKLOAD)),
    "Job": members(spec=needed(_JOB)),
    "CronJob": members(
        spec=needed(members(jobTemplate=needed(members(metadata=_MARKED, spec=needed(_JOB)))))
    ),
    "HorizontalPodAutoscaler": members(spec=needed(members(scaleTargetRef=_TARGET))),
    "PodDisruptionBudget": members(spec=members(selector=_SELECTOR)),
}


def faults(obj: Object) -> Iterator[Fault]:
    """Everything that is wrong with the shape of an object of an allowed kind."""
    yield from anything(obj, "")
    yield from _METADATA(obj.get("metadata"), "metadata")
    yield from _SHAPES.get(str(obj.get("kind")), members())(obj, "")


def _name(value: JSON, path: str) -> Iterator[Fault]:
    if not isinstance(value, str):
        yield from text(value, path)
    elif len(value) > _MOST_CHARS or not _NAME.fullmatch(value):
        yield path, "it must be lower case letters, digits, - and ., at most 253 of them"


_METADATA = needed(members(name=needed(_name), namespace=text, labels=_TEXTS, annotations=_TEXTS))
