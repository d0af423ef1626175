"""Client that writes the objects of a bundle into one namespace.

Every write impersonates the namespace's own `windlass-applier`, whose role covers exactly the
kinds that a bundle may contain, in this one namespace. Objects that cannot be changed in place
are recreated if they hold no data of their own, or if an annotation allows it.

Whether a refused change would be valid as a new object is not read from the text of the refusal,
which differs from kind to kind: it is tried as a dry run, under a name that is not in use.

Created and called by `bundle_applier`.
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
"""Kinds that may be deleted and created again: nothing but their pods is lost."""

_DRY_RUN_NAME = "windlass-would-this-do"


class ObjectTerminating(Exception):
    """The `live` object is terminating and can be created again only once it is gone."""

    def __init__(self, live: Object) -> None:
        super().__init__("the object is terminating")
        self.live = live


class ImmutableObject(Exception):
    """An object is valid, but the live one cannot become it: `fields` are immutable."""

    def __init__(self, fields: tuple[str, ...]) -> None:
        super().__init__("the object cannot be changed in place")
        self.fields = fields


class NamespaceClient:
    """Reads and writes as the applier of `namespace`."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self.namespace = namespace
        self._api = Api(connection, acting_as=owned_objects.applier_user(namespace))
        self.owned = OwnedObjects(self._api, FIELD_MANAGER)

    async def write(self, member: Member, desired: Object, live: Object | None) -> Object:
        """Apply `desired`; recreate it where it cannot be changed in place.

        Raises ObjectTerminating while the old object goes away, ImmutableObject if it may not be
        deleted.
        """
        if live is not None and live["metadata"].get("deletionTimestamp"):
            raise ObjectTerminating(live)
        failpoint.reach("environments.apply.before")
        try:
            if live is not None and bundles.replaces_pods(desired, live):
                applied = await self._recreate(member, desired, live)
            else:
                applied = await self.owned.ensure(member.gvr, desired, live)
        except Invalid as error:
            existing = live or await self.read(member.gvr, member.name)
            if existing is None or not await self._is_valid_as_new(member, desired):
                raise
            if not _may_recreate(member):
                raise ImmutableObject(error.fields) from error
            applied = await self._recreate(member, desired, existing)
        failpoint.reach("environments.apply.after")
        return applied

    async def read(self, gvr: GVR, name: str) -> Object | None:
        try:
            return await self._api.get(gvr, name, self.namespace)
        except NotFound:
            return None

    async def remove(self, gvr: GVR, live: Object) -> None:
        """Delete exactly this object, by its uid; one recreated under its name survives."""
        metadata = live["metadata"]
        failpoint.reach("environments.prune.before")
        try:
            await self._api.delete(
                gvr, metadata["name"], self.namespace, uid=metadata["uid"], propagation="Background"
            )
        except (NotFound, Conflict):
            return
        failpoint.reach("environments.prune.after")

    async def _is_valid_as_new(self, member: Member, desired: Object) -> bool:
        """Whether the API server would accept `desired` as a new object."""
        renamed = {**desired, "metadata": {**desired["metadata"], "name": _DRY_RUN_NAME}}
        try:
            await self._api.create(member.gvr, renamed, field_manager=FIELD_MANAGER, dry_run=True)
        except Invalid:
            return False
        except Forbidden:
            # Quota and Pod Security are checked last, after validation of the object.
            return True
        return True

    async def _recreate(self, member: Member, desired: Object, live: Object) -> Object:
        await self.remove(member.gvr, live)
        remaining = await self.read(member.gvr, member.name)
        if remaining is not None and remaining["metadata"]["uid"] == live["metadata"]["uid"]:
            raise ObjectTerminating(remaining)
        return await self.owned.ensure(member.gvr, desired, None)


def _may_recreate(member: Member) -> bool:
    """Whether deleting the object loses no data, or an annotation allows it."""
    annotations = member.object["metadata"]["annotations"]
    return member.kind in _RECREATED_KINDS or annotations.get(RECREATE) == "true"
