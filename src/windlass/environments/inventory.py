"""The release state of an Environment: the inventory of applied objects, and the desired revision.

Kept in the ConfigMap `windlass-inventory` inside its namespace, so it comes and goes with it.

Entries are added before anything is applied and removed after everything stale was deleted. So a
crash at any point may leave an entry without an object, never an object without an entry. An
object is deleted only if it is listed, carries our labels, is no longer desired, and is the very
one that was applied: by the uid that was recorded, or, if a crash came before the recording, by
its managedFields. Volume claims are deleted only if an annotation allows it.

The revision has a number, and the times at which it began and first was ready. Text that cannot
be decoded counts as an empty state. Then revisions are numbered on from the one in the status,
the inventory is recovered from the cluster, and the next revision is an upgrade if the status
says that one has been serving. Only a Secret that is no longer desired can be missed, because no
role lists Secrets, and it is deleted with the namespace.

Called by `apply.bundle_applier`, which alone writes the ConfigMap.

Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeVar

import msgspec

from windlass.api.install.environment_objects import ALLOWED_KINDS
from windlass.environments import ownership
from windlass.environments.bundle import kinds
from windlass.environments.bundle.bundle import APPLIED_HASH, Bundle, Member
from windlass.environments.bundle.labeling import PRUNE
from windlass.objects.names import GVR, Object

FIELD_MANAGER = "windlass-bundle"
"""The field manager of all objects of a bundle."""

_RETAINED_KINDS = frozenset({"PersistentVolumeClaim"})
_EARLIER_REVISION = "earlier"
"""Value of `InventoryEntry.done` for a hook that ran for an earlier revision only; no hash."""


ObjectIdentity = tuple[str, str, str]
"""Group, kind and name of an object in the namespace of the Environment."""


class InventoryEntry(msgspec.Struct, frozen=True, order=True):
    """One object that we applied.

    `uid` is empty until the object exists. `done` is the applied hash with which a Job or Pod ran
    to completion: it is then finished for good, also if it is deleted later. A hook that ran for
    an earlier revision only has `_EARLIER_REVISION` there.
    """

    group: str
    kind: str
    name: str
    uid: str = ""
    done: str = ""

    @property
    def identity(self) -> ObjectIdentity:
        return self.group, self.kind, self.name


Inventory = tuple[InventoryEntry, ...]


def add_bundle(inventory: Inventory, bundle: Bundle) -> Inventory:
    """The inventory with an entry for each member of `bundle`, which is about to be applied."""
    entries = {entry.identity: entry for entry in inventory}
    for member in bundle.all_members:
        entry = InventoryEntry(member.gvr.group, member.kind, member.name)
        entries.setdefault(entry.identity, entry)
    return tuple(sorted(entries.values()))


def recover_inventory(live_objects: Iterable[Object], owner_uid: str) -> Inventory:
    """A lost inventory, rebuilt from the live objects with our owner uid and applied hash.

    Objects that a controller created for one of them carry our labels, but never that annotation.
    """
    return tuple(
        sorted(
            InventoryEntry(
                *kinds.group_kind(obj), str(obj["metadata"]["name"]), str(obj["metadata"]["uid"])
            )
            for obj in live_objects
            if ownership.owner_uid(obj) == owner_uid
            and APPLIED_HASH in (obj["metadata"].get("annotations") or {})
            and kinds.allowed_kind(obj) is not None
        )
    )


def with_uids(inventory: Inventory, applied: Iterable[Object]) -> Inventory:
    """The inventory with the uids of the applied objects."""
    uids = {
        (*kinds.group_kind(obj), str(obj["metadata"]["name"])): str(obj["metadata"]["uid"])
        for obj in applied
    }
    return tuple(
        msgspec.structs.replace(entry, uid=uids.get(entry.identity, entry.uid))
        for entry in inventory
    )


def mark_finished(inventory: Inventory, finished: Mapping[ObjectIdentity, str]) -> Inventory:
    """The inventory with completed Jobs and Pods, given by the applied hash they ran with."""
    return tuple(
        msgspec.structs.replace(entry, done=finished.get(entry.identity, entry.done))
        for entry in inventory
    )


def reset_hooks(inventory: Inventory, hooks: Iterable[Member]) -> Inventory:
    """The inventory with `hooks` due again: each revision runs its hooks, whatever ran before."""
    identities = {(member.gvr.group, member.kind, member.name) for member in hooks}
    return tuple(
        msgspec.structs.replace(entry, done=_EARLIER_REVISION)
        if entry.done and entry.identity in identities
        else entry
        for entry in inventory
    )


def ran_for_earlier_revision(inventory: Inventory, live: Object) -> bool:
    """Whether a live hook completed for an earlier revision, so it must run again for this one."""
    identity, uid = (*kinds.group_kind(live), live["metadata"]["name"]), live["metadata"]["uid"]
    return any(
        entry.done == _EARLIER_REVISION and entry.uid == uid
        for entry in inventory
        if entry.identity == identity
    )


def is_finished(inventory: Inventory, member: Member) -> bool:
    """Whether a Job or Pod has already completed with exactly this content."""
    identity = (member.gvr.group, member.kind, member.name)
    return any(
        entry.done == member.applied_hash for entry in inventory if entry.identity == identity
    )


def remove_entries(inventory: Inventory, gone: Iterable[InventoryEntry]) -> Inventory:
    """The inventory without the entries `gone`."""
    identities = {entry.identity for entry in gone}
    return tuple(entry for entry in inventory if entry.identity not in identities)


def stale_entries(inventory: Inventory, bundle: Bundle) -> Inventory:
    """The entries that `bundle` no longer contains."""
    desired = {(member.gvr.group, member.kind, member.name) for member in bundle.all_members}
    return tuple(entry for entry in inventory if entry.identity not in desired)


def may_delete(entry: InventoryEntry, live: Object, owner_uid: str) -> bool:
    """Whether a live object is the listed one, is ours, and is not retained."""
    metadata = live["metadata"]
    if ownership.owner_uid(live) != owner_uid:
        return False
    # Another uid is fine if we applied it: a crash may have come before the uid was recorded.
    if metadata["uid"] != entry.uid and not _applied_by_us(live):
        return False
    if entry.kind not in _RETAINED_KINDS:
        return True
    return (metadata.get("annotations") or {}).get(PRUNE) == "true"


def _applied_by_us(live: Object) -> bool:
    rows = live["metadata"].get("managedFields") or []
    return any(
        row.get("manager") == FIELD_MANAGER and row.get("operation") == "Apply" for row in rows
    )


def entry_gvr(entry: InventoryEntry) -> GVR | None:
    """The resource of a listed object; None for a kind that is no longer allowed."""
    allowed = ALLOWED_KINDS.get((entry.group, entry.kind))
    return allowed.gvr if allowed is not None else None


_T = TypeVar("_T")

_INVENTORY_KEY = "inventory"
_REVISION_KEY = "revision"


class ReleaseRevision(msgspec.Struct, frozen=True, omit_defaults=True):
    """One desired state.

    `digest` is that of its bundle; `began` and `ready` are wall-clock times in whole seconds,
    `ready` is None until it was ready once. It is an upgrade if any earlier revision was ready.
    """

    number: int = 0
    digest: str = ""
    began: datetime | None = None
    ready: datetime | None = None
    is_upgrade: bool = False


class ReleaseState(msgspec.Struct, frozen=True):
    """Everything that is stored about the releases of one Environment."""

    inventory: Inventory = ()
    revision: ReleaseRevision = ReleaseRevision()


def decode_state(config_map: Object | None) -> ReleaseState:
    """The release state in a ConfigMap; empty if there is none or it cannot be decoded."""
    data = (config_map or {}).get("data") or {}
    return _decode_texts(str(data.get(_INVENTORY_KEY) or ""), str(data.get(_REVISION_KEY) or ""))


@functools.lru_cache(maxsize=256)
def _decode_texts(entries: str, revision: str) -> ReleaseState:
    """Cached, as one reconcile reads the same state many times."""
    return ReleaseState(
        tuple(_decode_json(entries, list[InventoryEntry]) or ()),
        _decode_json(revision, ReleaseRevision) or ReleaseRevision(),
    )


def encode_state(state: ReleaseState) -> dict[str, str]:
    """The data of the ConfigMap that holds `state`."""
    return {
        _INVENTORY_KEY: msgspec.json.encode(sorted(state.inventory)).decode(),
        _REVISION_KEY: msgspec.json.encode(state.revision).decode(),
    }


def recover_state(
    state: ReleaseState, live_objects: Iterable[Object], owner_uid: str
) -> ReleaseState:
    """`state`, with the inventory rebuilt from `live_objects` if it has none."""
    if state.inventory:
        return state
    return ReleaseState(recover_inventory(live_objects, owner_uid), state.revision)


def begin_revision(
    state: ReleaseState,
    bundle: Bundle,
    now: datetime,
    *,
    at_least: int = 0,
    was_serving: bool = False,
) -> ReleaseState:
    """The state before `bundle` is applied: all members listed, a new revision if it differs.

    `at_least` is the revision in the status; a state that was lost is numbered on from there.
    `was_serving` says that the status names a serving revision: if a state was lost while objects
    remain, the new revision is an upgrade. Without objects the namespace is a new one.
    """
    revision, entries = state.revision, state.inventory
    if revision.digest != bundle.digest or revision.number < at_least:
        entries = reset_hooks(entries, bundle.hooks)
        is_lost = not revision.number and bool(entries)
        was_ready = revision.is_upgrade or revision.ready is not None
        number = max(revision.number, at_least) + 1
        revision = ReleaseRevision(
            number,
            bundle.digest,
            _whole_seconds(now),
            is_upgrade=was_ready or (is_lost and was_serving),
        )
    return ReleaseState(add_bundle(entries, bundle), revision)


def restart_revision(state: ReleaseState, now: datetime) -> ReleaseState:
    """The same revision with its full deadline again."""
    revision = msgspec.structs.replace(state.revision, began=_whole_seconds(now))
    return ReleaseState(state.inventory, revision)


def record_hook_end(
    state: ReleaseState, live: Object, finished: Mapping[ObjectIdentity, str]
) -> ReleaseState:
    """The state after a hook completed: it does not run again in this revision."""
    with_live_uids = with_uids(state.inventory, (live,))
    return ReleaseState(mark_finished(with_live_uids, finished), state.revision)


def record_applied(
    state: ReleaseState, live_objects: Iterable[Object], gone: Iterable[InventoryEntry]
) -> ReleaseState:
    """The state after all members were applied and stale objects deleted."""
    with_live_uids = with_uids(state.inventory, live_objects)
    return ReleaseState(remove_entries(with_live_uids, gone), state.revision)


def record_rollout(
    state: ReleaseState, finished: Mapping[ObjectIdentity, str], *, is_ready: bool, now: datetime
) -> ReleaseState:
    """The state after a check of the rollout: completed Jobs, and the first time it was ready."""
    revision = state.revision
    if is_ready and revision.ready is None:
        revision = msgspec.structs.replace(revision, ready=_whole_seconds(now))
    return ReleaseState(mark_finished(state.inventory, finished), revision)


def _decode_json(text: str, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return None


def _whole_seconds(time: datetime) -> datetime:
    return time.replace(microsecond=0)
