"""What was applied, so that what is no longer wanted can be taken away.

The inventory is widened before anything is applied and narrowed after everything that
went was deleted. So a crash at any point leaves an object named that may be missing, never
an object that nobody names. An object is deleted only if it is listed, carries our mark,
is not wanted any more, and is the very one that we applied: by the uid that was noted, or,
if a crash came before the noting, by what the server says about who applied it. Volumes go
only if they say so themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from windlass.environments.decide import kinds, marks
from windlass.environments.decide.bundle import APPLIED_HASH, Bundle, Member
from windlass.environments.decide.marking import PRUNE
from windlass.objects.names import GVR, Object

FIELD_MANAGER = "windlass-bundle"
"""As whom objects of a bundle are applied."""

_KEPT_KINDS = frozenset({"PersistentVolumeClaim"})
_EARLIER = "earlier"


Identity = tuple[str, str, str]
"""Group, kind and name of an object in the namespace."""


class Entry(msgspec.Struct, frozen=True, order=True):
    """One object that we applied.

    Its uid is empty until the server gave it one. `done` is the hash under which a Job or
    Pod ran to its end: then it is finished for good, also when somebody cleans it up. A
    hook that only ran for a revision before has a word there that is no hash.
    """

    group: str
    kind: str
    name: str
    uid: str = ""
    done: str = ""

    @property
    def identity(self) -> Identity:
        return self.group, self.kind, self.name


Inventory = tuple[Entry, ...]


def widened(inventory: Inventory, bundle: Bundle) -> Inventory:
    """With everything that is about to be applied."""
    known = {entry.identity: entry for entry in inventory}
    for member in bundle.everything:
        entry = Entry(member.gvr.group, member.kind, member.name)
        known.setdefault(entry.identity, entry)
    return tuple(sorted(known.values()))


def found(present: Iterable[Object], owner_uid: str) -> Inventory:
    """An inventory that was lost, from the objects that say themselves that we applied them.

    What a controller made from one of them carries our labels, but never this annotation.
    """
    return tuple(
        sorted(
            Entry(*kinds.type_of(obj), str(obj["metadata"]["name"]), str(obj["metadata"]["uid"]))
            for obj in present
            if marks.owner_uid(obj) == owner_uid
            and APPLIED_HASH in (obj["metadata"].get("annotations") or {})
            and kinds.allowed(obj) is not None
        )
    )


def with_uids(inventory: Inventory, applied: Iterable[Object]) -> Inventory:
    """With the uids that the server gave."""
    uids = {
        (*kinds.type_of(obj), str(obj["metadata"]["name"])): str(obj["metadata"]["uid"])
        for obj in applied
    }
    return tuple(
        msgspec.structs.replace(entry, uid=uids.get(entry.identity, entry.uid))
        for entry in inventory
    )


def finished(inventory: Inventory, ended: Mapping[Identity, str]) -> Inventory:
    """With the Jobs and Pods that ran to their end, by the hash under which they did."""
    return tuple(
        msgspec.structs.replace(entry, done=ended.get(entry.identity, entry.done))
        for entry in inventory
    )


def unfinished(inventory: Inventory, hooks: Iterable[Member]) -> Inventory:
    """With all hooks before them again: a revision runs its own, whatever ran for others."""
    names = {(member.gvr.group, member.kind, member.name) for member in hooks}
    return tuple(
        msgspec.structs.replace(entry, done=_EARLIER)
        if entry.done and entry.identity in names
        else entry
        for entry in inventory
    )


def ran_earlier(inventory: Inventory, live: Object) -> bool:
    """Whether a live hook ran to its end for a revision before, so that it is not this one's."""
    identity, uid = (*kinds.type_of(live), live["metadata"]["name"]), live["metadata"]["uid"]
    return any(
        entry.done == _EARLIER and entry.uid == uid
        for entry in inventory
        if entry.identity == identity
    )


def is_finished(inventory: Inventory, member: Member) -> bool:
    """Whether this very Job or Pod has already run to its end."""
    identity = (member.gvr.group, member.kind, member.name)
    return any(
        entry.done == member.applied_hash for entry in inventory if entry.identity == identity
    )


def without(inventory: Inventory, gone: Iterable[Entry]) -> Inventory:
    """Without what need no longer be listed."""
    identities = {entry.identity for entry in gone}
    return tuple(entry for entry in inventory if entry.identity not in identities)


def stale(inventory: Inventory, bundle: Bundle) -> Inventory:
    """What is listed and no longer wanted."""
    wanted = {(member.gvr.group, member.kind, member.name) for member in bundle.everything}
    return tuple(entry for entry in inventory if entry.identity not in wanted)


def may_delete(entry: Entry, live: Object, owner_uid: str) -> bool:
    """Whether a live object is the one that was listed, and ours to delete."""
    metadata = live["metadata"]
    if marks.owner_uid(live) != owner_uid:
        return False
    if metadata["uid"] != entry.uid and not _applied_by_us(live):
        return False
    if entry.kind not in _KEPT_KINDS:
        return True
    return (metadata.get("annotations") or {}).get(PRUNE) == "true"


def _applied_by_us(live: Object) -> bool:
    rows = live["metadata"].get("managedFields") or []
    return any(
        row.get("manager") == FIELD_MANAGER and row.get("operation") == "Apply" for row in rows
    )


def gvr_of(entry: Entry) -> GVR | None:
    """Where a listed object lives; None for a kind that is no longer allowed."""
    found = kinds.ALLOWED.get((entry.group, entry.kind))
    return found.gvr if found is not None else None
