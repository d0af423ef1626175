"""Client that writes the objects of a bundle into one namespace.

Every write is made as the namespace's own `windlass-applier`, whose role covers exactly the
kinds a project may bring, in this one namespace. Objects that cannot be changed in place
are recreated where nothing that counts is lost by it, or where an annotation allows it.

Whether a refused change would be valid as a new object is not read from the text of the refusal,
which differs from kind to kind: it is tried as a dry run, under a name that is not in use.
"""

from __future__ import annotations

from windlass.base import failpoint
from windlass.environments import owned_objects
from windlass.environments.bundle import bundle as bundles
from windlass.environments.bundle.bundle import Member
from windlass.environments.bundle.labeling import RECREATE
from windlass.environments.inventory import FIELD_MANAGER
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import Conflict, Forbidden, Invalid, NotFound
from windlass.objects.names import GVR, Object
from windlass.runtime.owned import OwnedObjects

_RECREATED_KINDS = frozenset({"Deployment", "Job", "Pod", "ReplicationController"})
_DRY_RUN_NAME = "windlass-would-this-do"


class ObjectTerminating(Exception):
    """An object has to be gone before it can be made anew."""


class ImmutableObject(Exception):
    """An object is sound, but what is there cannot become it; `fields` are in the way."""

    def __init__(self, fields: tuple[str, ...]) -> None:
        super().__init__("the object cannot be changed in place")
        self.fields = fields


class NamespaceClient:
    """The applier of `place`."""

    def __init__(self, connection: Connection, place: str) -> None:
        self.namespace = place
        self._api = Api(connection, acting_as=owned_objects.applier_user(place))
        self.owned = OwnedObjects(self._api, FIELD_MANAGER)

    async def write(self, member: Member, wanted: Object, live: Object | None) -> Object:
        """`wanted` on the server; Leaving if the old one has to go, Unchangeable if it may not."""
        if live is not None and live["metadata"].get("deletionTimestamp"):
            raise ObjectTerminating
        failpoint.reach("environments.apply.before")
        try:
            if live is not None and bundles.replaces_pods(wanted, live):
                applied = await self._recreate(member, wanted, live)
            else:
                applied = await self.owned.ensure(member.gvr, wanted, live)
        except Invalid as error:
            old = live or await self.read(member.gvr, member.name)
            if old is None or not await self._is_valid_as_new(member, wanted):
                raise
            if not _may_recreate(member):
                raise ImmutableObject(error.fields) from error
            applied = await self._recreate(member, wanted, old)
        failpoint.reach("environments.apply.after")
        return applied

    async def read(self, gvr: GVR, name: str) -> Object | None:
        try:
            return await self._api.get(gvr, name, self.namespace)
        except NotFound:
            return None

    async def remove(self, gvr: GVR, live: Object) -> None:
        """Delete this very object; a namesake made in between survives."""
        metadata = live["metadata"]
        failpoint.reach("environments.prune.before")
        try:
            await self._api.delete(
                gvr, metadata["name"], self.namespace, uid=metadata["uid"], propagation="Background"
            )
        except (NotFound, Conflict):
            return
        failpoint.reach("environments.prune.after")

    async def _is_valid_as_new(self, member: Member, wanted: Object) -> bool:
        """Whether the API server would take `wanted` if nothing were there yet."""
        stranger = {**wanted, "metadata": {**wanted["metadata"], "name": _DRY_RUN_NAME}}
        try:
            await self._api.create(member.gvr, stranger, field_manager=FIELD_MANAGER, dry_run=True)
        except Invalid:
            return False
        except Forbidden:
            # Quota and Pod Security are asked last, after the object was found sound.
            return True
        return True

    async def _recreate(self, member: Member, wanted: Object, live: Object) -> Object:
        await self.remove(member.gvr, live)
        left = await self.read(member.gvr, member.name)
        if left is not None and left["metadata"]["uid"] == live["metadata"]["uid"]:
            raise ObjectTerminating
        return await self.owned.ensure(member.gvr, wanted, None)


def _may_recreate(member: Member) -> bool:
    """Whether deleting loses nothing that counts, or somebody said that it may be lost."""
    annotations = member.object["metadata"]["annotations"]
    return member.kind in _RECREATED_KINDS or annotations.get(RECREATE) == "true"
