"""One namespace's applier at work.

Every write is made as the namespace's own `windlass-applier`, whose role covers exactly the
kinds a project may bring, in this one namespace. Objects that cannot be changed in place
are made anew where nothing that counts is lost by it, or where they say themselves that
it may be.
"""

from __future__ import annotations

from windlass.base import failpoint
from windlass.environments import refusals
from windlass.environments.decide import owned_objects
from windlass.environments.decide.bundle import RECREATE, Member
from windlass.environments.decide.inventory import FIELD_MANAGER
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import Conflict, Invalid, NotFound
from windlass.objects.gvr import GVR
from windlass.objects.json import Object
from windlass.runtime.owned import Owned

_MADE_ANEW = frozenset({"Deployment", "Job", "Pod"})


class Leaving(Exception):
    """An object has to be gone before it can be made anew."""


class Hand:
    """The applier of `place`."""

    def __init__(self, connection: Connection, place: str) -> None:
        self.place = place
        self._api = Api(connection, acting_as=owned_objects.applier_user(place))
        self.owned = Owned(self._api, FIELD_MANAGER)

    async def write(self, member: Member, wanted: Object, live: Object | None) -> Object:
        """`wanted` on the server; Leaving if something else has to go first."""
        if live is not None and live["metadata"].get("deletionTimestamp"):
            raise Leaving
        failpoint.reach("environments.apply.before")
        try:
            applied = await self.owned.ensure(member.gvr, wanted, live)
        except Invalid as error:
            if live is None or not refusals.is_immutable(error) or not _may_be_made_anew(member):
                raise
            applied = await self._made_anew(member, wanted, live)
        failpoint.reach("environments.apply.after")
        return applied

    async def read(self, gvr: GVR, name: str) -> Object | None:
        try:
            return await self._api.get(gvr, name, self.place)
        except NotFound:
            return None

    async def remove(self, gvr: GVR, live: Object) -> None:
        """Delete this very object; a namesake made in between survives."""
        metadata = live["metadata"]
        failpoint.reach("environments.prune.before")
        try:
            await self._api.delete(
                gvr, metadata["name"], self.place, uid=metadata["uid"], propagation="Background"
            )
        except (NotFound, Conflict):
            return
        failpoint.reach("environments.prune.after")

    async def _made_anew(self, member: Member, wanted: Object, live: Object) -> Object:
        await self.remove(member.gvr, live)
        left = await self.read(member.gvr, member.name)
        if left is not None and left["metadata"]["uid"] == live["metadata"]["uid"]:
            raise Leaving
        return await self.owned.ensure(member.gvr, wanted, None)


def _may_be_made_anew(member: Member) -> bool:
    """Whether deleting loses nothing that counts, or somebody said that it may be lost."""
    annotations = member.object["metadata"]["annotations"]
    return member.kind in _MADE_ANEW or annotations.get(RECREATE) == "true"
