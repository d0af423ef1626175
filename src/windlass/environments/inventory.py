"""The release state of an Environment: the inventory of applied objects, and the desired revision.

Kept in the ConfigMap `windlass-inventory` inside its namespace, so it comes and goes with it.

The inventory is widened before anything is applied and narrowed after everything stale was
deleted. So a crash at any point leaves an object listed that may be missing, never an object
that is not listed. An object is deleted only if it is listed, carries our labels, is not desired
any more, and is the very one that was applied: by the uid that was recorded, or, if a crash came
before the recording, by its managedFields. Volume claims go only if an annotation asks for it.

The revision has a number, and the times at which it began and first was ready. Text that cannot
be read counts as an empty state. Then revisions are counted on from the one that was last
reported, and the inventory is recovered from the cluster; only a Secret that is no longer
desired can be missed, because no role lists Secrets, and it goes with the namespace.

Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeVar

import msgspec

from windlass.environments import ownership
from windlass.environments.bundle import kinds
from windlass.environments.bundle.bundle import APPLIED_HASH, Bundle, Member
from windlass.environments.bundle.labeling import PRUNE
from windlass.objects.names import GVR, Object

FIELD_MANAGER = "windlass-bundle"
"""As whom objects of a bundle are applied."""

_RETAINED_KINDS = frozenset({"PersistentVolumeClaim"})
_EARLIER_REVISION = "earlier"


ObjectIdentity = tuple[str, str, str]
"""Group, kind and name of an object in the namespace."""


class InventoryEntry(msgspec.Struct, frozen=True, order=True):
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
    def identity(self) -> ObjectIdentity:
        return self.group, self.kind, self.name


Inventory = tuple[InventoryEntry, ...]


def add_bundle(inventory: Inventory, bundle: Bundle) -> Inventory:
    """With everything that is about to be applied."""
    known = {entry.identity: entry for entry in inventory}
    for member in bundle.all_members:
        entry = InventoryEntry(member.gvr.group, member.kind, member.name)
        known.setdefault(entry.identity, entry)
    return tuple(sorted(known.values()))


def recover_inventory(present: Iterable[Object], owner_uid: str) -> Inventory:
    """An inventory that was lost, from the objects that say themselves that we applied them.

    What a controller made from one of them carries our labels, but never this annotation.
    """
    return tuple(
        sorted(
            InventoryEntry(
                *kinds.group_kind(obj), str(obj["metadata"]["name"]), str(obj["metadata"]["uid"])
            )
            for obj in present
            if ownership.owner_uid(obj) == owner_uid
            and APPLIED_HASH in (obj["metadata"].get("annotations") or {})
            and kinds.allowed_kind(obj) is not None
        )
    )


def with_uids(inventory: Inventory, applied: Iterable[Object]) -> Inventory:
    """With the uids that the server gave."""
    uids = {
        (*kinds.group_kind(obj), str(obj["metadata"]["name"])): str(obj["metadata"]["uid"])
        for obj in applied
    }
    return tuple(
        msgspec.structs.replace(entry, uid=uids.get(entry.identity, entry.uid))
        for entry in inventory
    )


def mark_finished(inventory: Inventory, ended: Mapping[ObjectIdentity, str]) -> Inventory:
    """With the Jobs and Pods that ran to their end, by the hash under which they did."""
    return tuple(
        msgspec.structs.replace(entry, done=ended.get(entry.identity, entry.done))
        for entry in inventory
    )


def reset_hooks(inventory: Inventory, hooks: Iterable[Member]) -> Inventory:
    """With all hooks before them again: a revision runs its own, whatever ran for others."""
    names = {(member.gvr.group, member.kind, member.name) for member in hooks}
    return tuple(
        msgspec.structs.replace(entry, done=_EARLIER_REVISION)
        if entry.done and entry.identity in names
        else entry
        for entry in inventory
    )


def ran_for_earlier_revision(inventory: Inventory, live: Object) -> bool:
    """Whether a live hook ran to its end for a revision before, so that it is not this one's."""
    identity, uid = (*kinds.group_kind(live), live["metadata"]["name"]), live["metadata"]["uid"]
    return any(
        entry.done == _EARLIER_REVISION and entry.uid == uid
        for entry in inventory
        if entry.identity == identity
    )


def is_finished(inventory: Inventory, member: Member) -> bool:
    """Whether this very Job or Pod has already run to its end."""
    identity = (member.gvr.group, member.kind, member.name)
    return any(
        entry.done == member.applied_hash for entry in inventory if entry.identity == identity
    )


def remove_entries(inventory: Inventory, gone: Iterable[InventoryEntry]) -> Inventory:
    """Without what need no longer be listed."""
    identities = {entry.identity for entry in gone}
    return tuple(entry for entry in inventory if entry.identity not in identities)


