"""Reconcile requests: annotations by which a person says "look now".

Any new value of either annotation is a request. The newest one is acknowledged in
`status.lastHandledReconcileAt`: values that are RFC 3339 times are compared as times
and beat values that are not; among the others our own annotation beats the foreign
one. The choice depends on the annotations alone, so an acknowledged pair stays
acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from windlass.objects.names import JSON, Object

ANNOTATIONS = ("windlass.dev/requestedAt", "reconcile.fluxcd.io/requestedAt")
ACKNOWLEDGEMENT = "lastHandledReconcileAt"

_NEVER = datetime.min.replace(tzinfo=UTC)


def newest(annotations: Mapping[str, str]) -> str | None:
    """The newest request an object carries, handled or not."""
    values = [annotations[name] for name in ANNOTATIONS if annotations.get(name)]
    return max(values, key=_moment, default=None)


def pending(status: Object, annotations: Mapping[str, str]) -> str | None:
    """The request that `status` does not acknowledge yet."""
    value = newest(annotations)
    return value if value != status.get(ACKNOWLEDGEMENT) else None


def annotations_of(obj: Object) -> dict[str, str]:
    """The request annotations of an object."""
    found: JSON = (obj.get("metadata") or {}).get("annotations") or {}
    return {name: found[name] for name in ANNOTATIONS if isinstance(found.get(name), str)}


def _moment(value: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return _NEVER
    return moment if moment.tzinfo is not None else _NEVER
