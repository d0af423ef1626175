"""Who a gateway is: the pod it runs in, and the name it goes by (GDS-4).

Replicas of one StatefulSet share labels and annotations, so an ordinal makes the name
their own. The first replica keeps the plain name: scaling up renames nobody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.routing import PREFIX

NAME_ANNOTATION = f"{PREFIX}gateway-name"
NAME_LABEL = "app.kubernetes.io/name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"
# The StatefulSet controller puts the pod's own name here, and nobody else does.
STATEFUL_LABEL = "statefulset.kubernetes.io/pod-name"

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._-]{0,61}[A-Za-z0-9])?")
_ORDINAL = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Pod:
    """A gateway's pod, as far as its tree depends on it."""

    name: str
    namespace: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def said(self, name: str) -> str | None:
        """The value of one of our annotations without blanks around it, None if absent."""
        value = self.annotations.get(PREFIX + name)
        return None if value is None else value.strip()


def ordinal(pod: Pod) -> int | None:
    """Which replica this is; None for a pod that is not one of a row."""
    text = pod.labels.get(INDEX_LABEL, "")
    if not text and pod.labels.get(STATEFUL_LABEL) == pod.name:
        text = pod.name.rpartition("-")[2]
    return int(text) if _ORDINAL.fullmatch(text) else None


def name(pod: Pod) -> str:
    """The gateway's name; `Refused` where the annotation cannot be one."""
    annotated = pod.said("gateway-name")
    if annotated and not _NAME.fullmatch(annotated):
        raise Refused(
            "NoRouting",
            "",
            f"{NAME_ANNOTATION} is {annotated[:63]!r}: letters, digits, blanks, '.', '_' and '-' "
            "are allowed, at most 63, with a letter or digit at both ends",
        )
    shared = annotated or pod.labels.get(NAME_LABEL, "")
    number = ordinal(pod)
    if not shared:
        return pod.name
    return f"{shared}-{number}" if number else shared
