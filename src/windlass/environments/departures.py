"""Takes away everything that was made for an Environment, and nothing else.

    found                                     does
    ----------------------------------------  ------------------------------------------
    a namespace with our uid                  delete it, naming its own uid
    such a namespace, still there             say what holds it, look again
    none                                      take the finalizer off

The Project is not read: it may be gone. What the status says of a namespace is believed
only where the namespace confirms it. Finalizers of others are theirs to remove.
"""

from __future__ import annotations

from datetime import UTC, datetime

from windlass.api import environment
from windlass.api.environment import Environment
from windlass.base.clock import Clock
from windlass.environments.decide.names import Identity
from windlass.environments.spaces import Spaces, blockers
from windlass.kube.api import Api
from windlass.objects.json import Object
from windlass.runtime import finalizer
from windlass.runtime.outcome import Notice, Outcome, Verdict

_FIRST_LOOK_SECONDS = 5.0
_SLOWEST_LOOK_SECONDS = 60.0


class Departures:
    """Environments on their way out."""

    def __init__(self, api: Api, spaces: Spaces, clock: Clock, *, field_manager: str) -> None:
        self._api = api
        self._spaces = spaces
        self._clock = clock
        self._field_manager = field_manager

    async def go(self, found: Environment, obj: Object) -> Outcome:
        """One pass over an Environment that is being deleted."""
        if not finalizer.holds(obj, environment.FINALIZER):
            return Outcome.gone()
        uid = found.metadata.uid
        left = [
            live
            for name in await self._spaces.made_for(identity_of(found), uid, found.status.namespace)
            if (live := await self._spaces.remove(name, uid)) is not None
        ]
        if left:
            return self._waiting(left, obj)
        await finalizer.remove(
            self._api,
            environment.KIND.gvr,
            obj,
            environment.FINALIZER,
            field_manager=self._field_manager,
        )
        return Outcome.gone()

    def _waiting(self, left: list[Object], obj: Object) -> Outcome:
        names = ", ".join(live["metadata"]["name"] for live in left)
        blocked = [text for live in left for text in blockers(live)][:5]
        since = _moment(obj["metadata"]["deletionTimestamp"])
        waited = max(0.0, (self._clock.now() - since).total_seconds())
        text = f"namespace {names} is being deleted"
        if blocked:
            text += f"; it is held up: {blocked[0]} (kubectl get namespace {names} -o yaml)"
        return Outcome(
            Verdict("False", "Deleting", text),
            reconciling=True,
            fields={
                "phase": "Deleting",
                "message": text[:1024],
                "deletion": {
                    "startedAt": obj["metadata"]["deletionTimestamp"],
                    **({"blockedBy": blocked} if blocked else {}),
                },
            },
            requeue_after=min(_SLOWEST_LOOK_SECONDS, max(_FIRST_LOOK_SECONDS, waited / 4)),
            events=(Notice("Warning", "DeletionBlocked", text),) if blocked else (),
        )


def identity_of(found: Environment) -> Identity:
    """Which Environment this is."""
    return Identity(found.metadata.namespace, found.spec.project_ref.name, found.metadata.name)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