def stale_entries(inventory: Inventory, bundle: Bundle) -> Inventory:
    """What is listed and no longer wanted."""
    wanted = {(member.gvr.group, member.kind, member.name) for member in bundle.all_members}
    return tuple(entry for entry in inventory if entry.identity not in wanted)


def may_delete(entry: InventoryEntry, live: Object, owner_uid: str) -> bool:
    """Whether a live object is the one that was listed, and ours to delete."""
    metadata = live["metadata"]
    if ownership.owner_uid(live) != owner_uid:
        return False
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
    """Where a listed object lives; None for a kind that is no longer allowed."""
    found = kinds.ALLOWED_KINDS.get((entry.group, entry.kind))
    return found.gvr if found is not None else None


CONFIG_MAP_NAME = "windlass-inventory"

_T = TypeVar("_T")

_INVENTORY_KEY = "inventory"
_REVISION_KEY = "revision"


class ReleaseRevision(msgspec.Struct, frozen=True, omit_defaults=True):
    """One wished state; `digest` is that of its bundle.

    It is an upgrade if a revision before it was ready, and stays so.
    """

    number: int = 0
    digest: str = ""
    began: datetime | None = None
    ready: datetime | None = None
    is_upgrade: bool = False


class ReleaseState(msgspec.Struct, frozen=True):
    """Everything remembered of one Environment."""

    inventory: Inventory = ()
    revision: ReleaseRevision = ReleaseRevision()


def decode_state(config_map: Object | None) -> ReleaseState:
    """The ledger in its ConfigMap."""
    data = (config_map or {}).get("data") or {}
    return _decode_texts(str(data.get(_INVENTORY_KEY) or ""), str(data.get(_REVISION_KEY) or ""))


@functools.lru_cache(maxsize=256)
def _decode_texts(entries: str, revision: str) -> ReleaseState:
    """A pass looks at its ledger again and again."""
    return ReleaseState(
        tuple(_decode_json(entries, list[InventoryEntry]) or ()),
        _decode_json(revision, ReleaseRevision) or ReleaseRevision(),
    )


def encode_state(ledger: ReleaseState) -> dict[str, str]:
    """The data of its ConfigMap."""
    return {
        _INVENTORY_KEY: msgspec.json.encode(sorted(ledger.inventory)).decode(),
        _REVISION_KEY: msgspec.json.encode(ledger.revision).decode(),
    }


def recover_state(ledger: ReleaseState, present: Iterable[Object], owner_uid: str) -> ReleaseState:
    """A ledger without inventory, with the one that the cluster shows."""
    if ledger.inventory:
        return ledger
    return ReleaseState(recover_inventory(present, owner_uid), ledger.revision)


def begin_revision(
    ledger: ReleaseState, bundle: Bundle, now: datetime, *, at_least: int = 0
) -> ReleaseState:
    """Before anything of `bundle` is applied: all of it listed, its revision numbered.

    `at_least` is the newest number that was reported; a ledger that lost count goes on there.
    """
    revision, listed = ledger.revision, ledger.inventory
    if revision.digest != bundle.digest or revision.number < at_least:
        listed = reset_hooks(listed, bundle.hooks)
        is_upgrade = revision.is_upgrade or revision.ready is not None
        number = max(revision.number, at_least) + 1
        revision = ReleaseRevision(
            number, bundle.digest, _whole_seconds(now), is_upgrade=is_upgrade
        )
    return ReleaseState(add_bundle(listed, bundle), revision)


def restart_revision(ledger: ReleaseState, now: datetime) -> ReleaseState:
    """The same revision with all of its time before it."""
    revision = msgspec.structs.replace(ledger.revision, began=_whole_seconds(now))
    return ReleaseState(ledger.inventory, revision)


def record_hook_end(
    ledger: ReleaseState, live: Object, ended: Mapping[ObjectIdentity, str]
) -> ReleaseState:
    """After a hook ran to its end: it is done for good in this revision."""
    named = with_uids(ledger.inventory, (live,))
    return ReleaseState(mark_finished(named, ended), ledger.revision)


def record_applied(
    ledger: ReleaseState, present: Iterable[Object], gone: Iterable[InventoryEntry]
) -> ReleaseState:
    """After everything was applied and what was stale is gone."""
    named = with_uids(ledger.inventory, present)
    return ReleaseState(remove_entries(named, gone), ledger.revision)


def record_rollout(
    ledger: ReleaseState, ended: Mapping[ObjectIdentity, str], *, is_ready: bool, now: datetime
) -> ReleaseState:
    """After a look: Jobs that ended are done for good, a first readiness is noted."""
    revision = ledger.revision
    if is_ready and revision.ready is None:
        revision = msgspec.structs.replace(revision, ready=_whole_seconds(now))
    return ReleaseState(mark_finished(ledger.inventory, ended), revision)


def _decode_json(text: str, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return None


def _whole_seconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)
