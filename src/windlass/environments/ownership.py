"""Ownership labels and annotations: which Environment an object belongs to.

The owner is the uid of the Environment, as an annotation and, for selecting, as a label; both
must agree. The other labels are for people and never decide anything. A value that is not valid
in a label is sanitized, and cut with a hash, so that two branches never get the same label.

Pure.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from windlass.api.install.environment_objects import ENVIRONMENT_UID
from windlass.objects.names import JSON, Object

NAMESPACE = "catalyst.dev/environment-namespace"
NAME = "catalyst.dev/environment-name"
MANAGED_BY = "app.kubernetes.io/managed-by"
TEAM = "catalyst.dev/team"
BRANCH = "catalyst.dev/branch"

OPERATOR_PREFIXES = ("catalyst.dev/", "windlass.dev/", "pod-security.")
"""Prefixes of labels and annotations that only the operator sets."""

MANAGED_SELECTOR = f"{MANAGED_BY}=windlass"

TEAM_SELECTOR = f"{TEAM},!{ENVIRONMENT_UID}"
"""Namespaces with the administrator's team label, without those that the operator created."""

POD_LABELS = frozenset(
    {
        MANAGED_BY,
        ENVIRONMENT_UID,
        "catalyst.dev/environment",
        "catalyst.dev/project",
    }
)
"""The keys of `Ownership.pod_labels`."""

_MAX_CHARS = 63
_HASH_CHARS = 8


@dataclass(frozen=True, slots=True)
class Ownership:
    """The labels and annotations of everything that is created for one Environment."""

    uid: str  # of the Environment
    namespace: str  # of the Environment's object, not the one created for it
    name: str  # of the Environment
    project: str  # name of its Project
    branch: str = ""  # of its first source; empty = no label
    team: str = ""  # set by the administrator; empty = the namespace of the Environment

    @property
    def annotations(self) -> dict[str, str]:
        return {ENVIRONMENT_UID: self.uid, NAMESPACE: self.namespace, NAME: self.name}

    @property
    def pod_labels(self) -> dict[str, str]:
        """The labels that pods carry too: they never change during the life of the Environment."""
        return {
            MANAGED_BY: "windlass",
            ENVIRONMENT_UID: self.uid,
            "catalyst.dev/environment": label_value(self.name),
            "catalyst.dev/project": label_value(self.project),
        }

    @property
    def labels(self) -> dict[str, str]:
        branch = label_value(self.branch)
        return {
            **self.pod_labels,
            TEAM: label_value(self.team or self.namespace),
            **({BRANCH: branch} if branch else {}),
        }


@functools.lru_cache(maxsize=1024)
def label_value(text: str) -> str:
    """`text` as a valid label value; with a hash at the end if sanitizing lost anything."""
    sanitized = "".join(
        char if char.isascii() and (char.isalnum() or char in "-_.") else "-" for char in text
    )
    sanitized = sanitized.strip("-_.")
    if sanitized == text and len(sanitized) <= _MAX_CHARS:
        return sanitized
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    readable = sanitized[: _MAX_CHARS - _HASH_CHARS - 1].rstrip("-_.")
    return f"{readable}-{digest}" if readable else digest


def owner_uid(obj: Mapping[str, JSON]) -> str:
    """The uid of the owning Environment; empty unless annotation and label agree."""
    metadata: Object = obj.get("metadata") or {}
    by_annotation = (metadata.get("annotations") or {}).get(ENVIRONMENT_UID) or ""
    by_label = (metadata.get("labels") or {}).get(ENVIRONMENT_UID) or ""
    return by_annotation if by_annotation == by_label else ""


def owner_key(obj: Mapping[str, JSON]) -> tuple[str, str]:
    """Namespace and name of the owning Environment by the annotations; may be empty."""
    annotations: Object = (obj.get("metadata") or {}).get("annotations") or {}
    return annotations.get(NAMESPACE) or "", annotations.get(NAME) or ""
