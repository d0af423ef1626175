"""Takes away everything that was made for an Environment, and nothing else.

    found                                     does
    ----------------------------------------  ------------------------------------------
    a namespace with our uid                  delete it, naming its own uid
    such a namespace, still there             say what holds it, look again
    none                                      take the finalizer off

Neither the Project nor the spec is needed: the one may be gone, the other broken. What the
status says of a namespace is believed only where the namespace confirms it. Finalizers of
others are theirs to remove.
"""

from __future__ import annotations

from windlass.api.kinds import environment
from windlass.base.clock import Clock
from windlass.environments.cache import project_ref
from windlass.environments.decide.names import Identity
from windlass.environments.measures import Measures, moment
from windlass.environments.spaces import Spaces, blockers
from windlass.kube.api import Api
from windlass.objects.names import Key, Object
from windlass.runtime import finalizer
from windlass.runtime.events import EventRecorder, ObjectRef
from windlass.runtime.outcome import Outcome, OutcomeEvent, Verdict

_FIRST_LOOK_SECONDS = 5.0
_SLOWEST_LOOK_SECONDS = 60.0
_BLOCKED = "DeletionBlocked"


class Departures:
    """Environments on their way out."""

    def __init__(
        self,
        api: Api,
        spaces: Spaces,
        measures: Measures,
        recorder: EventRecorder,
        clock: Clock,
        *,
        field_manager: str,
    ) -> None:
        self._api = api
        self._recorder = recorder
        self._spaces = spaces
        self._measures = measures
        self._clock = clock
        self._field_manager = field_manager

    async def go(self, obj: Object) -> Outcome:
        """One pass over an Environment that is being deleted."""
        if not finalizer.has_finalizer(obj, environment.FINALIZER):
            return Outcome.gone()
        uid, known = obj["metadata"]["uid"], (obj.get("status") or {}).get("namespace") or ""
        left = [
            live
            for name in await self._spaces.made_for(identity_of(obj), uid, known)
            if (live := await self._spaces.remove(name, uid)) is not None
        ]
        if left:
            return self._waiting(left, obj)
        if known:
            self._measures.departed(_key(obj), self._waited(obj))
            text = "everything that was made for it is gone"
            await self._recorder.record(
                ObjectRef.of(obj), "Normal", "NamespaceDeleted", text, transition=uid
            )
        await finalizer.remove_finalizer(
            self._api,
            environment.KIND.gvr,
            obj,
            environment.FINALIZER,
            field_manager=self._field_manager,
        )
        return Outcome.gone()

    def _waiting(self, left: list[Object], obj: Object) -> Outcome:
        names = " ".join(live["metadata"]["name"] for live in left)
        blocked = [text for live in left for text in blockers(live)][:5]
        self._measures.departing(_key(obj), is_blocked=bool(blocked))
        text = f"namespace {names} is being deleted"
        if blocked:
            text += f"; blocked by {blocked[0]} (kubectl get namespace {names} -o yaml)"
        return Outcome(
            Verdict("False", "Deleting", text),
            reconciling=True,
            because=_BLOCKED if blocked else "",
            fields={
                "phase": "Deleting",
                "message": text[:1024],
                "deletion": {
                    "startedAt": obj["metadata"]["deletionTimestamp"],
                    "blockedBy": blocked or None,
                },
            },
            requeue_after=min(
                _SLOWEST_LOOK_SECONDS, max(_FIRST_LOOK_SECONDS, self._waited(obj) / 4)
            ),
            events=(OutcomeEvent("Warning", _BLOCKED, text),) if blocked else (),
        )

    def _waited(self, obj: Object) -> float:
        since = moment(obj["metadata"]["deletionTimestamp"])
        return max(0.0, (self._clock.now() - since).total_seconds())


def identity_of(obj: Object) -> Identity:
    """Which Environment this is."""
    metadata = obj["metadata"]
    project = str(project_ref(obj).get("name") or "")
    return Identity(metadata["namespace"], project, metadata["name"])


def _key(obj: Object) -> Key:
    return Key(obj["metadata"]["namespace"], obj["metadata"]["name"])
