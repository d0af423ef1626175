"""Records Kubernetes Events, which `kubectl describe` shows below an object.

One event per transition. Its name follows from the transition, so recording the same one again
(a repeated reconcile, a second replica) meets the first and changes nothing. Events are best
effort: a failure to record one is logged and never fails a reconcile.
"""

from __future__ import annotations

import hashlib
import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from windlass.base import failpoint
from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import Retryable
from windlass.base.redaction import process, visible
from windlass.kube.errors import AlreadyExists
from windlass.objects.names import GVR, Object
from windlass.objects.resources import EVENTS
from windlass.runtime.outcome import Weight

NOTE_BYTES = 1024

_LONGEST_NAME = 253
_LONGEST_TEXT = 128
_CLUSTER_EVENTS_NAMESPACE = "default"

_log: Any = structlog.get_logger()


class EventCreator(Protocol):
    """The part of `kube.api.Api` that recording needs."""

    async def create(self, gvr: GVR, obj: Object, *, field_manager: str) -> Object: ...


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, obj: Object) -> ObjectRef:
        metadata = obj["metadata"]
        return cls(
            api_version=obj["apiVersion"],
            kind=obj["kind"],
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            uid=metadata.get("uid", ""),
        )


Annotate = Callable[[ObjectRef], Mapping[str, str]]


class EventRecorder:
    """Records events in the name of `component`, such as `windlass.dev/reverser`.

    `annotate` returns the annotations that the events about an object get.
    """

    def __init__(
        self,
        api: EventCreator,
        component: str,
        *,
        instance: str = "",
        clock: Clock | None = None,
        annotate: Annotate = lambda _: {},
    ) -> None:
        self._api = api
        self._component = component
        self._instance = (instance or socket.gethostname() or component)[:_LONGEST_TEXT]
        self._clock = clock or SystemClock()
        self._annotate = annotate

    async def record(
        self,
        ref: ObjectRef,
        weight: Weight,
        reason: str,
        message: str,
        *,
        transition: str = "",
    ) -> None:
        """Record one event; `transition` identifies it, an empty one is always new."""
        event = self._event(ref, weight, reason, message)
        event["metadata"]["name"] = _name(ref, f"{weight}/{reason}/{message}", transition)
        failpoint.reach("runtime.event.before")
        try:
            await self._api.create(EVENTS, event, field_manager=self._component)
        except AlreadyExists:
            return
        except Retryable as error:
            _log.warning(
                "could not record event", regarding=ref.name, said=reason, error=str(error)
            )
        failpoint.reach("runtime.event.after")

    def _event(self, ref: ObjectRef, weight: Weight, reason: str, message: str) -> Object:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "apiVersion": EVENTS.api_version,
            "kind": "Event",
            "metadata": {
                "namespace": ref.namespace or _CLUSTER_EVENTS_NAMESPACE,
                "annotations": dict(self._annotate(ref)),
            },
            "eventTime": now,
            "type": weight,
            "reason": reason[:_LONGEST_TEXT],
            "action": "Reconcile",
            "note": cut_note(visible(process.clean(message))),
            "regarding": _regarding(ref),
            "reportingController": self._component,
            "reportingInstance": self._instance,
        }


def cut_note(text: str) -> str:
    """`text` within the bytes a note may have, ending in an ellipsis where it was longer."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= NOTE_BYTES:
        return raw.decode()
    ellipsis = "…"
    room = NOTE_BYTES - len(ellipsis.encode())
    return raw[:room].decode("utf-8", "ignore") + ellipsis


def _regarding(ref: ObjectRef) -> Object:
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "uid": ref.uid,
    }


def _name(ref: ObjectRef, content: str, transition: str) -> str:
    identity = f"{ref.uid}\n{transition or uuid.uuid4().hex}\n{content}"
    digest = hashlib.blake2b(identity.encode("utf-8", "replace"), digest_size=8).hexdigest()
    stem = ref.name[: _LONGEST_NAME - len(digest) - 1].rstrip("-.")
    return f"{stem}.{digest}"
